"""`python -m worker`: settings, logs and the exit code.

Exit codes: 0 stopped in order; 1 it crashed; 2 it cannot start until somebody acts, and the one
line on stderr says what to do.
"""

import os
import sys

import uvloop

from shared.configuration.loading import load
from shared.errors import ConfigError, StoreError
from shared.logs import start_logs
from worker.app import provider_keys, serve

EXIT_CANNOT_START = 2


def main() -> int:
    """Runs a worker until SIGTERM or SIGINT and returns the exit code."""
    try:
        loaded = load(os.environ)
        logs = start_logs("worker", loaded.settings, secrets=provider_keys(os.environ))
    except ConfigError as exc:
        return _refuse(exc)
    try:
        uvloop.run(serve(loaded, os.environ))
    except (ConfigError, StoreError) as exc:
        return _refuse(exc)
    finally:
        logs.close()
    return 0


def _refuse(error: Exception) -> int:
    sys.stderr.write(f"turnfleet worker: {error}\n")
    return EXIT_CANNOT_START


if __name__ == "__main__":
    sys.exit(main())

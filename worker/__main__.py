"""`python -m worker`: settings, logs and the exit code.

Exit codes: 0 stopped in order; 1 it crashed; 2 it cannot start until somebody acts, and the one
line on stderr says what to do.
"""

import os
import sys

import uvloop

from shared import at_rest
from shared.collector import set_apart
from shared.configuration.loading import load
from shared.edges.reporter import crash_keeper
from shared.errors import ConfigError, StoreError
from shared.logs import start_logs
from shared.secret_files import with_files
from worker.app import serve, server_secrets

EXIT_CANNOT_START = 2


def main() -> int:
    """Runs a worker until SIGTERM or SIGINT and returns the exit code."""
    try:
        environ = with_files(os.environ)
        loaded = load(environ)
        settings, keys = loaded.settings, server_secrets(loaded, environ)
        at_rest.use(at_rest.keys_of(settings.at_rest_key))
        keep = crash_keeper(settings, f"worker-{os.getpid()}", keys)
        logs = start_logs("worker", settings, secrets=keys, on_crash=keep)
    except ConfigError as exc:
        return _refuse(exc)
    try:
        with logs.until_the_end(ConfigError, StoreError):
            set_apart()
            uvloop.run(serve(loaded, environ))
    except (ConfigError, StoreError) as exc:
        return _refuse(exc)
    return 0


def _refuse(error: Exception) -> int:
    sys.stderr.write(f"turnfleet worker: {error}\n")
    return EXIT_CANNOT_START


if __name__ == "__main__":
    sys.exit(main())

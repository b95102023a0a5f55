"""`python -m gateway`: settings, logs, signals and the exit code.

Exit codes: 0 stopped in order; 1 it crashed; 2 it cannot start or go on until somebody acts, and
the one line on stderr says what to do.
"""

import asyncio
import contextlib
import os
import signal
import sys

import uvloop

from gateway.app import serve
from shared import at_rest
from shared.collector import set_apart
from shared.config import unseen_names
from shared.configuration.loading import Loaded, load
from shared.edges.reporter import crash_keeper
from shared.errors import ConfigError, StoreError
from shared.logs import start_logs, watch_loop
from shared.turns import Front

EXIT_CANNOT_START = 2


def main() -> int:
    """Runs a gateway until SIGTERM or SIGINT and returns the exit code."""
    try:
        loaded = load(os.environ)
        settings = loaded.settings
        if settings.front == Front.DISCORD and (unseen := unseen_names(settings)) is not None:
            raise unseen
        at_rest.use(at_rest.keys_of(settings.at_rest_key))
        keep = crash_keeper(settings, f"gateway-{os.getpid()}")
        logs = start_logs("gateway", settings, on_crash=keep)
    except ConfigError as exc:
        return _refuse(exc)
    try:
        with logs.until_the_end(ConfigError, StoreError):
            uvloop.run(_run(loaded))
    except (ConfigError, StoreError) as exc:
        return _refuse(exc)
    return 0


async def _run(loaded: Loaded) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    watch_loop(loop)
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):  # a platform without signals in loops
            loop.add_signal_handler(number, stop.set)
    set_apart()
    await serve(loaded, stop)


def _refuse(error: Exception) -> int:
    sys.stderr.write(f"turnfleet gateway: {error}\n")
    return EXIT_CANNOT_START


if __name__ == "__main__":
    sys.exit(main())

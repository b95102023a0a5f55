"""A process that crashes in one place, with a secret in its hands and in its error.

`python -m tests.support.crash_process main|thread|loop|warning DIRECTORY`; the secret comes in the
environment, in the setting of the bot's token.
"""

import asyncio
import base64
import os
import sys
import threading
import warnings
from pathlib import Path

from shared.config import load_settings
from shared.edges.reporter import Reporter
from shared.edges.spool import Spool
from shared.logs import secrets_of, start_logs, watch_loop


async def _nowhere(_payload: bytes) -> None:
    raise OSError("no Redis here")


def fail(token: str) -> None:
    """Fails with the secret in the message, as it is and in disguise, and in a local variable."""
    held = [token, {"authorization": f"Bot {token}"}]
    code = base64.b64encode(f"u:{token}".encode()).decode()
    raise RuntimeError(f"{token} {token[::-1]} {code} {token.encode().hex()} {len(held)}")


async def _in_loop(token: str, reporter: Reporter) -> None:
    loop = asyncio.get_running_loop()
    watch_loop(loop, reporter.crashed)
    loop.call_soon(fail, token)
    await asyncio.sleep(0.05)


def main() -> None:
    """Crashes."""
    place, directory = sys.argv[1], Path(sys.argv[2])
    settings = load_settings(os.environ)
    reporter = Reporter(_nowhere, Spool(directory, "crash"), secrets=secrets_of(settings))
    logs = start_logs("crash", settings, on_crash=reporter.crashed)
    token = settings.discord_token or ""
    with logs.until_the_end():
        match place:
            case "main":
                fail(token)
            case "thread":
                thread = threading.Thread(target=fail, args=(token,))
                thread.start()
                thread.join()
            case "loop":
                asyncio.run(_in_loop(token, reporter))
            case _:
                warnings.warn(f"careful with {token}", stacklevel=1)


if __name__ == "__main__":
    main()

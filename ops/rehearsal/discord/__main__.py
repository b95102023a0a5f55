"""`python -m ops.rehearsal.discord`: serves a fake Discord until it is told to stop.

Comes in: command line. Goes out: one line of JSON on stdout, and in `--ready-file`, with what a
gateway needs: `rest_url` for TURNFLEET_DISCORD_REST_URL, `token` for TURNFLEET_DISCORD_TOKEN, and
where a person speaks and presses: `say_url`, `messages_url`, `interact_url`.
"""

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path

from ops.rehearsal.discord.control import control_routes, staged
from ops.rehearsal.discord.server import FakeDiscord


def main(argv: list[str] | None = None) -> int:
    """Parses the command line and serves."""
    parser = argparse.ArgumentParser(prog="python -m ops.rehearsal.discord", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free port")
    parser.add_argument("--ready-file", type=Path, help="file that gets the line once it listens")
    options = parser.parse_args(argv)
    try:
        asyncio.run(_serve(options.port, options.ready_file))
    except OSError as exc:
        sys.stderr.write(f"the fake Discord cannot start: {exc}\n")
        return 2
    return 0


async def _serve(port: int, ready_file: Path | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    discord = FakeDiscord()
    await discord.start(port, routes=control_routes(staged(discord)))
    base = f"http://127.0.0.1:{discord.port}/rehearsal"
    line = json.dumps(
        {
            "rest_url": discord.rest_url,
            "token": discord.token,
            "say_url": f"{base}/say",
            "messages_url": f"{base}/messages",
            "interact_url": f"{base}/interact",
        }
    )
    if ready_file is not None:
        partial = ready_file.with_name(ready_file.name + ".partial")
        partial.write_text(line + "\n", encoding="utf-8")
        partial.replace(ready_file)  # a reader sees the whole line or no file
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
    await stop.wait()
    await discord.stop()


if __name__ == "__main__":
    sys.exit(main())

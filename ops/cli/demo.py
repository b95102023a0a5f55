"""`turnfleet demo`: real turns through a whole fleet, looked at from outside, in half a minute.

Comes in: nothing. Goes out: what the channel shows, the timeline of a turn, an error row; exit code
0 only if all of it is as it must be. It runs in a temporary home, which is removed at the end. The
acts are in `ops.cli.acts`.
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import typer

from ops.cli.acts import ACTS, Act, Failure
from ops.cli.exits import Exit
from ops.cli.output import progress, say, say_block, say_title
from ops.cli.session import Fleet, fleet
from ops.up import leash
from shared.config import PREFIX
from shared.errors import TurnfleetError

WORKERS: Final = 2
"""One of them is killed."""
READY_S: Final = 60.0
STOP_S: Final = 20.0
LOG_LINES: Final = 30
PROCESSES: Final = 2 + WORKERS
"""A gateway, a recorder, the workers."""
REAL_KEYS: Final = {
    "ANTHROPIC_API_KEY": "anthropic",
    "OPENAI_API_KEY": "openai",
    "OPENROUTER_API_KEY": "openrouter",
}


def demo() -> None:
    """Runs a fleet in a temporary home, plays a few turns, and checks what comes of them.

    Ends with 1 when anything differs from what it must be.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="turnfleet-demo-") as home:
        _settle_in(home)
        with _fleet_process(Path(home)) as log:
            failures = asyncio.run(_play())
            if failures:
                say_title("The end of the fleet's log")
                lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
                say_block("\n".join(lines[-LOG_LINES:]))
    _end(failures, time.monotonic() - started_s)


def _interrupt(*_: object) -> None:
    """Ends the demonstration as Ctrl-C does: the fleet stops, and its home is removed."""
    signal.raise_signal(signal.SIGINT)


def _settle_in(home: str) -> None:
    """Gives this process and its children the demonstration's own settings, and no others."""
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        del os.environ[name]
    own = {"DATA_DIR": home, "DRAIN_S": "2", "TOOLS": '{"*": ["*"]}'}
    os.environ.update({PREFIX + name: text for name, text in own.items()})


@contextmanager
def _fleet_process(home: Path) -> Iterator[Path]:
    log = home / "fleet.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-m", "ops", "up", "--workers", str(WORKERS)],
            stdout=sink,
            stderr=subprocess.STDOUT,
            preexec_fn=leash(os.getpid()),  # no thread runs here yet
        )
        try:
            yield log
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


async def _play() -> list[str]:
    failures: list[str] = []
    try:
        await _until_up()
        async with fleet() as link:
            for act in ACTS:
                say_title(act.title)
                failures += await _perform(act, link)
    except (TurnfleetError, TimeoutError) as exc:
        failures.append(str(exc) or "the fleet did not come up in time")
    return failures


async def _perform(act: Act, link: Fleet) -> list[str]:
    try:
        await act.play(link)
    except Failure as exc:
        say(f"NOT AS IT MUST BE: {exc}")
        return [f"{act.title}: {exc}"]
    return []


async def _until_up() -> None:
    with progress("starting a fleet: server, gateway, workers, recorder, rehearsal provider"):
        async with asyncio.timeout(READY_S):
            while True:
                if await _is_up():
                    return
                await asyncio.sleep(0.1)


async def _is_up() -> bool:
    try:
        async with fleet() as link:
            return len(await link.records.processes()) >= PROCESSES
    except TurnfleetError:
        return False


def _end(failures: list[str], elapsed_s: float) -> None:
    if failures:
        for line in failures:
            say(f"demo failed: {line}")
        raise typer.Exit(Exit.FAILED)
    say_title("All of it as it must be")
    say_block(f"{len(ACTS)} acts in {elapsed_s:.1f} s. Stay with a fleet of your own: make up")
    for name, provider in REAL_KEYS.items():
        if os.environ.get(name):
            say_block(
                f"{name} is set: TURNFLEET_PROVIDER={provider} TURNFLEET_MODEL=<model> make up "
                "asks the real provider."
            )

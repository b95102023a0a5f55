"""Children of a test: above all `turnfleet`, with its data in a directory of the test."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from typer.testing import CliRunner, Result

from ops.cli.main import app

LIMIT_S = 60.0


class Turnfleet:
    """Commands of one deployment, each a process.

    Args:
        data_dir: short, since the embedded server's socket may be below it.
        settings: `TURNFLEET_*` variables, names in lower case without the prefix.
    """

    def __init__(self, data_dir: Path, **settings: str) -> None:
        self.data_dir = data_dir
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("TURNFLEET_")
        }
        self.environment["TURNFLEET_DATA_DIR"] = str(data_dir)
        for name, value in settings.items():
            self.environment[f"TURNFLEET_{name.upper()}"] = value

    def run(self, *arguments: str) -> Result:
        """Runs a short command to its end, in this process: a second less than in its own."""
        with _only(self.environment):
            return CliRunner().invoke(app, list(arguments))

    def run_alone(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end, as a process."""
        return subprocess.run(
            [sys.executable, "-m", "ops", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    def json(self, *arguments: str) -> object:
        """Runs a command and reads the JSON that it prints."""
        done = self.run(*arguments, "-o", "json")
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    @contextlib.contextmanager
    def running(self, *arguments: str, ready: str) -> Iterator["Running"]:
        """A command that goes on, from the moment its output has the word `ready`."""
        running = Running(
            [sys.executable, "-m", "ops", *arguments], self.environment, self.data_dir
        )
        try:
            wait_until(lambda: ready in running.output or running.process.poll() is not None)
            assert ready in running.output, running.output
            yield running
        finally:
            running.end()


@contextlib.contextmanager
def _only(environment: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


class Running:
    """A process that goes on; its stdout and stderr lie in files."""

    def __init__(self, command: list[str], environment: dict[str, str], directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._out = directory / f"{command[3]}.out"
        self._err = directory / f"{command[3]}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(command, env=environment, stdout=out, stderr=err)

    @property
    def output(self) -> str:
        return self._out.read_text(encoding="utf-8") + self._err.read_text(encoding="utf-8")

    def lines(self) -> list[dict[str, object]]:
        """The lines of the log that are whole."""
        text = self._out.read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines(keepends=True) if line[-1] == "\n"]

    def pid_of(self, service: str) -> int:
        """The process that the supervisor started last for a service."""
        pids = [
            line["pid"]
            for line in self.lines()
            if line["msg"] == "service.changed"
            and (line["service"], line["phase"]) == (service, "started")
        ]
        assert isinstance(pids[-1], int)
        return pids[-1]

    def stop(self) -> int:
        """SIGINT, as Ctrl-C; the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(LIMIT_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(LIMIT_S)

    def end(self) -> None:
        """Ends it in order, else at once."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                self.kill()


def wait_until(is_so: Callable[[], bool], limit_s: float = LIMIT_S) -> None:
    """Looks again and again until it is so. Fails after the limit."""
    deadline = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


async def children_collected() -> None:
    """Waits until asyncio knows that its children ended; its watchers are threads that wait."""
    for thread in threading.enumerate():
        if thread.name.startswith("asyncio-waitpid-"):
            await asyncio.to_thread(thread.join, LIMIT_S)
    await asyncio.sleep(0)

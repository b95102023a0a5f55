"""The commands that go on until a signal: recorder and up, in this process."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ops.cli.exits import Exit
from shared.edges.redis import connect
from shared.edges.reporter import stream_sender
from shared.keys import Keys
from shared.wire import encode_json
from tests.support.cli import Command
from tests.support.processes import Turnfleet, wait_until
from tests.support.reports import a_report
from tests.support.servers import RedisServer, running_server

LIMIT_S = 60.0


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


@contextmanager
def signalled_when(is_so: Callable[[], bool], number: int) -> Iterator[None]:
    """Sends this process a signal as soon as it is so, from a thread."""

    def wait() -> None:
        deadline = time.monotonic() + LIMIT_S
        while not is_so() and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def test_the_recorder_records_until_it_is_told_to_stop(server: RedisServer, tmp_path: Path):
    keys = Keys("recorded")
    spool = tmp_path / "spool"
    spool.mkdir()
    (spool / "dead.000001.ndjson").write_bytes(encode_json(a_report()) + b"\n")

    async def fill() -> None:
        redis = connect(server.url)
        send = stream_sender(redis, keys)
        for _ in range(10):
            await send(encode_json(a_report()))
        await redis.aclose()

    command = Command(tmp_path, {"redis_url": server.url, "cell": "recorded"})
    other = Turnfleet(tmp_path, redis_url=server.url, cell="recorded")

    def is_recorded() -> bool:
        return '"errors":11' in other.run_alone("db", "status", "-o", "json").stdout.replace(
            " ", ""
        )

    asyncio.run(fill())
    with signalled_when(is_recorded, signal.SIGTERM):
        result = command("recorder")
    assert result.exit_code == 0, result.output
    messages = [json.loads(line)["msg"] for line in result.stdout.splitlines()]
    assert messages[0] == "recorder.started"
    assert messages[-1] == "recorder.stopped"
    assert other.run_alone("errors", "list").returncode == 0


@pytest.mark.parametrize("noun", ["recorder", "worker", "gateway"])
def test_a_process_without_a_fleet_says_what_to_do(noun: str, tmp_path: Path):
    result = Command(tmp_path, {})(noun)
    assert result.exit_code == Exit.BAD_INPUT
    assert "turnfleet up" in result.stderr


@pytest.mark.parametrize("noun", ["recorder", "up"])
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"redis_url": "redis://127.0.0.1:9"}, "TURNFLEET_REDIS_URL"),
        ({"database_url": "mysql://h/d"}, "TURNFLEET_DATABASE_URL"),
        ({"log_level": "LOUD"}, "TURNFLEET_LOG_LEVEL"),
    ],
    ids=["redis_away", "database_url", "log_level"],
)
def test_a_process_with_a_wrong_setting_ends_with_2_and_one_line(
    noun: str, settings: dict[str, str], words: str, server: RedisServer, tmp_path: Path
):
    result = Command(tmp_path, {"redis_url": server.url, **settings})(noun)
    assert result.exit_code == Exit.BAD_INPUT
    assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.slow
def test_up_runs_a_fleet_until_ctrl_c():
    with tempfile.TemporaryDirectory(prefix="tf-up-") as name:
        command, other = Command(Path(name), {}), Turnfleet(Path(name))

        def is_answered() -> bool:
            # The look of `up` at its own processes comes a little later than the doctor's.
            is_whole = other.run_alone("doctor", "--strict").returncode == 0
            return is_whole and other.run_alone("turns", "send", "hello").returncode == 0

        with signalled_when(is_answered, signal.SIGINT):
            result = command("up", "--workers", "1")
    assert result.exit_code == 0, result.output
    assert "turnfleet is up" in result.stderr
    assert "turnfleet is down." in result.stderr


def processes_of(home: Path) -> list[str]:
    """The processes of the deployment below a directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.fsencode(f"TURNFLEET_DATA_DIR={home}/") in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text(encoding="utf-8"))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, Exit.INTERRUPTED), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_a_demo_that_is_ended_leaves_no_fleet(number: signal.Signals, code: int):
    with tempfile.TemporaryDirectory(prefix="tf-demo-") as name:
        home = Path(name)
        demo = subprocess.Popen(
            [sys.executable, "-m", "ops", "demo"],
            env={**os.environ, "TMPDIR": name},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: len(processes_of(home)) >= 6)
        demo.send_signal(number)
        assert demo.wait(LIMIT_S) == code
        wait_until(lambda: not processes_of(home))
        assert (list(home.glob("turnfleet-demo-*")) == []) == (number is signal.SIGTERM)

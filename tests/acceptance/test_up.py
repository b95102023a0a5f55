"""`turnfleet up` with real processes: it answers, survives what is killed, and leaves nobody."""

import json
import os
import re
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ops.cli.exits import Exit
from tests.support.processes import Running, Turnfleet, wait_until

PLAIN = "This is a plain answer from the rehearsal provider."
SERVICES = ("rehearsal", "gateway", "recorder", "worker-1", "worker-2")

pytestmark = pytest.mark.slow


@pytest.fixture
def turnfleet() -> Iterator[Turnfleet]:
    with tempfile.TemporaryDirectory(prefix="tf-up-") as name:
        yield Turnfleet(Path(name) / "with space")


def is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"


def kill(up: Running, service: str) -> None:
    pid = up.pid_of(service)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: up.pid_of(service) != pid)


def test_a_fleet_answers_fails_in_view_and_stops(turnfleet: Turnfleet):
    with turnfleet.running("up", ready="turnfleet is up") as up:
        answered = turnfleet.run("turns", "send", "hello")
        assert (answered.exit_code, PLAIN in answered.stdout) == (0, True), answered.stderr
        failed = turnfleet.json("turns", "send", "hello", "--model", "no-such-model")
        assert isinstance(failed, dict)
        assert failed["cause"] == "model_not_found"
        wait_until(lambda: turnfleet.run("errors", "list", "-o", "json").stdout.strip() != "[]")
        (error,) = json.loads(turnfleet.run("errors", "list", "-o", "json").stdout)
        assert (error["turn_id"], error["error_type"]) == (failed["turn_id"], "model_not_found")
        examined = turnfleet.run("doctor", "--strict")
        assert examined.exit_code == 0, examined.stdout
        pids = [up.pid_of(service) for service in SERVICES]
        assert up.stop() == 0
        assert not any(is_running(pid) for pid in pids)
        processes = {line["process"] for line in up.lines()}
        assert {"up", "gateway", "worker", "recorder"} <= processes
    gone = turnfleet.run("turns", "list")
    assert (gone.exit_code, "turnfleet up" in gone.stderr) == (Exit.BAD_INPUT, True)


def test_whatever_is_killed_comes_back(turnfleet: Turnfleet):
    with turnfleet.running("up", ready="turnfleet is up") as up:
        for service in SERVICES:
            kill(up, service)
        answered = turnfleet.run("turns", "send", "after the kills")
        assert answered.exit_code == 0, answered.stderr
        assert PLAIN in answered.stdout


def test_the_embedded_server_comes_back_with_its_data(turnfleet: Turnfleet):
    with turnfleet.running("up", ready="turnfleet is up") as up:
        failed = turnfleet.json("turns", "send", "x", "--model", "no-such-model")
        assert isinstance(failed, dict)
        for pid in _servers(turnfleet.data_dir):
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: "server.restarted" in up.output)
        assert turnfleet.run("turns", "show", str(failed["turn_id"])).exit_code == 0
        assert turnfleet.run("turns", "send", "hello").exit_code == 0


def test_nobody_survives_a_killed_supervisor(turnfleet: Turnfleet):
    with turnfleet.running("up", ready="turnfleet is up") as up:
        pids = [up.pid_of(service) for service in SERVICES] + _servers(turnfleet.data_dir)
        up.kill()
        wait_until(lambda: not any(is_running(pid) for pid in pids))


def test_a_fleet_that_cannot_start_says_why_and_ends_with_2(turnfleet: Turnfleet):
    turnfleet.environment["TURNFLEET_FRONT"] = "discord"
    done = turnfleet.run_alone("up", "--workers", "1")
    assert done.returncode == Exit.BAD_INPUT
    assert "TURNFLEET_FRONT=discord needs TURNFLEET_DISCORD_TOKEN" in done.stderr
    assert "gateway cannot start" in done.stderr


def _servers(data_dir: Path) -> list[int]:
    """The embedded server's processes: who has the lock of the directory open."""
    lock = str(data_dir / "redis" / "lock")
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(os.readlink(one) == lock for one in (process / "fd").iterdir()):
                found.append(int(process.name))
        except OSError:
            continue
    return found


def test_a_fleet_answers_on_a_fake_discord(turnfleet: Turnfleet):
    with turnfleet.running("up", "--discord-rehearsal", ready="Speak on the fake Discord") as up:
        base = re.search(r"http://127\.0\.0\.1:\d+/rehearsal", up.output)
        assert base is not None
        httpx.post(f"{base[0]}/say", content="hello").raise_for_status()

        def texts() -> list[str]:
            return [message["text"] for message in httpx.get(f"{base[0]}/messages").json()]

        wait_until(lambda: any(PLAIN in text for text in texts()))
        assert up.stop() == 0

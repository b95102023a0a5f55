"""A newcomer's path: clone, demo, tests, a provider of one's own, a recorded failure reproduced.

With an environment of its own and everything from the registry, as the README says: minutes, so it
belongs to `make faults`. The steps of docs/providers.md are followed by `test_providers_page.py`,
which is run here from the clone.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import Running, wait_until

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 900.0

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `git clone` gives: committed files and nothing else."""
    path = tmp_path_factory.mktemp("newcomer") / "turnfleet"
    if (ROOT / ".git").exists():
        subprocess.run(["git", "clone", "-q", str(ROOT), str(path)], check=True)
    else:
        shutil.copytree(
            ROOT, path, ignore=shutil.ignore_patterns(".venv", "__pycache__", ".*cache")
        )
    return path


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    plain = {name: text for name, text in os.environ.items() if not name.startswith("TURNFLEET_")}
    plain.pop("CI", None)
    return plain | {"TURNFLEET_DATA_DIR": str(tmp_path / "data"), "PYTHON": sys.executable}


def run(clone: Path, environment: dict[str, str], *words: str) -> str:
    done = subprocess.run(
        words,
        cwd=clone,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


def test_the_demo_and_the_tests_of_the_rooms_pass(clone: Path, environment: dict[str, str]):
    assert "All of it as it must be" in run(clone, environment, "make", "demo")
    python = str(clone / ".venv" / "bin" / "python")
    tests = ("tests/unit/worker/normalize", "tests/acceptance/test_providers_page.py")
    assert " passed" in run(clone, environment, python, "-m", "pytest", "-q", *tests)


@pytest.fixture
def fleet(clone: Path, environment: dict[str, str]) -> Iterator[Running]:
    python = str(clone / ".venv" / "bin" / "python")
    command = [python, "-m", "ops", "up", "--no-console"]
    running = Running(command, environment, Path(environment["TURNFLEET_DATA_DIR"]))
    try:
        wait_until(lambda: "turnfleet is up" in running.output)
        yield running
    finally:
        running.end()


def test_a_recorded_failure_is_reproduced_offline(
    clone: Path, environment: dict[str, str], fleet: Running, tmp_path: Path
):
    turnfleet = str(clone / ".venv" / "bin" / "turnfleet")
    sent = subprocess.run(
        [turnfleet, "turns", "send", "cut: hello", "-o", "json"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    turn_id = json.loads(sent.stdout)["turn_id"]
    failed = json.loads(
        run(clone, environment, turnfleet, "turns", "list", "--failed", "-o", "json")
    )
    assert [one["turn_id"] for one in failed] == [turn_id]
    folder = str(tmp_path / "bundle")
    run(clone, environment, turnfleet, "turns", "export", turn_id, "--to", folder)
    assert fleet.stop() == 0
    played = run(clone, environment, turnfleet, "turns", "replay", folder, "--recorded")
    again = run(clone, environment, turnfleet, "turns", "replay", folder, "--recorded")
    assert played == again
    assert "stream_truncated" in played or "connection_lost" in played

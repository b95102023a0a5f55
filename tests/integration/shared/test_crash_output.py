"""What a crash leaves behind: lines, a report, and nothing of a secret in any form."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TOKEN = "MTE4" + "crash-canary-Zq7Yw2Vx9Km4Rt8Lp3Nb6"


def forms(text: str) -> list[str]:
    raw = text.encode()
    codes = [base64.b64encode(b"x" * shift + raw).decode()[4:-4] for shift in range(3)]
    return [text, text[::-1], raw.hex(), *codes, text[:20], text[-20:]]


def run(place: str, directory: Path) -> subprocess.CompletedProcess[str]:
    plain = {name: text for name, text in os.environ.items() if "TURNFLEET" not in name}
    return subprocess.run(
        [sys.executable, "-m", "tests.support.crash_process", place, str(directory)],
        cwd=ROOT,
        env={**plain, "TURNFLEET_DISCORD_TOKEN": TOKEN, "TURNFLEET_DATA_DIR": str(directory)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("place", "code", "message"),
    [
        pytest.param("main", 1, "process.crashed", id="main"),
        pytest.param("thread", 0, "process.crashed", id="thread"),
        pytest.param("loop", 0, "process.crashed", id="loop"),
        pytest.param("warning", 0, "careful with", id="warning"),
    ],
)
def test_a_crash_is_a_line_without_the_secret(tmp_path: Path, place: str, code: int, message: str):
    done = run(place, tmp_path)
    assert done.returncode == code, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert any(message in line["msg"] for line in lines)
    spooled = "".join(path.read_text(encoding="utf-8") for path in tmp_path.glob("*.ndjson"))
    assert ("uncaught" in spooled) is (message == "process.crashed")
    assert done.stderr == ""
    for form in forms(TOKEN):
        assert form not in done.stdout
        assert form not in spooled


def test_the_search_would_find_it():
    assert TOKEN[::-1] in forms(TOKEN)
    assert any(form in base64.b64encode(f"u:{TOKEN}".encode()).decode() for form in forms(TOKEN))


@pytest.mark.parametrize("package", ["worker", "gateway"])
def test_a_process_that_cannot_start_says_why_in_a_line(tmp_path: Path, package: str):
    plain = {name: text for name, text in os.environ.items() if "TURNFLEET" not in name}
    done = subprocess.run(
        [sys.executable, "-m", package],
        cwd=ROOT,
        env={
            **plain,
            "TURNFLEET_DATA_DIR": str(tmp_path),
            "TURNFLEET_REDIS_URL": f"redis://:{TOKEN}@127.0.0.1:1/0",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert not any(form in done.stdout + done.stderr for form in forms(TOKEN))

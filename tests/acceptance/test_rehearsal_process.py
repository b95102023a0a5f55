"""`python -m ops.rehearsal` as a process of its own."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "ops.rehearsal"]
START_S = 20.0
"""Starting takes half a second; a machine that runs the whole suite may take longer."""


def test_it_tells_its_url_and_stops_when_told(tmp_path: Path):
    ready = tmp_path / "ready"
    process = subprocess.Popen(
        [*COMMAND, "--ready-file", str(ready)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        deadline = time.monotonic() + START_S
        while not ready.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert ready.read_text() == url + "\n"
        assert "plain" in httpx.get(f"{url}/rehearsal/scenarios", timeout=START_S).json()
        process.send_signal(signal.SIGTERM)
        process.wait(START_S)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("options", [["--scenarios", "/nowhere"], ["--port", "taken"]])
def test_it_says_in_one_line_why_it_cannot_start(options: list[str]):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        arguments = [port if option == "taken" else option for option in options]
        ended = subprocess.run(
            [*COMMAND, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=START_S
        )
    assert ended.returncode == 2
    assert ended.stderr.startswith("the rehearsal provider cannot start: ")
    assert ended.stderr.count("\n") == 1

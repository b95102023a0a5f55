"""A full pipe at stdout: the loop goes on, lines are counted, and the process still ends."""

import os
import subprocess
import sys
import time
from pathlib import Path

from shared.logs import CLOSE_S, QUEUE_LINES

ROOT = Path(__file__).parents[3]
EXTRA_LINES = 2_000


def test_a_full_pipe_blocks_neither_the_loop_nor_the_end():
    reading, writing = os.pipe()  # nobody reads: it is full after 64 KiB
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.log_process", str(QUEUE_LINES + EXTRA_LINES)],
            cwd=ROOT,
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        said = process.stderr.readline()
        ended_s = time.monotonic()
        code = process.wait(4 * CLOSE_S)
        rest = process.stderr.read()
        process.stderr.close()
    finally:
        os.close(reading)
        os.close(writing)
    longest_ms, dropped = said.split()
    assert int(longest_ms) < 1_000
    assert 0 < int(dropped) <= EXTRA_LINES
    assert time.monotonic() - ended_s < 3 * CLOSE_S
    assert code == 0, rest
    assert rest == ""

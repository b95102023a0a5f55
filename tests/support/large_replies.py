"""Replies as large as they may be, and a process that reads one and says what it took.

`python -m tests.support.large_replies URL` asks Google's dialect at the URL; it prints a line of
JSON: how the turn ended, its pictures, and the MiB that the process grew by at most. In a process
of its own, since the peak of a test run is that of its largest test.
"""

import asyncio
import base64
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from shared.turns import Api, Target, TurnOutcome
from tests.support.turn_ports import KeepingReporter, PlayedPools, RememberingOutbox, runner
from tests.support.turns import turn
from worker.edges.guard import guard_of
from worker.edges.http import HttpEdge
from worker.normalize.sse import MAX_LINE_BYTES
from worker.providers.requests import Endpoint

PNG = b"\x89PNG\r\n\x1a\n"
LARGEST = (MAX_LINE_BYTES - 4096) // 4 * 3
"""Bytes of a picture whose line, with the JSON around it, is nearly as long as a line may be."""
TARGET = Target(api=Api.GOOGLE, provider="rehearsal", model="m")


def line(part: dict[str, object], finish: str | None = None) -> bytes:
    """One event of Google's stream."""
    candidate: dict[str, object] = {"index": 0, "content": {"parts": [part]}}
    if finish is not None:
        candidate["finishReason"] = finish
    return b"data: " + json.dumps({"candidates": [candidate]}).encode() + b"\r\n\r\n"


def picture(size: int) -> bytes:
    """A picture of so many bytes, which nothing packs any smaller."""
    encoded = base64.b64encode(PNG + os.urandom(size - len(PNG))).decode()
    return line({"inlineData": {"mimeType": "image/png", "data": encoded}})


def pictures(*sizes: int) -> Iterator[bytes]:
    """A reply of pictures, and a word at its end."""
    for size in sizes:
        yield picture(size)
    yield line({"text": "Done."}, "STOP")


def texts(count: int) -> Iterator[bytes]:
    """A reply of `count` lines that are as long as they may be, all of it text to be shown."""
    paragraph = "A word and some more. " * 20 + "\n\n"
    for _ in range(count):
        yield line({"text": paragraph * ((MAX_LINE_BYTES - 4096) // (len(paragraph) + 2))})
    yield line({"text": "Done."}, "STOP")


async def read(url: str) -> tuple[TurnOutcome, RememberingOutbox, KeepingReporter]:
    """A turn that is answered from there, over a real socket."""
    http = HttpEdge(guard_of("", {"rehearsal": url}))
    outbox, reporter = RememberingOutbox(), KeepingReporter()
    running = runner(http, reporter, keys=PlayedPools(Endpoint(base_url=url), "sk-key"))
    try:
        result = await running.run(turn(target=TARGET), outbox, asyncio.Event())
    finally:
        await http.close()
    return result.outcome, outbox, reporter


def _peak_mib() -> float:
    # Not `ru_maxrss`: a process begins with what its parent had.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> None:
    """Reads, and says what it took."""
    before = _peak_mib()
    outcome, outbox, _ = asyncio.run(read(sys.argv[1]))
    sizes = [len(data) for data in outbox.pictures.values()]
    grown = {"grown_mib": _peak_mib() - before, "pictures": sizes}
    sys.stdout.write(json.dumps({"state": outcome.state, "cause": outcome.cause, **grown}) + "\n")


if __name__ == "__main__":
    main()

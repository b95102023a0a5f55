"""What a chunk may cost on the worker's way, counted: calls, tasks, futures and timers.

Times differ between machines and hours; counts do not. A budget is what was counted when it was
set, and some air; who passes it has added work for every chunk of every stream, and should know.
"""

import asyncio
import json
import selectors
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx

from shared.turns import TurnState
from tests.support.turn_ports import GENEROUS, KeepingReporter, RememberingOutbox, runner
from tests.support.turns import turn
from worker.edges.framing import Chunked
from worker.edges.http import HttpResponse
from worker.edges.http1 import Body
from worker.edges.network import GuardedStream, _Bytes
from worker.providers.requests import HttpRequest

CHUNKS = 400
CALLS = 145
"""For each chunk: 127 were counted on CPython 3.11."""
FUTURES = 1
"""The wait for its bytes."""

WORDS = ["Some ", "words ", "of ", "a ", "sentence, ", "and ", "then ", "**more**.", "\n\n"]


def event(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": finish}
    body = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "choices": [choice]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def framed(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Wire(asyncio.Transport):
    """A connection that a test plays the other end of."""

    def __init__(self) -> None:
        super().__init__()
        self.protocol = _Bytes()
        self.protocol.connection_made(self)
        self.is_cut = False

    def pause_reading(self) -> None:
        raise AssertionError("the worker does not keep up")

    def abort(self) -> None:
        self.is_cut = True


class Provider:
    """The real edge over that connection."""

    def __init__(self, wire: Wire) -> None:
        self._stream = GuardedStream(wire, wire.protocol)

    @asynccontextmanager
    async def open(self, request: HttpRequest) -> AsyncIterator[HttpResponse]:
        body = Body(None, self._stream, Chunked(), b"")  # type: ignore[arg-type]  # never closed
        answer = httpx.Response(200, extensions={"body": body})
        yield HttpResponse(answer, (b"sk-test-key-1",), 1.0)


@contextmanager
def counting_calls() -> Iterator[list[int]]:
    """Counts calls of functions, but those of the loop, and of what plays the provider here."""
    calls = [0]
    own = (asyncio.__path__[0], selectors.__file__, json.__path__[0], __file__)

    def note(frame: Any, kind: str, _: object) -> None:
        if kind in ("call", "c_call") and not frame.f_code.co_filename.startswith(own):
            calls[0] += 1

    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(None)


class CountingLoop(asyncio.SelectorEventLoop):
    """A loop that counts what it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def create_task(self, coro: Any, **more: Any) -> Any:
        self.asked.append("task")
        return super().create_task(coro, **more)

    def create_future(self) -> Any:
        self.asked.append("future")
        return super().create_future()

    def call_at(self, *args: Any, **more: Any) -> Any:  # type: ignore[override]  # its types vary
        self.asked.append("timer")
        return super().call_at(*args, **more)


async def streamed(mark: Callable[[], None]) -> None:
    """A turn of many chunks, one at a time; `mark` is called behind the first and the last."""
    wire = Wire()
    outbox = RememberingOutbox()
    running = runner(Provider(wire), KeepingReporter(), limits=GENEROUS)
    run = asyncio.create_task(running.run(turn(), outbox, asyncio.Event()))

    async def say(data: bytes) -> None:
        wire.protocol.data_received(framed(data))
        while wire.protocol.parts:  # until the worker has taken it
            await asyncio.sleep(0)

    await say(event("Hello. "))
    await asyncio.sleep(0.01)
    mark()
    for number in range(CHUNKS):
        await say(event(WORDS[number % len(WORDS)]))
    mark()
    await say(event("", "stop") + b"data: [DONE]\n\n")
    outcome = (await run).outcome
    assert outcome.state is TurnState.DONE
    assert outcome.segments > CHUNKS / len(WORDS)


def test_a_chunk_makes_no_task_no_timer_and_one_future():
    loop = CountingLoop()
    marks: list[int] = []
    with asyncio.Runner(loop_factory=lambda: loop) as running:
        running.run(streamed(lambda: marks.append(len(loop.asked))))
    asked = loop.asked[marks[0] : marks[1]]
    assert asked.count("task") == 0
    assert asked.count("timer") < CHUNKS / 20  # four a second, whatever comes
    assert asked.count("future") <= FUTURES * CHUNKS


def test_a_chunk_takes_no_more_calls_than_it_did():
    counts: list[int] = []
    with asyncio.Runner() as running, counting_calls() as calls:
        running.run(streamed(lambda: counts.append(calls[0])))
    per_chunk = (counts[1] - counts[0]) / CHUNKS
    assert per_chunk < CALLS, f"{per_chunk:.1f} calls for each chunk"
    assert per_chunk > CALLS / 2, f"{per_chunk:.1f} calls for each chunk: lower the budget"

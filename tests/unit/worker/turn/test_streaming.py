"""How a stream is waited for: what a chunk costs, and what interrupts the wait."""

import asyncio
import contextlib
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from shared.causes import Cause
from shared.messages import ContentBlock, ImageBlock, Message, OpaqueBlock, Role, ToolCallBlock
from shared.quotes import MARK
from shared.segments import TurnDone
from shared.turns import TurnState
from tests.support.turn_ports import (
    GENEROUS,
    SILENCE,
    KeepingReporter,
    RememberingOutbox,
    ScriptedProvider,
    ScriptedResponse,
    runner,
)
from tests.support.turns import turn
from worker.failures.classify import error_of
from worker.providers.requests import ModelRequest
from worker.turn.attempt import TICK_S, Failed
from worker.turn.ports import TimeLimits
from worker.turn.quoted import without_prompts


def say(text: str, **more: object) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None} | more
    return b"data: " + json.dumps({"id": "c1", "choices": [choice]}).encode() + b"\n\n"


END = say("", finish_reason="stop") + b"data: [DONE]\n\n"


@contextlib.contextmanager
def counting_tasks() -> Iterator[list[str]]:
    """The names of all tasks that are made meanwhile."""
    made: list[str] = []
    loop = asyncio.get_running_loop()

    def make(loop: asyncio.AbstractEventLoop, coro: Any, **more: Any) -> Any:
        made.append(coro.__qualname__)
        return asyncio.Task(coro, loop=loop, **more)

    loop.set_task_factory(make)
    try:
        yield made
    finally:
        loop.set_task_factory(None)


async def played(
    answer: ScriptedResponse, limits: TimeLimits = GENEROUS
) -> tuple[RememberingOutbox, KeepingReporter]:
    outbox, reporter = RememberingOutbox(), KeepingReporter()
    running = runner(ScriptedProvider(answer), reporter, limits=limits)
    async with asyncio.timeout(5):
        await running.run(turn(), outbox, asyncio.Event())
    return outbox, reporter


async def test_a_chunk_makes_no_task():
    counts = []
    for chunks in (1, 500):
        with counting_tasks() as made:
            outbox, _ = await played(ScriptedResponse([*[say("word ")] * chunks, END]))
        counts.append(made)
        assert "".join(outbox.texts).count("word") == chunks
    assert counts[0] == counts[1]


class Stopping(RememberingOutbox):
    """Whose user stops the turn while it takes a segment, when nobody waits for bytes."""

    def __init__(self, stopped: asyncio.Event) -> None:
        super().__init__()
        self._stopped = stopped

    async def send(self, segment):
        self._stopped.set()
        await asyncio.sleep(0.01)  # whoever was told by the event has run
        return await super().send(segment)


async def test_a_stop_while_a_segment_is_sent_ends_the_next_wait():
    stopped = asyncio.Event()
    outbox = Stopping(stopped)
    answer = ScriptedResponse([say("One.\n\nTwo."), SILENCE])
    running = runner(ScriptedProvider(answer), KeepingReporter())
    async with asyncio.timeout(1):
        await running.run(turn(), outbox, stopped)
    ((end, _),) = outbox.ends
    assert isinstance(end, TurnDone)
    assert end.state is TurnState.CANCELLED
    assert outbox.texts == ["One.", "Two."]


async def test_a_stop_before_the_stream_ends_its_first_wait():
    stopped, outbox = asyncio.Event(), RememberingOutbox()
    stopped.set()
    running = runner(ScriptedProvider(ScriptedResponse([SILENCE])), KeepingReporter())
    async with asyncio.timeout(1):
        await running.run(turn(), outbox, stopped)
    assert outbox.texts == []


def limits(**seconds: float) -> TimeLimits:
    wide = {"first_byte_s": 5.0, "between_chunks_s": 5.0, "whole_stream_s": 5.0}
    return TimeLimits(**(wide | {"turn_deadline_s": 0.95} | seconds))


AT_THE_LIMIT = {
    "the first byte": (limits(first_byte_s=0.12), [SILENCE], 0.12),
    "silence, shorter than a tick": (limits(between_chunks_s=0.06), [say("a"), SILENCE], 0.06),
    "silence, longer than a tick": (limits(between_chunks_s=0.4), [say("a"), SILENCE], 0.4),
    "the whole stream": (limits(whole_stream_s=0.3), [say("a"), SILENCE], 0.3),
}


@pytest.mark.parametrize(("limits", "steps", "at_s"), AT_THE_LIMIT.values(), ids=AT_THE_LIMIT)
async def test_a_limit_is_noticed_when_it_passes_not_at_the_next_tick(limits, steps, at_s):
    began_s = asyncio.get_running_loop().time()
    answer = ScriptedResponse(steps)
    task = asyncio.create_task(played(answer, limits))
    while not answer.is_closed:  # the response tells nobody
        await asyncio.sleep(0.005)
    took_s = asyncio.get_running_loop().time() - began_s
    await task
    assert at_s <= took_s < at_s + TICK_S * 0.6


SEARCH = "symptoms of hepatitis for Alice Example"
WHERE = "https://cdn.example/attachments/1/2/diagnosis.png"
DEEP: object = SEARCH
for _ in range(2_000):
    DEEP = [DEEP]
QUOTED: dict[str, tuple[ContentBlock, str]] = {
    "an argument": (ToolCallBlock(id="c1", name="search", arguments={"query": SEARCH}), SEARCH),
    "a list in an object": (
        ToolCallBlock(id="c1", name="search", arguments={"all": [1, {"of": [SEARCH, None]}]}),
        SEARCH,
    ),
    "a long name": (ToolCallBlock(id="c1", name="search", arguments={SEARCH: True}), SEARCH),
    "no object": (ToolCallBlock(id="c1", name="search", arguments=SEARCH), SEARCH),
    "any depth": (ToolCallBlock(id="c1", name="search", arguments=DEEP), SEARCH),
    "a provider's own call": (
        OpaqueBlock(provider="custom", raw={"type": "server_tool_use", "input": {"q": SEARCH}}),
        SEARCH,
    ),
    "the address of a picture": (ImageBlock(mime_type="image/png", url=WHERE), WHERE),
}


@pytest.mark.parametrize(("block", "said"), QUOTED.values(), ids=QUOTED)
def test_an_error_that_quotes_what_was_asked_loses_it(block: ContentBlock, said: str):
    message = f"server_tool_use at messages[1].query is invalid: {json.dumps({'query': said})}"
    question = ModelRequest(
        target=turn().target, messages=[Message(role=Role.ASSISTANT, content=[block])]
    )
    failed = Failed(error=error_of(Cause.INVALID_REQUEST, message=message))
    result = without_prompts(failed, question)
    assert isinstance(result, Failed)
    assert result.error.message == message.replace(said, MARK)


async def test_a_refusal_that_quotes_a_call_is_reported_without_it():
    call = ToolCallBlock(id="c1", name="search", arguments={"query": SEARCH})
    found = Message(role=Role.TOOL, content="nothing was found", tool_call_id="c1")
    asked = msgspec.structs.replace(
        turn(), messages=[*turn().messages, Message(role=Role.ASSISTANT, content=[call]), found]
    )
    error = {"error": {"message": f"bad arguments: {SEARCH!r}", "type": "invalid_request_error"}}
    reporter = KeepingReporter()
    refusing = ScriptedResponse([json.dumps(error).encode()], status=400)
    await runner(ScriptedProvider(refusing), reporter).run(
        asked, RememberingOutbox(), asyncio.Event()
    )
    (report,) = reporter.reports
    assert "bad arguments" in report.message
    assert "hepatitis" not in msgspec.json.encode(report).decode()

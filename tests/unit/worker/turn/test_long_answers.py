"""What an attempt keeps of its answers is bounded, over all its rounds."""

import json

import pytest

from shared.causes import Cause
from shared.segments import TurnFailed
from shared.turns import Target, ToolSpec
from tests.support.cuttings import pieces
from tests.support.tool_case import DONE, ToolCase, call, calling, frame
from tests.support.turn_ports import ScriptedResponse
from tests.support.turns import turn
from worker.chunks.types import DoneChunk, ErrorChunk
from worker.turn import pipeline as rooms
from worker.turn.pipeline import Pipeline, pipeline_for

REQUEST = turn(tools=(ToolSpec(name="echo"),))
LINE = "Ten words.\n\n"


def played(parts: list[bytes], pipeline: Pipeline | None = None) -> tuple[list[str], Pipeline]:
    pipeline = pipeline or pipeline_for(REQUEST, REQUEST.target, 1)
    segments = [segment for part in parts for segment in pipeline.feed(part)] + pipeline.flush()
    return [segment.text for segment in segments], pipeline


def said(count: int, key: str = "content", finish: str = "stop") -> bytes:
    lines = [frame(None, None, **{key: LINE}) for _ in range(count)]
    return b"".join([*lines, frame(finish), DONE])


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "MAX_SAID_CHARS", 4 * len(LINE))
    monkeypatch.setattr(rooms, "MAX_ANSWERS_BYTES", 2_000)


def cause_of(pipeline: Pipeline) -> str | None:
    return pipeline.end.error.cause if isinstance(pipeline.end, ErrorChunk) else None


@pytest.mark.parametrize("key", ["content", "reasoning_content"])
def test_an_answer_may_be_as_long_as_its_bound_and_no_longer(key):
    assert isinstance(played([said(4, key)])[1].end, DoneChunk)
    assert cause_of(played([said(5, key)])[1]) == Cause.LIMIT_EXCEEDED


def test_text_and_reasoning_count_together():
    body = said(3, "reasoning_content") + said(2)
    assert cause_of(played([body.replace(frame("stop") + DONE, b"", 1)])[1]) == Cause.LIMIT_EXCEEDED


@pytest.mark.parametrize("size", [1, 7, 100, 100_000])
def test_the_cutting_does_not_matter_to_what_is_shown_of_it(size):
    texts, pipeline = played(pieces(said(9), size))
    assert texts == ["Ten words."] * 5
    assert cause_of(pipeline) == Cause.LIMIT_EXCEEDED


def test_the_rounds_of_an_attempt_count_together():
    asking = b"".join([said(3)[: -len(frame("stop") + DONE)], frame(tool_calls=[call("echo")])])
    asking += frame("tool_calls") + DONE
    _, pipeline = played([asking])
    assert pipeline.goes_on
    pipeline.next_round()
    texts, _ = played([said(2)], pipeline)
    assert texts == ["Ten words."] * 2
    assert cause_of(pipeline) == Cause.LIMIT_EXCEEDED


async def test_answers_that_no_request_can_hold_are_asked_nothing_more():
    """Each is within the bound of a response; the next request would have to send all of them."""
    picture = {"inlineData": {"mimeType": "image/png", "data": "x" * 1_200}}
    asked = {"functionCall": {"name": "echo", "args": {"text": "x"}}}
    parts = [picture, asked]
    body = {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}

    def answer() -> ScriptedResponse:
        return ScriptedResponse([f"data: {json.dumps(body)}\r\n\r\n".encode()])

    case = ToolCase(answer(), answer(), target=Target(provider="google", model="m"))
    await case.run()
    assert len(case.tools.ran) == 1
    assert isinstance(case.end, TurnFailed)
    assert case.end.cause == Cause.LIMIT_EXCEEDED
    assert "rounds" in case.reporter.reports[0].message


async def test_a_last_answer_is_shown_however_long_the_rounds_before_it_were():
    case = ToolCase(
        calling(call("echo"), say=LINE),
        ScriptedResponse([b": " + b"x" * 3_000 + b"\n\n" + said(1)]),
    )
    await case.run()
    assert case.outbox.texts == ["Ten words."] * 2

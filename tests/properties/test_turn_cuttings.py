"""The bytes of a provider, cut anywhere, give the same delivered segments."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.messages import ArgumentState
from shared.segments import Segment
from shared.turns import Target, ToolSpec
from tests.support.cuttings import common, cut_at, pieces, two_way
from tests.support.turns import turn
from worker.chunks.types import DoneChunk
from worker.turn.pipeline import pipeline_for

TEXT = (
    "Here is a plan, in **three steps**:\n\n1. Read the `config`.\n2. Run it.\n\n"
    "```python\nprint('日本 🎉')\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n"
    'She said "wait (a moment)" and <think>hidden</think> left.\n\n' + "A long sentence. " * 90
)


def stream(text: str, size: int = 7) -> bytes:
    frames = [
        {
            "id": "c",
            "model": "m",
            "choices": [{"index": 0, "delta": {"content": text[at : at + size]}}],
        }
        for at in range(0, len(text), size)
    ]
    frames.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    lines = [f"data: {json.dumps(frame, ensure_ascii=False)}\n\n" for frame in frames]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


def delivered(parts: list[bytes], mode: str = "paragraph") -> list[Segment]:
    request = turn(delivery_mode=mode)
    pipeline = pipeline_for(request, request.target, 1)
    segments = [segment for part in parts for segment in pipeline.feed(part)]
    segments += pipeline.flush()
    assert isinstance(pipeline.end, DoneChunk)
    return segments


BODY = stream(TEXT)
SHORT = stream(TEXT[:64], 8)


@pytest.mark.parametrize("mode", ["paragraph", "line", "sentence", "aggregated"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
def test_equal_pieces_deliver_the_same_segments(mode, size):
    assert delivered(pieces(BODY, size), mode) == delivered([BODY], mode)


def test_every_cutting_in_two_delivers_the_same_segments():
    whole = delivered([SHORT])
    for parts in two_way(SHORT):
        assert delivered(parts) == whole


@given(st.lists(st.integers(0, len(BODY)), max_size=40))
def test_any_cutting_delivers_the_same_segments(places):
    assert delivered(cut_at(BODY, places)) == delivered([BODY])


HOLE = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"ika\n\n'
WITH_A_HOLE = stream('roll({"user": "ann', 9).split(b'data: {"choices"')[0] + HOLE + stream('"})')


def test_a_call_of_the_prose_with_a_hole_runs_in_no_cutting():
    target = Target(provider="my-box", model="m")
    request = turn(target=target, tools=(ToolSpec(name="roll"),))
    for parts in (*two_way(WITH_A_HOLE), *common(WITH_A_HOLE)):
        pipeline = pipeline_for(request, target, 1)
        segments = [segment for part in parts for segment in pipeline.feed(part)]
        assert segments + pipeline.flush() == []
        (call,) = pipeline.calls
        assert (call.args, call.state) == ({"user": "ann"}, ArgumentState.TRUNCATED)


def test_the_segments_count_from_one_and_fit_a_message():
    segments = delivered([BODY])
    assert [segment.seq for segment in segments] == list(range(1, len(segments) + 1))
    assert all(len(segment.text) <= 2000 for segment in segments)
    assert "hidden" not in "".join(segment.text for segment in segments)

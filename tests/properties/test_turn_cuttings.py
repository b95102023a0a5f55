"""The bytes of a provider, cut anywhere, give the same delivered segments."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.segments import Segment
from tests.support.cuttings import cut_at, pieces, two_way
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


def test_the_segments_count_from_one_and_fit_a_message():
    segments = delivered([BODY])
    assert [segment.seq for segment in segments] == list(range(1, len(segments) + 1))
    assert all(len(segment.text) <= 2000 for segment in segments)
    assert "hidden" not in "".join(segment.text for segment in segments)

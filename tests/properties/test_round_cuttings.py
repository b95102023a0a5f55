"""Two rounds of an attempt: every cutting gives the same segments, calls and history."""

import json
from itertools import pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from shared.history import Reading
from shared.messages import ContentBlock, Message, TextBlock, ThinkingBlock
from shared.segments import Segment
from shared.turns import StopReason, Target, ToolSpec
from tests.support import wire
from tests.support.cuttings import common, cut_at, two_way
from tests.support.tool_case import DONE, call, frame
from tests.support.turns import turn
from worker.turn.pipeline import Pipeline, pipeline_for
from worker.turn.sources import Source

REQUEST = turn(tools=(ToolSpec(name="echo"),))
TEXT = "First, **look** at `this`.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nThen 日本 🎉. And now I"
CALLS = [
    call("echo", json.dumps({"text": "x" * 40}), id="c1"),
    call("echo", '{"text": "日本"}', id="c2", index=1),
]
ASKING = b"".join(
    [
        *(frame(content=TEXT[at : at + 5]) for at in range(0, len(TEXT), 5)),
        frame(tool_calls=CALLS),
        frame("tool_calls"),
        DONE,
    ]
)
ANSWERING = b"".join(
    [frame(content="So it is "), frame(content="done.\n\n```py\n1\n```"), frame("stop"), DONE]
)


def round_of(pipeline: Pipeline, parts: list[bytes]) -> list[Segment]:
    segments = [segment for part in parts for segment in pipeline.feed(part)]
    return segments + pipeline.flush()


def played(
    asking: list[bytes], answering: list[bytes], target: Target = REQUEST.target
) -> tuple[list[Segment], Message]:
    pipeline = pipeline_for(REQUEST, target, 1)
    segments = round_of(pipeline, asking)
    assert pipeline.goes_on
    assert [one.id for one in pipeline.calls] == ["c1", "c2"]
    answer = pipeline.answer(target)
    pipeline.next_round()
    segments += round_of(pipeline, answering)
    assert pipeline.stop_reason is StopReason.STOP
    return segments, answer


WHOLE = played([ASKING], [ANSWERING])


def test_the_segments_count_on_over_the_rounds_and_the_history_has_every_word():
    segments, answer = WHOLE
    assert [segment.seq for segment in segments] == list(range(1, len(segments) + 1))
    shown = "\n\n".join(segment.text for segment in segments)
    assert "And now I" not in shown
    assert shown.endswith("```py\n1\n```")
    assert isinstance(answer.content, list)
    assert getattr(answer.content[0], "text", None) == TEXT


@given(
    st.lists(st.integers(0, len(ASKING)), max_size=30),
    st.lists(st.integers(0, len(ANSWERING)), max_size=10),
)
def test_any_cutting_of_both_rounds_gives_the_same(first: list[int], second: list[int]):
    assert played(cut_at(ASKING, first), cut_at(ANSWERING, second)) == WHOLE


@given(st.lists(st.integers(0, len(ANSWERING)), max_size=10))
def test_a_round_that_is_carried_shows_what_it_showed(places: list[int]):
    first = pipeline_for(REQUEST, REQUEST.target, 1)
    shown = round_of(first, [ASKING])
    second = pipeline_for(REQUEST, REQUEST.target, 1)
    assert second.carry(first.said, trims=True) == shown
    rest = round_of(second, cut_at(ANSWERING, places))
    assert [*shown, *rest] == WHOLE[0]
    assert second.said == "So it is done.\n\n```py\n1\n```"


OWN = Target(provider="my-box", model="m")
MARKS = ["word ", "Done.", "\n\n", " ", "<think>", "</think>", "<thi", "echo(", "echo({})", "`"]
talks = st.lists(
    st.tuples(st.sampled_from(["", "It is done.", "I was figurin"]), st.sampled_from(MARKS)),
    max_size=12,
)


def answered(parts: list[bytes]) -> tuple[str, list[ContentBlock]]:
    """What is shown of a round, and its answer."""
    pipeline = pipeline_for(REQUEST, OWN, 1)
    round_of(pipeline, parts)
    content = pipeline.answer(OWN).content
    assert isinstance(content, list)
    return pipeline.said, content


@given(talks, st.lists(st.integers(0, 4000), max_size=10))
def test_an_answer_has_what_was_shown_around_its_reasoning_in_any_cutting(
    talk: list[tuple[str, str]], places: list[int]
):
    body, reasonings = b"", 0
    for number, (reasoning, mark) in enumerate(talk):
        if reasoning:
            body += frame(reasoning_content=reasoning)
            reasonings += 1
        body += frame(content=f"{number}{mark}")
    body += frame(tool_calls=CALLS[:1]) + frame("tool_calls") + DONE
    said, content = answered([body])
    texts = [block.text for block in content if isinstance(block, TextBlock)]
    assert "".join("".join(texts).split()) == "".join(said.split())
    reasoned = [block for block in content if isinstance(block, ThinkingBlock)]
    assert len(reasoned) == reasonings
    for block, after in pairwise(content):
        assert not isinstance(block, TextBlock) or not isinstance(after, TextBlock)
    for parts in (cut_at(body, [place % len(body) for place in places]), *common(body)):
        assert answered(parts) == (said, content)


CITED = Source(url="https://a.example/", title="A page")
GROUNDING = {"groundingChunks": [{"web": {"uri": CITED.url, "title": CITED.title}}]}
CITING = wire.sse(
    wire.gemini({"text": "It rains."}),
    wire.gemini({"functionCall": {"name": "echo", "args": {}}}),
    {"candidates": [{"groundingMetadata": GROUNDING, "finishReason": "STOP"}]},
)
GOOGLE = Target(provider="google", model="g")


def test_a_round_has_its_own_sources_in_any_cutting():
    for parts in (*common(CITING), *two_way(CITING, step=3)):
        pipeline = pipeline_for(REQUEST, GOOGLE, 1)
        shown = round_of(pipeline, parts)
        assert pipeline.sources == [CITED]
        again = pipeline_for(REQUEST, GOOGLE, 1)
        assert again.carry(pipeline.said, trims=True, sources=pipeline.sources) == shown
        for one in (pipeline, again):
            one.next_round()
            assert one.sources == []
        ending = [wire.sse(wire.gemini({"text": "So it is."}, finish="STOP"))]
        last = round_of(pipeline, ending)
        assert last[-1].text == "-# Sources: [A page](<https://a.example/>)"
        assert round_of(again, ending) == last


SPEAKS = msgspec.structs.replace(REQUEST, reading=Reading(before=9, speakers=("Ann",)))
SPEAKING = b"".join(
    [
        frame(content="It is **so**.\nAnn: tha"),
        frame(content="nks!\n\nAnd more.\n"),
        frame(tool_calls=CALLS),
        frame("tool_calls"),
        DONE,
    ]
)
"""The model speaks for somebody else, and calls tools after that."""


def ended(parts: list[bytes]) -> tuple[list[Segment], StopReason]:
    """What comes of a reply that the speaker guard ends; all of it is read, as at worst."""
    pipeline = pipeline_for(SPEAKS, SPEAKS.target, 1)
    segments = round_of(pipeline, parts)
    assert pipeline.calls == []
    assert not pipeline.goes_on
    return segments, pipeline.stop_reason


def test_a_reply_that_the_guard_ended_calls_nothing_in_any_cutting():
    whole = ended([SPEAKING])
    assert [segment.text for segment in whole[0]] == ["It is **so**."]
    for parts in (*common(SPEAKING), *two_way(SPEAKING)):
        assert ended(parts) == whole


@given(st.lists(st.integers(0, len(SPEAKING)), max_size=30), st.booleans())
def test_a_reply_that_the_guard_ended_is_the_same_wherever_the_driver_leaves_it(
    places: list[int], leaves: bool
):
    pipeline = pipeline_for(SPEAKS, SPEAKS.target, 1)
    segments: list[Segment] = []
    for part in cut_at(SPEAKING, places):
        segments += pipeline.feed(part)
        if leaves and pipeline.end is not None:
            break  # as the driver does: it closes the stream
    segments += pipeline.flush()
    assert (segments, pipeline.stop_reason) == ended([SPEAKING])
    assert pipeline.calls == []
    assert not pipeline.goes_on

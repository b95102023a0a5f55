"""The chunk room for any text in any cutting: nothing lost, nothing reordered, the same pieces."""

import itertools

import pytest
from hypothesis import assume, example, given, reject
from hypothesis import strategies as st

from shared.turns import StopReason
from tests.support.chunks import Said, say, tool
from worker.chunks.dedup import longest_overlap
from worker.chunks.processor import ChunkProcessor
from worker.chunks.types import ProcessedChunk
from worker.normalize.events import (
    Done,
    FaultReason,
    StreamEvent,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
)

TOOLS = [tool("roll_dice", sides="integer"), tool("search", ["query"], query="string")]
MARKS = [
    "<think>", "</think>", "<thinking a='b'>", "<mm:think>", "</reasoning>", "<think/>", "<thi",
    "`", "``", "```", "```json\n", "\n", "\n\n", " ", "  ", "<", ">", "&", "word", "Done.", "e.g.",
    "<|channel|>", "<|message|>", "analysis", "final", "<|end|>", "<|start|>", "assistant", "<|",
    "roll_dice(", "search(", "roll_dice", '{"sides": 6}', '{"query"', ':"x"', ")", "()", "sides=",
    "6", '"', "'", "{", "}", "<tool_call>", "</tool_call>", '{"name": "roll_dice"}', "<function=",
    "x.roll_dice()", "a_", "é", "。", "<｜tool▁calls▁begin｜>", "x" * 70, "y" * 200,
]  # fmt: skip
FIRST_SIGN = 0x4E00  # a letter of no tag
texts = st.lists(st.sampled_from(MARKS), max_size=25).map("".join)
reasonings = st.sampled_from(["", "It is done.", "I was figurin", "so I must "])


def orphans(said: Said) -> int:
    """Closers without an opener: the one mark whose reach depends on deltas (decision C2)."""
    return int(said.metadata.get("diagnostics", {}).get("orphan_closers", 0))


def run(
    text: str,
    cut: list[int],
    *,
    reasoning: str = "",
    failed: bool = False,
    searches: bool = True,
) -> Said:
    processor = ChunkProcessor(
        provider="custom",
        model="m",
        tools=TOOLS,
        verbatim_tools=searches,
    )
    places = sorted({0, len(text), *(place % (len(text) + 1) for place in cut)})
    deltas = [text[a:b] for a, b in itertools.pairwise(places)]
    events = [ThinkingDelta(index=0, delta=reasoning)] if reasoning else []
    end = (
        StreamFailed(reason=FaultReason(code="stream_truncated"))
        if failed
        else Done(stop_reason=StopReason.STOP, content=[], usage={})
    )
    said = say(processor, [*events, *(TextDelta(index=1, delta=delta) for delta in deltas), end])
    if processor.diagnostics.dropped_chars:
        reject()  # a delta repeats all before it: only by chance, but then it is taken out
    return said


def talk(rounds: list[tuple[str, str]], cut: list[int]) -> Said:
    """Several blocks of reasoning, each with a text behind it that is cut at the same places."""
    processor = ChunkProcessor(provider="custom", model="m", tools=TOOLS, verbatim_tools=True)
    events: list[StreamEvent] = []
    for number, (reasoning, rest) in enumerate(rounds):
        text = chr(FIRST_SIGN + number) + rest  # else a delta may be all that was said, and more
        if reasoning:
            events.append(ThinkingDelta(index=2 * number, delta=reasoning))
        places = sorted({0, len(text), *(place for place in cut if place < len(text))})
        events += [
            TextDelta(index=2 * number + 1, delta=text[a:b]) for a, b in itertools.pairwise(places)
        ]
    said = say(processor, [*events, Done(stop_reason=StopReason.STOP, content=[], usage={})])
    if processor.diagnostics.dropped_chars:
        reject()
    return said


@given(text=texts, cut=st.lists(st.integers(0, 2000), max_size=12), reasoning=reasonings)
@example(text="```\nroll_dice()\n```", cut=[3, 4, 17], reasoning="")
@example(text="`roll_dice(` <think>x", cut=list(range(30)), reasoning="")
def test_any_cutting_gives_the_same(text, cut, reasoning):
    whole, parts = run(text, [], reasoning=reasoning), run(text, cut, reasoning=reasoning)
    each = run(text, list(range(len(text))), reasoning=reasoning)
    assert orphans(whole) == orphans(parts) == orphans(each)
    assume(not orphans(whole))
    for other in (parts, each):
        assert (other.text, other.thoughts) == (whole.text, whole.thoughts)
        assert other.calls == whole.calls
        assert other.metadata == whole.metadata


@given(text=texts, cut=st.lists(st.integers(0, 2000), max_size=12), reasoning=reasonings)
def test_closers_with_openers_do_not_depend_on_the_cutting(text, cut, reasoning):
    text = f"<think>{text.replace('<', '(')}</think>{text.replace('<', '(')}"
    whole, parts = run(text, [], reasoning=reasoning), run(text, cut, reasoning=reasoning)
    assert (parts.text, parts.thoughts) == (whole.text, whole.thoughts)


plain = st.lists(
    st.sampled_from(["word ", "a <b> c", "Done. ", "\n\n", "1.5", "`x`", "。", "x" * 90])
)


@given(parts=plain, cut=st.lists(st.integers(0, 2000), max_size=12), reasoning=reasonings)
def test_text_without_markup_comes_out_whole_and_in_order(parts, cut, reasoning):
    text = "".join(parts)
    said = run(text, cut, reasoning=reasoning)
    # What a spill guard took off comes first, so that the order of everything is kept.
    assert said.thoughts.removeprefix(reasoning) + said.text == text


tags = st.sampled_from(
    ["<think>", "</think>", "<thi", "`", "``", "```", "\n", "<", " ", "x.Y", "<b>"]
)


@given(marks=st.lists(tags, max_size=25), cut=st.lists(st.integers(0, 2000), max_size=12),
       reasoning=reasonings)  # fmt: skip
def test_every_sign_is_said_once_and_in_order_as_text_or_as_reasoning(marks, cut, reasoning):
    signs = [chr(FIRST_SIGN + number) for number in range(len(marks))]
    text = "".join(mark + sign for mark, sign in zip(marks, signs, strict=True))
    said = run(text, cut, reasoning=reasoning, searches=False)
    visible = [char for char in said.text if char in signs]
    hidden = [char for char in said.thoughts if char in signs]
    assert visible == sorted(visible)
    assert hidden == sorted(hidden)
    assert sorted(visible + hidden) == signs


rounds = st.lists(
    st.tuples(reasonings, st.lists(tags, max_size=8), st.sampled_from([0.0, 0.5, 2.0, 12.0])),
    max_size=6,
)


@given(rounds=rounds, cut=st.integers(1, 9), searches=st.booleans())
@example(rounds=[("I was figurin", [" "], 0), ("It is done.", ["x.Y"], 0)], cut=9, searches=False)
def test_reasoning_and_waits_between_texts_reorder_nothing(rounds, cut, searches):
    processor = ChunkProcessor(provider="custom", model="m", tools=TOOLS, verbatim_tools=searches)
    chunks: list[ProcessedChunk] = []
    signs: list[str] = []
    now_s = 0.0
    for number, (reasoning, marks, wait_s) in enumerate(rounds):
        if reasoning:
            chunks += processor.feed(ThinkingDelta(index=2 * number, delta=reasoning))
        now_s += wait_s
        chunks += processor.tick(now_s)
        new = [chr(FIRST_SIGN + len(signs) + place) for place in range(len(marks))]
        text = "".join(mark + sign for mark, sign in zip(marks, new, strict=True))
        signs += new
        for at in range(0, len(text), cut):
            chunks += processor.feed(TextDelta(index=2 * number + 1, delta=text[at : at + cut]))
    chunks += processor.feed(Done(stop_reason=StopReason.STOP, content=[], usage={}))
    if processor.diagnostics.dropped_chars:
        reject()
    said = Said(chunks)
    visible = [char for char in said.text if char in signs]
    hidden = [char for char in said.thoughts if char in signs]
    assert visible == sorted(visible)
    assert hidden == sorted(hidden)
    assert sorted(visible + hidden) == signs


@given(
    rounds=st.lists(st.tuples(reasonings, texts), max_size=4),
    cut=st.lists(st.integers(0, 500), max_size=8),
)
def test_reasoning_between_texts_gives_the_same_in_any_cutting(rounds, cut):
    whole, parts = talk(rounds, []), talk(rounds, cut)
    each = talk(rounds, list(range(500)))
    assume(not orphans(whole))
    for other in (parts, each):
        assert (other.text, other.thoughts) == (whole.text, whole.thoughts)
        assert (other.calls, other.metadata) == (whole.calls, whole.metadata)


@given(text=texts, at=st.integers(0, 2000))
def test_a_tick_lets_every_hold_go(text, at):
    processor = ChunkProcessor(provider="custom", model="m", tools=TOOLS, verbatim_tools=True)
    place = at % (len(text) + 1)
    for delta in (text[:place], text[place:]):
        if delta:
            processor.feed(TextDelta(index=0, delta=delta))
    for now_s in (0.0, 11.0, 22.0, 33.0, 44.0):
        processor.tick(now_s)
    assert processor.flush() == []


@given(st.text("ab", max_size=30), st.text("ab", max_size=30))
def test_the_longest_overlap_is_the_longest(tail, head):
    naive = max(size for size in range(min(len(tail), len(head)) + 1) if tail.endswith(head[:size]))
    assert longest_overlap(tail, head) == naive


@given(text=st.text(max_size=200), cut=st.lists(st.integers(0, 200), max_size=8))
def test_no_text_raises(text, cut):
    run(text, cut)
    run(text, cut, failed=True)


@pytest.mark.parametrize("failed", [True, False])
def test_an_empty_stream_has_only_its_end(failed):
    said = run("", [], failed=failed)
    assert said.chunks == [said.end]

"""What holds for every reply: order, completeness, bounds, the same segments in any cutting."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared.segments import MAX_SEGMENT_CHARS, DeliveryMode, Segment, SegmentKind
from tests.support import discord_markdown
from tests.support.markdown_texts import document, wild
from tests.support.segmenting import MODES, Run, in_pieces, limits_for
from worker.text.graphemes import utf16_units
from worker.text.lexicon import is_visible

ADDED = re.compile(r"[\s\u200b`~*|>\w+\-.#]+", re.A)
"""White space, the marks that the room may add or leave out, and what an info string is made of."""

GREEK = {ord("a") + at: chr(ord("α") + at % 17) for at in range(26)}
"""So that letters are compared: no info string, which may be repeated or dropped, has these."""

modes = st.sampled_from(MODES)


def bare(text: str) -> str:
    return ADDED.sub("", text)


def check_bounds(segments: list[Segment]) -> None:
    end = 0
    for seq, segment in enumerate(segments, start=1):
        assert segment.seq == seq
        assert segment.start == end
        assert segment.end > segment.start
        end = segment.end
        assert is_visible(segment.text)
        messages = segment.fallback or (segment.text,)
        assert all(len(text) <= MAX_SEGMENT_CHARS for text in messages)
        assert all(utf16_units(text) <= MAX_SEGMENT_CHARS for text in messages)
        assert len(segment.text.encode()) <= 64 * 1024


def check_complete(text: str, segments: list[Segment]) -> None:
    """Each segment shows its part of the text, and the parts are the whole text, in order."""
    head = ""
    for segment in segments:
        part, shown = bare(text[segment.start : segment.end]), bare(segment.text)
        if segment.kind is SegmentKind.TEXT:
            assert shown == part, segment
        elif segment.kind is SegmentKind.TABLE:
            assert shown in (part, head + part), segment  # one that was cut repeats its head
            head = bare("\n".join(segment.text.split("\n")[:2]))
        else:
            assert part in shown, segment  # code repeats its info string
    rest = text[segments[-1].end :] if segments else text
    assert not is_visible(bare(rest)), rest


@given(
    wild(private=True), modes, st.integers(1, 9), st.sampled_from(["final", "tool_call", "stop"])
)
@example("a | b\n" * 3 + "--- | ---\n", DeliveryMode.LINE, 1, "final")
@example("```\n" + "`" * 40 + "\n```", DeliveryMode.LINE, 3, "final")
def test_any_cutting_gives_the_same_segments(text: str, mode: DeliveryMode, size: int, end: str):
    whole = Run([text], mode, end=end)
    cut = Run(in_pieces(text, size), mode, end=end)
    assert cut.segments == whole.segments
    assert cut.buffer.thoughts == whole.buffer.thoughts
    assert cut.buffer.details == whole.buffer.details
    assert "".join(cut.buffer.history) == text
    check_bounds(whole.segments)


@given(wild(), modes)
@example("(The fox. It jumps! a | b\n--- | ---\n", DeliveryMode.SENTENCE)
def test_nothing_is_lost_doubled_or_reordered(text: str, mode: DeliveryMode):
    text = text.lower().translate(GREEK)
    run = Run([text], mode)
    check_bounds(run.segments)
    check_complete(text, run.segments)


@given(wild(), st.sampled_from([*DeliveryMode]), st.integers(8, 60))
@example("👩‍👩‍👧" * 9, DeliveryMode.PARAGRAPH, 8)
def test_a_message_of_any_size_makes_progress(text: str, mode: DeliveryMode, body: int):
    text = text.lower().translate(GREEK)
    run = Run([text], mode, limits=limits_for(body))
    check_complete(text, run.segments)
    assert all(len(segment.text) <= body + 60 for segment in run.messages)


@given(document(), st.sampled_from([DeliveryMode.PARAGRAPH, DeliveryMode.LINE]))
def test_segments_render_as_their_part_of_the_whole_did(text: str, mode: DeliveryMode):
    segments = Run([text], mode).messages
    rendered = [shown for segment in segments for shown in discord_markdown.shown(segment.text)]
    assert rendered == discord_markdown.shown(text)


@pytest.mark.parametrize("mode", MODES)
@given(text=document())
def test_no_mark_is_left_open(mode: DeliveryMode, text: str):
    for segment in Run([text], mode).messages:
        for char, styles in discord_markdown.shown(segment.text):
            code = any(style.startswith("code") for style in styles)
            assert code or char not in "|~`", segment.text

"""Holds that end by time: what a silence shows, and what it leaves alone."""

import pytest

from shared.segments import DeliveryMode
from worker.segments.buffer import SegmentBuffer
from worker.segments.limits import LONGEST_HOLD_S, STALL_LINE_S, STALL_TEXT_S

SENTENCE = "This is a whole sentence of some length. "


def shown(buffer: SegmentBuffer, *times: float) -> list[list[str]]:
    return [[segment.text for segment in buffer.tick(now)] for now in times]


def fed(text: str, mode: DeliveryMode) -> SegmentBuffer:
    buffer = SegmentBuffer("l1", 1, mode=mode)
    assert buffer.feed(text) == []
    return buffer


def test_line_mode_shows_the_lines_that_a_hold_keeps_back():
    buffer = fed("(a\nb\nhalf", DeliveryMode.LINE)
    almost = 10 + STALL_LINE_S - 0.01
    assert shown(buffer, 10, almost, 10 + STALL_LINE_S) == [[], [], ["(a", "b"]]
    assert [segment.text for segment in buffer.feed(" line)\n")] == ["half line)"]


def test_text_that_came_starts_the_clock_again():
    buffer = fed("(a\n", DeliveryMode.LINE)
    assert shown(buffer, 0, 1) == [[], []]
    assert buffer.feed("b") == []
    assert shown(buffer, 2, 3) == [[], []]
    assert shown(buffer, 3.5) == [["(a"]]


def test_long_text_is_shown_up_to_its_last_sentence():
    buffer = fed(SENTENCE * 7 + "And a ha", DeliveryMode.PARAGRAPH)
    assert buffer.tick(0) == []
    (segment,) = buffer.tick(STALL_TEXT_S)
    assert segment.text == (SENTENCE * 7).strip()
    assert buffer.tick(2 * STALL_TEXT_S) == []
    assert [part.text for part in buffer.flush()] == ["And a ha"]


def test_sentence_mode_shows_the_sentences_that_a_hold_keeps_back():
    buffer = fed("(" + SENTENCE * 7 + "And a ha", DeliveryMode.SENTENCE)
    assert [len(found) for found in shown(buffer, 0, STALL_TEXT_S)] == [0, 7]


def test_short_text_waits_for_its_paragraph():
    buffer = fed(SENTENCE, DeliveryMode.PARAGRAPH)
    assert shown(buffer, 0, 60) == [[], []]


def test_a_finished_paragraph_is_shown_whatever_its_length():
    buffer = fed("Short.\n\n", DeliveryMode.PARAGRAPH)
    assert shown(buffer, 0, STALL_TEXT_S) == [[], ["Short."]]


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("```py\n" + "x = 1\n" * 60, DeliveryMode.LINE),
        ("| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 40, DeliveryMode.LINE),
        ("a | b\n", DeliveryMode.LINE),
        (SENTENCE * 8, DeliveryMode.AGGREGATED),
        ("word " * 60, DeliveryMode.PARAGRAPH),
        ("`" + SENTENCE * 8, DeliveryMode.PARAGRAPH),
    ],
    ids=["code", "table", "head", "aggregated", "no sentence", "inline code"],
)
def test_what_must_stay_whole_stays(text: str, mode: DeliveryMode):
    assert shown(fed(text, mode), 0, 100, 200) == [[], [], []]


def test_a_line_is_not_held_for_ever_by_a_slow_stream():
    buffer = fed("(a\nb", DeliveryMode.LINE)
    for second in range(int(LONGEST_HOLD_S)):
        assert shown(buffer, second) == [[]]
        assert buffer.feed(".") == []
    assert shown(buffer, LONGEST_HOLD_S) == [["(a"]]


def test_a_tick_after_the_end_gives_nothing():
    buffer = fed("a", DeliveryMode.LINE)
    assert len(buffer.flush()) == 1
    assert shown(buffer, 0, 100) == [[], []]
    assert buffer.flush_pending(for_tool_call=True) == []


def test_ticks_without_silence_change_nothing():
    text = "(a\nb) c\n\n" + SENTENCE * 30
    plain, ticked = SegmentBuffer("l1", 1), SegmentBuffer("l1", 1)
    expected = plain.feed(text) + plain.flush()
    found = []
    for at, char in enumerate(text):
        found += ticked.feed(char) + ticked.tick(at * 0.01)
    assert found + ticked.flush() == expected

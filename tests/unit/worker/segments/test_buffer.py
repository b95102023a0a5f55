"""The room's shape: feed, tick, flush, and what happens after the end."""

import pytest

from shared.segments import DeliveryMode
from worker.segments.buffer import SegmentBuffer


def test_lines_come_out_and_the_end_gives_the_rest():
    buffer = SegmentBuffer("l1", 1, mode=DeliveryMode.LINE)
    segments = buffer.feed("One.\n\nTw") + buffer.feed("o.") + buffer.flush()
    assert [s.text for s in segments] == ["One.", "Two."]
    assert [s.seq for s in segments] == [1, 2]


def test_feed_after_flush_is_an_error_and_a_second_flush_is_empty():
    buffer = SegmentBuffer("l1", 1)
    assert buffer.flush() == []
    assert buffer.flush() == []
    with pytest.raises(RuntimeError, match="flushed"):
        buffer.feed("x")


def test_the_history_is_kept_whole_in_few_parts():
    buffer = SegmentBuffer("l1", 1)
    deltas = [f"w{at} " for at in range(20_000)]
    for delta in deltas:
        buffer.feed(delta)
    assert "".join(buffer.history) == "".join(deltas)
    assert len(buffer.history) < 1_000


def test_an_empty_delta_is_no_part_of_the_history():
    buffer = SegmentBuffer("l1", 1)
    assert buffer.feed("") == []
    assert buffer.history == []

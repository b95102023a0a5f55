"""Pictures between the texts of a reply: a place and a number, and nothing of the text."""

from shared.segments import DeliveryMode, SegmentKind
from worker.segments.buffer import SegmentBuffer
from worker.segments.cleaning import Cleaning


def attach(buffer: SegmentBuffer) -> list[tuple[SegmentKind, str, int]]:
    segments = buffer.attach("p1", filename="cat.png", note="(a picture)")
    return [(one.kind, one.text, one.seq) for one in segments]


def test_what_is_held_comes_before_the_picture_and_text_may_follow():
    buffer = SegmentBuffer("m1", 1)
    assert buffer.feed("Here it is") == []
    assert attach(buffer) == [(SegmentKind.TEXT, "Here it is", 1), (SegmentKind.FILE, "", 2)]
    buffer.feed("Nice, no?")
    (last,) = buffer.flush()
    assert (last.text, last.seq) == ("Nice, no?", 3)
    assert buffer.history == ["Here it is", "Nice, no?"]


def test_a_packed_reply_keeps_its_order():
    buffer = SegmentBuffer("m1", 1, mode=DeliveryMode.AGGREGATED)
    buffer.feed("One.\n\nTwo.")
    assert [text for _, text, _ in attach(buffer)] == ["One.\n\nTwo.", ""]


def test_after_the_end_there_are_no_pictures():
    buffer = SegmentBuffer("m1", 1)
    buffer.flush()
    assert attach(buffer) == []


def test_a_reply_that_a_guard_ended_shows_none():
    buffer = SegmentBuffer("m1", 1, cleaning=Cleaning(speakers=("Bob",)))
    buffer.feed("Hello.\n\nBob: and I say\n\nmore")
    assert buffer.stopped
    assert SegmentKind.FILE not in {kind for kind, _, _ in attach(buffer)}

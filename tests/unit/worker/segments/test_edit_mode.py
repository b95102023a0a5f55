"""The mode `edit`: what is finished of the next message may be seen before it is whole."""

import pytest

from shared.segments import DeliveryMode
from worker.segments.buffer import SegmentBuffer

SENTENCES = "It was late. The shop was closed. Nobody came.\n\nThen it rained."


def buffer_of(mode: DeliveryMode) -> SegmentBuffer:
    return SegmentBuffer("l1", 1, mode=mode)


def test_what_may_be_seen_grows_by_sentences_and_ends_as_the_message():
    buffer, seen = buffer_of(DeliveryMode.EDIT), [""]
    for char in SENTENCES:
        assert buffer.feed(char) == []
        if buffer.pending != seen[-1]:
            seen.append(buffer.pending)
    assert seen[1:] == [
        "It was late.",
        "It was late. The shop was closed.",
        "It was late. The shop was closed. Nobody came.",
    ]
    assert [segment.text for segment in buffer.flush()] == [SENTENCES]
    assert buffer.pending == ""


def test_reasoning_and_open_marks_are_never_seen():
    buffer = buffer_of(DeliveryMode.EDIT)
    buffer.feed("Hello there. <think>the secret plan.</think> **Bold words. ")
    assert buffer.pending == "Hello there."


@pytest.mark.parametrize("mode", [mode for mode in DeliveryMode if mode is not DeliveryMode.EDIT])
def test_the_other_modes_show_nothing_early_but_what_is_packed(mode: DeliveryMode):
    buffer = buffer_of(mode)
    buffer.feed(SENTENCES)
    assert buffer.pending in ("", SENTENCES[: len(buffer.pending)])

"""What stands between two texts, for a front that shows them in one message."""

import pytest

from shared.segments import DeliveryMode, SegmentKind
from tests.support.segmenting import Run, in_pieces
from worker.segments.buffer import SegmentBuffer

APART = (DeliveryMode.PARAGRAPH, DeliveryMode.LINE, DeliveryMode.SENTENCE)
TEXT = (
    "Hello there. How are you? Fine!\nA second line.\n\nA paragraph\nwith two lines.\n\n"
    "- one\n- two\n\n1. a\n2. b\n\n# Head\nunder it\n\nThe **end**, see <https://a.b/c>. Bye!\n"
)


def joined(run: Run) -> str:
    return "".join((segment.joint or "") + segment.text for segment in run.segments)


@pytest.mark.parametrize("mode", APART)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_texts_with_their_joints_are_what_was_said(mode, size):
    run = Run(in_pieces(TEXT, size), mode)
    assert len(run.segments) > 1
    assert joined(run) == TEXT.strip()


def test_white_space_is_condensed_as_in_one_message():
    assert joined(Run(["One.\n\n\n\nTwo.\n \nThree."])) == "One.\n\nTwo.\n\nThree."


def test_a_long_text_that_was_cut_in_a_sentence_comes_together_again():
    words = " ".join(f"word{number}" for number in range(900))
    run = Run([words])
    assert len(run.segments) > 2
    assert joined(run) == words


@pytest.mark.parametrize(
    "text",
    ["**" + "bold " * 500 + "**", "||" + "secret " * 400 + "||", ">>> " + "quoted " * 400],
    ids=["bold", "spoiler", "quote"],
)
def test_what_was_closed_and_opened_again_reads_the_same_or_stays_apart(text):
    for segment in Run([text]).segments[1:]:
        assert segment.joint in (None, " ", "\n")
        assert segment.joint or segment.text[0] in "*|>"


def test_code_and_tables_stand_alone():
    run = Run(["Text.\n\n```py\nx = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nMore."])
    alone = [segment.joint for segment in run.segments if segment.kind is not SegmentKind.TEXT]
    assert alone == [None, None]


def test_what_follows_a_tool_call_is_another_paragraph():
    buffer = SegmentBuffer("l1", 1)
    buffer.feed("Let me look.")
    first = buffer.flush_pending(for_tool_call=True)
    buffer.feed("It is four.")
    (second,) = buffer.flush()
    assert [segment.joint for segment in first] == [None]
    assert second.joint == "\n\n"

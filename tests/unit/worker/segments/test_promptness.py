"""When a segment is out: with the character that decides it, not later."""

import pytest

from shared.segments import DeliveryMode
from worker.segments.buffer import SegmentBuffer

L, P, S = DeliveryMode.LINE, DeliveryMode.PARAGRAPH, DeliveryMode.SENTENCE
TABLE = "| a | b |\n|---|---|\n| 1 | 2 |\n"

CASES = {
    "a line at its end": (L, "One\n", ""),
    "a line that ends with a carriage return": (L, "One\r", "x"),
    "a line whose hold closes": (L, "(a\nb)\n", ""),
    "a hold that a blank line ends": (L, "(a\n\n", ""),
    "a paragraph with the next character": (P, "One\ntwo\n\n", "N"),
    "a paragraph in front of a number that is no list": (P, "One\n\n2", "x"),
    "a sentence with the blank behind it": (S, "One.", " "),
    "a full-width sentence with the next character": (S, "一。", "二"),
    "a sentence with a pause": (S, "One... ", "T"),
    "text in front of a fence": (P, "One\n```py", "\n"),
    "code at its last tick and one more": (P, "```\nx\n```", "\n"),
    "code in a quote that ends": (P, "> ```\n> x\n", "y"),
    "a table at a line that is no row": (P, TABLE, "x"),
    "a table at a blank line": (P, TABLE, "\n"),
    "a table without bars at the end of a line": (P, "a | b\n--|--\n1 | 2\nno row", "\n"),
    "text in front of a table": (P, "One\n| a | b |\n|---|---|", "\n"),
    "lines that are no table": (L, "a | b\n", "c"),
    "text behind a private block": (L, "<think>x</think>One\n", ""),
}


@pytest.mark.parametrize(("mode", "text", "last"), CASES.values(), ids=CASES.keys())
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_segment_is_out_with_what_decides_it(mode: DeliveryMode, text: str, last: str, size: int):
    buffer = SegmentBuffer("l1", 1, mode=mode)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    before = [segment for piece in pieces for segment in buffer.feed(piece)]
    assert bool(before) is (last == "")
    assert bool(before + buffer.feed(last))


def test_prose_without_any_end_is_out_at_its_size():
    buffer = SegmentBuffer("l1", 1)
    fed = 0
    while not buffer.feed("word "):
        fed += 5
    assert fed <= 1200

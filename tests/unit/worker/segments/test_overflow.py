"""Where text without a boundary is cut, and what is closed and opened again."""

import pytest

from shared.segments import MAX_SEGMENT_CHARS, DeliveryMode
from tests.support.segmenting import Run, in_pieces, texts
from worker.segments.limits import Limits
from worker.text.graphemes import utf16_units

L = DeliveryMode.LINE


def test_prose_is_cut_behind_a_sentence_once_it_is_long_enough():
    first, *_, last = texts("A sentence of some words. " * 100)
    assert 1000 <= len(first) <= 1200
    assert first.endswith("words.")
    assert last.endswith("words.")


def test_the_last_sentence_before_is_taken_where_none_follows():
    text = "A sentence. " * 70 + "word " * 100
    assert texts(text)[0] == ("A sentence. " * 70).strip()


def test_white_space_is_next_then_a_character():
    assert [len(text) for text in texts("words " * 300)[:1]] == [995]
    assert [len(text) for text in texts("x" * 2500)] == [1000, 1000, 500]
    assert texts("x" * 1100 + " " + "y" * 300)[0] == "x" * 1100


def test_a_cluster_of_code_points_stays_whole():
    family = "👩‍👩‍👧"
    for text in texts(family * 700):
        assert text.replace(family, "") == ""
        assert utf16_units(text) <= MAX_SEGMENT_CHARS


def test_utf16_units_bind_messages_and_code():
    for text in ("😀" * 5000, "```\n" + "😀" * 3000 + "\n```", "```\n" + "😀" * 1500 + "\n```"):
        run = Run([text], L)
        assert all(utf16_units(message.text) <= MAX_SEGMENT_CHARS for message in run.messages)
        assert sum(found.count("😀") for found in run.texts) == text.count("😀")


def test_inline_code_in_astral_text_that_fills_a_message_is_undone():
    text = "😀" * 300 + "`" + "😀" * 800 + "` end"
    assert sum(found.count("😀") for found in texts(text)) == 1100


@pytest.mark.parametrize("mark", ["*", "**", "~~", "||", "***"])
def test_marks_are_closed_and_opened_again(mark: str):
    text = mark + "word " * 500 + "end" + mark
    found = texts(text)
    assert len(found) == 3
    assert all(part.startswith(mark) and part.endswith(mark[::-1]) for part in found)


def test_an_address_longer_than_a_message_is_cut_alone():
    address = "https://example.com/" + "a" * 2100
    assert "".join(texts(f"See {address} now")).replace(" ", "") == f"See{address}now"
    assert texts(f"See {address} now")[0] == "See"


def test_a_quote_that_is_cut_is_quoted_again():
    found = texts("> " + "quoted words " * 200 + "\nplain\n", L)
    assert [part.startswith("> ") for part in found] == [True] * (len(found) - 1) + [False]
    found = texts(">>> " + "quoted words. " * 200)
    assert all(part.startswith(">>> ") for part in found)


def test_a_marker_is_not_parted_from_its_text():
    for pad in range(990, 1003):
        found = texts("あ" * pad + "**" + "い" * 300 + "**う")
        assert all(part.count("**") in {0, 2} for part in found)
        assert "****" not in "".join(found)


def test_a_hold_ends_after_its_size():
    lines = "a line of words\n" * 100
    run = Run(["(" + lines], L)
    assert run.texts[0] == "(a line of words"
    assert len(run.texts) == 100


def test_inline_code_that_is_too_long_is_text():
    text = "`" + "word " * 200 + "` b"
    assert " ".join(texts(text)) == text


def test_inline_code_over_a_blank_line_is_text():
    assert texts("a `b\n\nc` d") == ["a `b", "c` d"]


def test_a_hold_far_in_front_waits_for_its_end():
    text = "word " * 20 + "(" + "word " * 150 + ") " + "word. " * 100
    assert texts(text)[0].count("(") == texts(text)[0].count(")") == 1


def test_limits_keep_their_proportions():
    assert Limits.for_body(1900) == Limits(rest=15_200)
    with pytest.raises(ValueError, match="at least one character"):
        Limits.for_body(0)


def test_a_message_of_one_character_makes_progress():
    run = Run(["ab 👩‍👩‍👧 `c` **d** ```e f```"], L, limits=Limits.for_body(1))
    assert [text for text in run.texts if text.strip("`\n") in set("ab")] == ["a", "b"]


def test_pieces_longer_than_a_part_are_read_in_parts():
    text = "`a\r\n" * 3000
    assert Run([text], L).segments == Run(in_pieces(text, 7), L).segments

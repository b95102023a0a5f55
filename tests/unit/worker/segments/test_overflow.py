"""Where text without a boundary is cut, and what is closed and opened again."""

import pytest

from shared.segments import MAX_SEGMENT_CHARS, DeliveryMode
from tests.support.segmenting import Run, in_pieces, limits_for, texts
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
        assert not any("****" in part for part in found)


def test_a_closer_is_not_parted_from_its_text():
    for count in range(990, 1003):
        found = texts("**" + "あ" * count + "**" + "い" * 300)
        assert all(part.count("**") in {0, 2} for part in found), found
        assert not any("****" in part for part in found)


def test_an_opener_in_astral_text_is_not_parted_from_its_text():
    for count in range(540, 555):
        found = texts("😀" * 400 + "(" + "😀" * count + "**" + "👍" * 400 + "** x)")
        assert not any("****" in part for part in found)
        assert sum(part.count("👍") for part in found) == 400


def test_a_token_at_the_limit_is_seen_whole():
    for count in range(980, 1001):
        found = texts("あ" * count + "<:pog:123456789012345678>" + "い" * 300)
        assert sum("<:pog:123456789012345678>" in part for part in found) == 1
    for count in (5, 695, 699):
        found = texts("a. " + "b" * count + ". https://example.com/" + "x" * 900 + " c. " * 100)
        assert any("https://example.com/" + "x" * 900 in part for part in found)


def test_lines_and_closed_sentences_are_places_to_cut():
    assert texts("a line\n" * 300)[0] == ("a line\n" * 143).strip()
    assert texts("A sentence (so.) " * 100)[0].endswith("so.)")


def test_inline_code_at_the_limit_stays_whole():
    for count in range(232, 242):
        found = texts("word " * count + "`code with words` " + "word " * 100)
        assert sum("`code with words`" in part for part in found) == 1


def test_inline_code_that_ends_with_its_hold_loses_nothing():
    for count in range(894, 903):
        text = "`" + "x" * count + "\nb` c"
        assert "".join("".join(texts(text)).split()) == "".join(text.split())


def test_an_emphasis_whose_hold_ended_within_its_line_is_text_behind_it():
    text = "**" + "word " * 190
    assert texts(text + "\nnext\n", L) == [text.strip(), "next"]


def test_a_packed_message_joins_what_was_cut_within_a_line():
    run = Run(["word " * 900], DeliveryMode.AGGREGATED)
    assert " ".join(run.texts).split() == ["word"] * 900
    assert all(len(text) > 1800 for text in run.texts[:-1])


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
    text = "word " * 100 + "(" + "word " * 150 + ") " + "word. " * 100
    assert texts(text)[0].count("(") == texts(text)[0].count(")") == 1


def test_text_in_front_of_a_hold_is_cut_not_the_hold():
    held = "(" + "So it is. " * 40 + ")"
    found = texts("word " * 160 + held + " end. " * 100)
    assert [held in part for part in found].count(True) == 1


def test_a_message_of_one_character_makes_progress():
    run = Run(["ab 👩‍👩‍👧 `c` **d** ```e f```"], L, limits=limits_for(1))
    assert [text for text in run.texts if text.strip("`\n") in set("ab")] == ["a", "b"]


def test_pieces_longer_than_a_part_are_read_in_parts():
    text = "`a\r\n" * 3000
    assert Run([text], L).segments == Run(in_pieces(text, 7), L).segments


@pytest.mark.parametrize("marked", ["**強調**", "*it*", "~~x~~", "***both***", '"はい"', "||x||"])
def test_a_mark_that_opens_behind_a_sentence_begins_the_next_message(marked: str):
    rest = marked + " x" * 300
    assert texts("あ" * 1005 + "。" + rest) == ["あ" * 1005 + "。", rest]

"""Reasoning glued to the answer: when it is taken off, and when the text is an answer."""

import pytest

from tests.support.chunks import show
from worker.chunks.pieces import merged
from worker.chunks.spill_guard import HOLD_S, MAX_HELD_CHARS, SpillGuard


def guard(reasoning: str, text: str) -> tuple[str, int]:
    """What becomes of the text, cut at the bars, and how much was taken off."""
    spill = SpillGuard()
    spill.note_reasoning(reasoning)
    pieces = [piece for delta in text.split("|") for piece in spill.feed(delta)]
    return show(merged([*pieces, *spill.flush()])), spill.stripped_chars


@pytest.mark.parametrize(
    ("reasoning", "text", "shown"),
    [
        ("so I", " must do.Hello!", "{ must do.}Hello!"),
        ("I was figurin", "g it |out.hey there", "{g it out.}hey there"),
        ("so I", "must do!?Hello", "{must do!?}Hello"),
        ("so I", "must do.) *Hello*", "must do.) *Hello*"),
        ("so I", "must do.*Hello*", "{must do.}*Hello*"),
        ("so I", 'must do."Hello"', '{must do.}"Hello"'),
        ("so I", "must do 。「やあ」", "{must do 。}「やあ」"),
        ("so I", "must do.)Hello", "{must do.)}Hello"),
        ("so I", "must do.Ünder", "{must do.}Ünder"),
    ],
)
def test_a_glued_sentence_end_is_the_border(reasoning, text, shown):
    assert guard(reasoning, text)[0] == shown


@pytest.mark.parametrize(
    ("reasoning", "text"),
    [
        ("", "must do.Hello!"),
        ("All is done.", "see example.com for info"),
        ("All is done.”\n", "must do.Hello"),
        ("so I", "see example.com for info"),
        ("so I", "wait. Actually"),
        ("so I", "wait.” Actually"),
        ("so I", "v1.2 is out"),
        ("so I", "1.5x is out"),
        ("so I", "try `obj.Method` now"),
        ("so I", "use node.js today"),
        ("so I", "e.g. this.|"),
        ("so I", "as e.g.this says"),
        ("so I", "in a U.S.Army base"),
        ("so I", "mail a@b.Org"),
        ("so I", "rm -rf foo.-x"),
        ("so I", "x.Y is short"),
        ("so I ", "look at foo.barista now"),
        ("so I", "Upper case starts.An answer"),
        ("so I", "no end at all"),
        ("so I", "ends here."),
        ("so I", "ends here.|.|."),
        ("so I", "ends here.**"),
        ("so I ", "   "),
        ("so I", "see readme.md"),
    ],
)
def test_what_is_an_answer_stays(reasoning, text):
    assert guard(reasoning, text) == (text.replace("|", ""), 0)


def test_a_word_after_a_dot_may_still_grow():
    spill = SpillGuard()
    spill.note_reasoning("figurin")
    assert spill.feed("g it out.co") == []
    assert show(spill.feed("me here")) == "{g it out.}come here"


def test_reasoning_in_pieces_counts_as_one():
    spill = SpillGuard()
    spill.note_reasoning("done")
    spill.note_reasoning(".")
    spill.note_reasoning("")
    assert show(spill.feed("must do.Hello")) == "must do.Hello"


def test_the_first_text_settles_it():
    spill = SpillGuard()
    assert show(spill.feed(" ")) == " "
    spill.note_reasoning("so I")
    assert spill.feed("must ") == []
    assert show(spill.feed("do.Hello")) == "{must do.}Hello"
    spill.note_reasoning("more reasoning")
    assert show(spill.feed("it goes on.And on")) == "it goes on.And on"


def test_white_space_alone_settles_nothing():
    spill = SpillGuard()
    spill.note_reasoning("so I")
    assert spill.feed("\n\n") == []
    assert show(spill.flush()) == "\n\n"
    spill.note_reasoning(" was figurin")
    assert show(spill.feed("g it out.Hello")) == "{g it out.}Hello"


def test_a_word_is_not_torn_by_white_space_that_was_given_out():
    spill = SpillGuard()
    spill.note_reasoning("so I")
    assert spill.feed("\n") == []
    assert show(spill.flush()) == "\n"
    assert show(spill.feed("look at foo.barista now") + spill.flush()) == "look at foo.barista now"


def test_a_hold_ends_by_size():
    spill = SpillGuard()
    spill.note_reasoning("so I")
    assert spill.feed("x" * (MAX_HELD_CHARS - 1)) == []
    assert show(spill.feed("x")) == "x" * MAX_HELD_CHARS


def test_a_hold_ends_by_tick():
    spill = SpillGuard()
    spill.note_reasoning("so I")
    assert spill.tick(0.0) == []
    spill.feed("must do")
    assert spill.tick(1.0) == []
    assert show(spill.tick(1.0 + HOLD_S)) == "must do"


def test_an_orphan_closer_takes_what_is_held():
    spill = SpillGuard()
    spill.note_reasoning("so I")
    spill.feed("must do")
    assert (spill.retract(), spill.retract()) == ("must do", "")

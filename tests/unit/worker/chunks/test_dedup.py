"""What a provider says twice: whole texts so far, overlaps at a seam; real repetition stays."""

import time

import pytest

from worker.chunks.dedup import (
    HOLD_S,
    MAX_REMEMBERED_CHARS,
    MIN_SEAM_CHARS,
    SEAM_TAIL_CHARS,
    Deduplicator,
    is_periodic,
    longest_overlap,
)

LONG = "The bridge over the river is closed. "
SEAM = "crossed the old stone bridge"


def said(deltas: list[str]) -> str:
    dedup = Deduplicator()
    return "".join(map(dedup.feed, deltas)) + dedup.flush()


@pytest.mark.parametrize(
    ("deltas", "text"),
    [
        ([LONG, LONG + "Take", LONG + "Take the ferry."], LONG + "Take the ferry."),
        (["Sail", "Sail north", "Sail north until dawn."], "Sail north until dawn."),
        (["ha", "haha", "!"], "hahaha!"),
        (["ha", "haha"], "hahaha"),
        (["a", "ab", "abc", "abc"], "abc"),
        ([LONG[:20], LONG[20:], LONG], LONG),
        ([LONG, LONG], LONG + LONG),
        (["no ", "no ", "no "], "no no no "),
        (["", "a", ""], "a"),
        (["x" * 40, "y", "x" * 40 + "y"], "x" * 40 + "y"),
    ],
    ids=["snapshots", "short beginning", "laughter", "laughter at the end", "last one twice",
         "repeated whole", "a refrain in one delta", "short words", "nothing", "after a join"],
)  # fmt: skip
def test_snapshots(deltas, text):
    assert said(deltas) == text


def at_seam(tail: str, delta: str) -> str:
    dedup = Deduplicator()
    dedup.feed(tail)
    dedup.arm_seam()
    return dedup.feed(delta)


@pytest.mark.parametrize(
    ("tail", "delta", "new"),
    [
        ("We " + SEAM, SEAM + " at dawn", " at dawn"),
        ("We " + SEAM, SEAM, SEAM),
        ("We " + SEAM[:15], SEAM[:15] + " at", SEAM[:15] + " at"),
        ("-" * 40, "-" * 39 + " end", "-" * 39 + " end"),
        ("We " + SEAM, "and then we " + SEAM, "and then we " + SEAM),
        ("", SEAM, SEAM),
    ],
    ids=["overlap", "never all of it", "too short", "a table rule", "in the middle", "no tail"],
)
def test_an_overlap_at_a_seam(tail, delta, new):
    assert at_seam(tail, delta) == new


def test_the_tail_is_bounded():
    assert (
        at_seam("We " + SEAM + "z" * SEAM_TAIL_CHARS, SEAM + "z" * SEAM_TAIL_CHARS + "!")[0] == "c"
    )


def test_a_seam_is_looked_for_once():
    dedup = Deduplicator()
    dedup.feed("We " + SEAM)
    assert dedup.feed(SEAM + " x") == SEAM + " x"
    dedup.arm_seam()
    assert dedup.feed("other") == "other"
    assert dedup.feed("other and on") == "other and on"


def test_what_was_dropped_is_counted():
    dedup = Deduplicator()
    for delta in ("abc", "abcd", "abcde"):
        dedup.feed(delta)
    assert dedup.dropped_chars == 3


def test_a_held_delta_ends_by_tick():
    dedup = Deduplicator()
    dedup.feed("ha")
    assert dedup.feed("haha") == ""
    assert dedup.tick(1.0) == ""
    assert dedup.tick(1.0 + HOLD_S) == "haha"
    assert dedup.tick(99.0) == ""


def test_a_long_text_of_true_deltas_is_not_remembered_whole():
    dedup = Deduplicator()
    delta = "0123456789" * 1000
    count = MAX_REMEMBERED_CHARS // len(delta) + 2
    assert sum(len(dedup.feed(f"{number:05}" + delta)) for number in range(count)) == count * 10_005
    dedup.arm_seam()
    assert dedup.feed(delta[-MIN_SEAM_CHARS - 1 :] + "new")[-3:] == "new"


@pytest.mark.parametrize(
    ("text", "periodic"),
    [
        ("----", True),
        ("ha ha ha ", True),
        ("abcab", False),
        ("", False),
        ("a", False),
        ("abab", True),
    ],
)
def test_periodic(text, periodic):
    assert is_periodic(text) is periodic


def test_overlap_of_periodic_texts_is_linear():
    begin = time.process_time()
    assert longest_overlap("a" * 4096, "a" * 4095 + "b") == 4095
    assert longest_overlap("a" * 4096, "a" * 4095) == 4095
    assert time.process_time() - begin < 0.5


def test_cumulative_frames_cost_no_more_than_they_hold():
    text = "word " * 2000
    deltas = [text[:size] for size in range(5, len(text), 50)]
    assert said([*deltas, text]) == text

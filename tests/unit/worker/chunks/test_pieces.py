"""Pieces between the guards, and how long a hold lasts."""

from shared.messages import ArgumentState
from worker.chunks.pieces import Called, HoldTimer, Piece, Reasoned, Visible, merged


def test_neighbours_of_one_kind_are_joined_and_empty_ones_dropped():
    call = Called("n", {}, ArgumentState.OK)
    pieces: list[Piece] = [
        Visible("a"),
        Visible(""),
        Visible("b"),
        Reasoned(""),
        Reasoned("c"),
        call,
        Visible("d"),
    ]
    assert merged(pieces) == [Visible("ab"), Reasoned("c"), call, Visible("d")]
    assert merged([]) == []
    assert merged([call]) == [call]


def test_a_hold_is_timed_from_the_first_tick_that_sees_it():
    timer = HoldTimer(2.0)
    assert not timer.expired(None, 0.0)
    assert not timer.expired(1, 1.0)
    assert not timer.expired(1, 2.9)
    assert timer.expired(1, 3.0)
    assert not timer.expired(2, 3.5)
    assert not timer.expired(None, 9.0)
    assert not timer.expired(2, 9.5)

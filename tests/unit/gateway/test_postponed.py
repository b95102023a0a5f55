"""What an envelope begins with and the intent that follows it: one write where that is safe."""

from gateway.front import Sent
from gateway.sequencer import TurnSequencer
from gateway.steps import Head, Piece, Rewrite
from tests.support.envelopes import done, superseded, text

A = (Piece(text="a"),)


def test_what_an_attempt_begins_with_goes_with_the_intent_of_its_first_post():
    turn = TurnSequencer("l1")
    patch = turn.feed(text(1, "a"), A)
    assert patch is not None
    assert turn.postpone(patch)
    step = turn.step()
    assert step is not None
    both = turn.intent(step, 1)
    assert both is not None
    assert (both.before, both.head.attempt, len(both.put)) == (Head(), 1, 1)


def test_what_no_intent_follows_at_once_is_written_before_anything_is_done():
    turn = TurnSequencer("l1")
    turn.feed(text(1, "a"), A)
    step = turn.step()
    assert step is not None
    turn.intent(step, 1)
    turn.settle(step, Sent(message_id=1))
    voids = turn.feed(superseded(2), ())
    assert voids is not None
    assert not turn.postpone(voids)
    rewrites = turn.feed(text(1, "a", attempt=3), A)
    assert rewrites is not None
    assert not turn.postpone(rewrites)
    assert isinstance(turn.step(), Rewrite)


def test_the_end_of_a_turn_that_says_nothing_is_written_at_once():
    turn = TurnSequencer("l1")
    end = turn.feed(done(0), ())
    assert end is not None
    assert end.head.closed
    assert not turn.postpone(end)

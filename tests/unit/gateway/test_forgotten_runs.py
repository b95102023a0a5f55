"""Runs that a server forgot in the middle: what the journal has begun, and what comes again."""

from gateway.front import Sent
from gateway.sequencer import TurnSequencer
from gateway.steps import Head, JournalRecord, Piece, Rewrite, Slot
from shared.segments import Envelope
from tests.support.envelopes import done, text

OLD = Slot(nonce="of the first attempt", at_ms=1, message_id=11)


def show(turn: TurnSequencer, envelope: Envelope, *pieces: str, run: int = 0) -> list[str]:
    parts = tuple(Piece(text=words) for words in pieces)
    turn.feed(envelope, parts, upto=run, is_partial=run > 0)
    texts = []
    while (step := turn.step()) is not None:
        turn.intent(step, 1)
        texts.append(f"{'=' if isinstance(step, Rewrite) else '+'}{getattr(step, 'text', '')}")
        turn.settle(step, Sent(message_id=12))
    return texts


def test_a_run_whose_first_text_alone_was_rewritten_goes_on_with_the_second():
    head = Head(attempt=2, claim="aaaa0001", upto=3, past=("1/aaaa0001",))
    turn = TurnSequencer("l1", JournalRecord(head=head, slots=(OLD,)))
    assert show(turn, text(1, "a", attempt=2), "a", run=3) == ["=a"]
    assert show(turn, text(2, "b", attempt=2), "b") == ["+b"]


def test_what_an_attempt_had_begun_is_not_counted_for_the_end_of_another():
    head = Head(attempt=1, claim="aaaa0001", seq=1, parts=1, cursor=1, upto=3, again=(0,))
    turn = TurnSequencer("l1", JournalRecord(head=head, slots=(OLD,)))
    assert show(turn, done(1, attempt=2), "it was cut off") == ["+it was cut off"]
    assert turn.is_closed

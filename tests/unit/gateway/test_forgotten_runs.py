"""Runs that a server forgot in the middle: what the journal has begun, and what comes again."""

import asyncio
from typing import Any

from gateway.delivery.lanes import Pace
from gateway.front import Sent
from gateway.sequencer import TurnSequencer
from gateway.steps import Head, JournalRecord, Piece, Rewrite, Slot, Written
from shared.segments import Envelope
from tests.support.channel import MemoryJournal, MemoryLease
from tests.support.delivery import Bench
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


async def test_a_server_that_knows_no_leader_costs_a_leader_no_memory():
    """It forgot everything, and the journal is written before the lease is renewed."""

    class Empty(MemoryJournal):
        async def write(self, *args: Any, **more: Any) -> Written:
            if lease.keeps == kept:
                return Written.FENCED
            return await super().write(*args, **more)

    class Counted(MemoryLease):
        keeps = 0

        async def keep(self) -> bool:
            self.keeps += 1
            return await super().keep()

    bench, lease, kept = Bench(), Counted(), -1
    bench.lease, bench.journal = lease, Empty()
    bench.pace = Pace(renew_s=60.0)
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(bench.partition().run(bench.stop, drain_s=1.0))
        for envelopes in (
            [text(1, "a"), text(2, "b")],
            [text(1, "a", claim="c"), done(1, claim="c")],
        ):
            bench.source.add(*envelopes)
            while bench.source.entries:
                await asyncio.sleep(0.001)
            bench.journal.heads.clear()
            bench.journal.slots.clear()
            kept = lease.keeps
        bench.stop.set()
    assert bench.front.shown(7) == ["a"]

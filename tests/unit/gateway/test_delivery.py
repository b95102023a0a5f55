"""Delivery of a partition: order, journal, refusals, leases, over fakes of every port."""

import asyncio
from typing import Any

import pytest

from gateway.delivery.channels import BLOCK_S
from gateway.delivery.lanes import Pace
from gateway.delivery.turns import DEADLINE_S
from gateway.front import Refusal, Refused, Unavailable
from gateway.steps import JournalRecord, TornJournal, Written
from shared.errors import ConfigError, StoreUnavailable
from shared.segments import Envelope, SegmentKind
from shared.turns import Front
from tests.support.channel import (
    ManualClock,
    MemoryJournal,
    MemoryLease,
)
from tests.support.delivery import Bench
from tests.support.envelopes import NOW_MS, done, failed, superseded, text

FAULT = "Whoever set this up can change it."
QUICK = Pace(renew_s=0.01)
FORBIDDEN = Refused(refusal=Refusal.CHANNEL, status=403, code=50013)


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_a_reply_is_shown_in_order_and_acknowledged(bench):
    await bench.deliver(text(1, "a"), text(2, "b"), text(3, "c"), done(3))
    assert bench.front.shown(7) == ["a", "b", "c"]
    assert bench.lease.released == 1
    assert bench.typing.stopped


async def test_channels_do_not_wait_for_each_other_and_each_has_one_request_in_flight(bench):
    envelopes = [
        text(seq, f"{channel}.{seq}", turn=f"l{channel}", channel=channel)
        for seq in range(1, 6)
        for channel in range(10)
    ]
    await bench.deliver(*envelopes)
    for channel in range(10):
        assert bench.front.shown(channel) == [f"{channel}.{seq}" for seq in range(1, 6)]
    assert bench.front.most_in_flight == 1


async def test_a_superseded_reply_is_rewritten_in_place(bench):
    await bench.deliver(
        text(1, "a"),
        text(2, "b"),
        superseded(2),
        text(1, "x", attempt=2),
        done(1, attempt=2),
    )
    assert bench.front.shown(7) == ["x"]
    assert bench.front.requests == ["send", "send", "edit", "delete"]


async def test_a_notice_in_the_place_of_a_void_reply_is_a_notice(bench):
    await bench.deliver(text(1, "a"), text(2, "b"), superseded(2), failed(0, attempt=2))
    (notice,) = bench.front.messages(7)
    assert notice.is_notice
    await bench.deliver(
        text(1, "a", turn="l2"),
        superseded(2, turn="l2"),
        text(1, "x", turn="l2", attempt=2),
        done(1, turn="l2", attempt=2),
    )
    assert not bench.front.messages(7)[-1].is_notice


async def test_what_was_shown_before_a_restart_is_not_shown_again(bench):
    first = text(1, "a")
    bench.source.add(first)
    await bench.until(lambda: bench.front.shown(7) == ["a"] and not bench.source.entries)
    bench.source.add(first)
    await bench.deliver(text(2, "b"))
    assert bench.front.shown(7) == ["a", "b"]


async def test_a_message_sent_before_the_crash_is_not_sent_twice(bench):
    """Killed between the post and its receipt: the journal has the intent alone."""
    bench.front.script = [None]
    bench.front.loses_answers = 1
    await bench.deliver(text(1, "a"), done(1))
    assert bench.front.shown(7) == ["a"]


async def test_failures_and_empty_replies_are_said(bench):
    await bench.deliver(failed(0, "The provider is overloaded."))
    await bench.deliver(done(0, turn="l2"))
    assert bench.front.shown(7) == [
        f"The provider is overloaded.\n-# {FAULT}",
        "The model answered without any text. Please ask again, perhaps in other words.",
    ]
    assert all(message.is_notice for message in bench.front.messages(7))


async def test_notes_of_a_newer_worker_are_logged(bench, caplog):
    await bench.deliver(text(1, "a"), done(1, notes=("new",)))
    assert bench.front.shown(7) == ["a"]
    assert "delivery.unknown_notes" in caplog.messages


async def test_a_table_is_shown_by_its_fallback(bench):
    await bench.deliver(
        text(1, "| a |", kind=SegmentKind.TABLE, fallback=("```\na\n```", "```\nb\n```"))
    )
    assert bench.front.shown(7) == ["```\na\n```", "```\nb\n```"]


async def test_a_channel_that_refuses_is_left_alone_and_its_turn_is_stopped(bench):
    bench.front.script = [FORBIDDEN]
    await bench.deliver(text(1, "a"), text(2, "b"), done(2))
    assert bench.front.shown(7) == []
    assert bench.fleet.cancelled == ["l1"]
    assert bench.fleet.blocked == [7]
    assert bench.reporter.causes == ["channel_refused"]
    assert bench.reporter.reports[0].provider_code == "50013"


async def test_only_the_first_refusal_of_an_episode_is_reported(bench):
    bench.front.script = [FORBIDDEN]
    bench.source.add(text(1, "a"), text(1, "b", turn="l2"), text(1, "c", turn="l3"))
    await bench.until(lambda: not bench.source.entries)
    assert bench.reporter.causes == ["channel_refused"]


async def test_a_blocked_channel_is_tried_again_after_a_while(bench):
    bench.front.script = [FORBIDDEN]
    running = bench.partition()
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(running.run(bench.stop, drain_s=1.0))
        bench.source.add(text(1, "a"))
        while bench.source.entries:
            await asyncio.sleep(0.001)
        bench.clock.time_s += BLOCK_S + 1
        later_ms = int(bench.clock.time_s * 1000)
        bench.source.add(text(1, "b", turn="l2", at_ms=later_ms))
        while bench.source.entries:
            await asyncio.sleep(0.001)
        bench.stop.set()
    assert bench.front.shown(7) == ["b"]


async def test_a_text_that_is_not_accepted_is_reported_and_the_rest_goes_on(bench):
    bench.front.script = [Refused(refusal=Refusal.CONTENT, status=400, code=200000)]
    await bench.deliver(text(1, "bad"), text(2, "good"), done(2))
    assert bench.front.shown(7) == ["good"]
    assert bench.reporter.causes == ["content_refused"]


async def test_a_message_deleted_by_a_moderator_is_not_sent_again(bench):
    bench.front.script = [Refused(refusal=Refusal.GONE, status=404, code=10008)]
    await bench.deliver(text(1, "a"), text(2, "b"), done(2))
    assert bench.front.shown(7) == ["b"]
    assert bench.reporter.causes == []


async def test_an_answer_that_comes_too_late_becomes_a_report(bench):
    bench.front.script = [Unavailable(reason="connection")] * 100
    await bench.deliver(text(1, "a"), done(1))
    assert bench.reporter.causes == ["delivery_expired"]
    assert bench.clock.time_s == pytest.approx(NOW_MS / 1000 + DEADLINE_S)


async def test_a_gap_is_reported_and_the_rest_is_shown(bench):
    await bench.deliver(text(1, "a"), text(3, "c"), done(3))
    assert bench.front.shown(7) == ["a", "c"]
    assert bench.reporter.causes == ["delivery_gap"]


async def test_a_refused_token_stops_the_process_and_keeps_the_replies(bench):
    bench.front.script = [Refused(refusal=Refusal.TOKEN, status=401)]
    bench.source.add(text(1, "a"))
    with pytest.raises(ConfigError, match="TURNFLEET_DISCORD_TOKEN"):
        await bench.partition().run(bench.stop, drain_s=1.0)
    assert bench.source.entries


async def test_an_absent_store_is_waited_for(bench):
    bench.journal.absent = 4
    await bench.deliver(text(1, "a"), done(1))
    assert bench.front.shown(7) == ["a"]


async def test_one_broken_turn_does_not_stop_the_partition(bench):
    broken = text(1, "a", turn="l1")
    other = Front.DISCORD  # no courier for it: the lookup fails
    bench.source.add(
        Envelope(
            entry_id=broken.entry_id,
            turn_id="l1",
            attempt=1,
            claim=broken.claim,
            seq=1,
            route=type(broken.route)(front=other, channel_id=8, user_id=1),
            event=broken.event,
        )
    )
    await bench.deliver(text(1, "b", turn="l2"))
    assert bench.front.shown(7) == ["b"]
    assert bench.reporter.causes == ["delivery_crashed"]


async def test_a_journal_that_nobody_can_read_stops_one_turn_only(bench):
    class Torn(MemoryJournal):
        async def read(self, turn_id: str) -> JournalRecord | None:
            if turn_id == "l1" and not self.writes:
                raise TornJournal("torn", b"{")
            return await super().read(turn_id)

    bench.journal = Torn()
    await bench.deliver(text(1, "a"), text(2, "b"), text(1, "c", turn="l2", channel=8))
    assert bench.front.shown(7) == []
    assert bench.front.shown(8) == ["c"]
    assert bench.reporter.causes == ["delivery_crashed"]


async def test_what_a_server_forgot_is_not_shown_once_more(bench):
    """It forgot the journal and the end of the turn, so a worker answered again."""
    first = [text(1, "a"), text(2, "b"), done(2)]
    again = [superseded(2), text(1, "x", attempt=2), done(1, attempt=2)]
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(bench.partition().run(bench.stop, drain_s=1.0))
        for envelopes in (first, again):
            bench.source.add(*envelopes)
            while bench.source.entries:
                await asyncio.sleep(0.001)
            bench.journal.heads.clear()
            bench.journal.slots.clear()
        bench.source.add(*first)
        while bench.source.entries:
            await asyncio.sleep(0.001)
        bench.stop.set()
    assert bench.front.shown(7) == ["a", "b"]
    assert bench.journal.heads["l1"].head.closed
    assert sorted(bench.journal.slots["l1"]) == [0, 1]


async def test_a_journal_with_holes_is_written_anew(bench):
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(bench.partition().run(bench.stop, drain_s=1.0))
        for seq, words in enumerate(("a", "b", "c"), start=1):
            bench.source.add(text(seq, words))
            while bench.source.entries:
                await asyncio.sleep(0.001)
            if words == "b":
                bench.journal.heads.clear()
                bench.journal.slots.clear()
        bench.stop.set()
    bench.stop.clear()
    await bench.deliver(superseded(2), text(1, "x", attempt=2), done(1, attempt=2))
    assert bench.front.shown(7) == ["x"]


async def test_without_the_lease_nothing_is_delivered(bench):
    bench.pace = QUICK
    bench.lease.is_free = False
    bench.source.add(text(1, "a"))
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(bench.partition().run(bench.stop, drain_s=1.0))
        await asyncio.sleep(0.03)
        assert bench.front.shown(7) == []
        bench.lease.is_free = True
        while bench.source.entries:
            await asyncio.sleep(0.001)
        bench.stop.set()


async def test_a_lost_lease_stops_delivery_until_it_is_had_again(bench):
    bench.pace = QUICK
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(bench.partition().run(bench.stop, drain_s=1.0))
        await asyncio.sleep(0.03)
        bench.lease.is_free = False
        await asyncio.sleep(0.05)
        bench.source.add(text(1, "a"))
        await asyncio.sleep(0.05)
        assert bench.front.shown(7) == []
        bench.lease.is_free = True
        while bench.source.entries:
            await asyncio.sleep(0.001)
        bench.stop.set()
    assert bench.front.shown(7) == ["a"]


async def test_while_the_lease_is_not_sure_it_is_confirmed_before_anything_is_sent(bench):
    asked: list[int] = []

    class Unsure(MemoryLease):
        async def keep(self) -> bool:
            asked.append(len(bench.front.requests))
            return True

    bench.lease = Unsure()
    bench.lease.is_certain = False
    await bench.deliver(text(1, "a"), text(2, "b"), done(2))
    assert asked == [0, 1]


async def test_a_leader_that_wakes_after_its_lease_rewrites_nothing(bench):
    """Stopped between journal and request: its successor has rewritten the message since."""
    await bench.deliver(text(1, "a"))

    class Stalled(MemoryJournal):
        async def write(self, *args: Any, **more: Any) -> Written:
            written = await super().write(*args, **more)
            bench.lease.is_certain = bench.lease.is_free = False
            return written

    stalled = Stalled()
    stalled.heads, stalled.slots = bench.journal.heads, bench.journal.slots
    bench.journal = stalled
    bench.source.add(superseded(2), text(1, "old", attempt=2))
    await bench.until(lambda: not bench.lease.is_free)
    assert bench.front.shown(7) == ["a"]
    assert bench.source.entries


async def test_a_fenced_journal_acknowledges_nothing(bench):
    bench.pace = QUICK
    bench.journal.is_fenced = True
    bench.source.add(text(1, "a"))
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(bench.partition().run(bench.stop, drain_s=1.0))
        await asyncio.sleep(0.05)
        assert bench.source.entries
        assert bench.front.shown(7) == []
        bench.journal.is_fenced = False
        while bench.source.entries:
            await asyncio.sleep(0.001)
        bench.stop.set()


async def test_the_lease_survives_an_absent_store(bench):
    bench.pace = QUICK
    holds: list[bool] = []

    class Shaky(MemoryLease):
        async def take(self) -> bool:
            return await self.keep()

        async def keep(self) -> bool:
            holds.append(True)
            if len(holds) in (1, 3):
                raise StoreUnavailable
            return True

        async def release(self) -> None:
            raise StoreUnavailable

    bench.lease = Shaky()
    bench.source.add(text(1, "a"))
    await bench.until(lambda: not bench.source.entries and len(holds) > 4)
    assert bench.front.shown(7) == ["a"]


async def test_a_front_that_is_gone_is_left_after_the_time_to_drain(bench):
    bench.front.script = [Unavailable(reason="connection")] * 10_000
    patient = ManualClock(NOW_MS / 1000)

    async def wait(seconds: float) -> None:
        del seconds
        await asyncio.sleep(0.01)

    patient.sleep = wait  # type: ignore[method-assign]  # time that does not pass
    bench.clock = patient
    bench.source.add(text(1, "a"))
    async with asyncio.timeout(5):
        running = asyncio.ensure_future(bench.partition().run(bench.stop, drain_s=0.05))
        await asyncio.sleep(0.05)
        bench.stop.set()
        await running
    assert bench.source.entries


async def test_a_full_house_waits_and_can_be_stopped(bench):
    bench.pace = Pace(max_held=2, room_s=0.01)
    await bench.deliver(*[text(seq, str(seq)) for seq in range(1, 8)])
    assert bench.front.shown(7) == [str(seq) for seq in range(1, 8)]
    bench.front.script = [Unavailable(reason="connection", retry_after_s=0.0)] * 100_000
    bench.source.add(*[text(seq, str(seq), turn="l2", channel=8) for seq in range(1, 8)])
    async with asyncio.timeout(5):
        running = asyncio.ensure_future(bench.partition().run(bench.stop, drain_s=0.01))
        bench.stop.clear()
        await asyncio.sleep(0.1)
        bench.stop.set()
        await running
    assert bench.source.entries

"""Lanes: a channel goes on whatever becomes of a call, for a task group would not notice."""

import asyncio
from typing import Any

import pytest

from gateway.delivery.lanes import Pace
from gateway.steps import Written
from shared.segments import SegmentKind
from tests.support.channel import MemoryJournal, MemoryLease, MemorySource
from tests.support.delivery import Bench
from tests.support.envelopes import done, preview, text


class Painter:
    """Its first drawing is cancelled by somebody else."""

    def __init__(self) -> None:
        self.calls = 0

    async def paint(self, source: str) -> bytes | None:
        del source
        self.calls += 1
        if self.calls == 1:
            raise asyncio.CancelledError
        return None


class Source(MemorySource):
    """Its first acknowledgement is cancelled by somebody else."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    async def ack(self, entry_id: str) -> None:
        self.calls += 1
        if self.calls == 1:
            raise asyncio.CancelledError
        await super().ack(entry_id)


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.pace = Pace(room_s=0.01)
    return made


async def test_a_call_that_is_cancelled_costs_one_turn_and_is_reported(bench):
    bench.painter = Painter()
    table = text(1, "| a |\n|---|\n| b |", turn="l1", kind=SegmentKind.TABLE)
    await bench.deliver(table, done(1, turn="l1"), text(1, "c", turn="l2"), done(1, turn="l2"))
    assert bench.front.shown(7) == ["c"]
    assert bench.reporter.causes == ["delivery_crashed"]


async def test_a_lane_outlives_a_call_that_is_cancelled(bench):
    bench.source = Source()
    await bench.deliver(preview(0, "a"), text(1, "ab"), done(1))
    assert bench.source.calls > 1
    assert bench.front.shown(7) == ["ab"]


async def test_a_lease_that_is_lost_and_had_again_at_once_is_no_endless_round(bench):
    class Taken(MemoryLease):
        calls = 0

        async def take(self) -> bool:
            self.calls += 1
            return True

    class Refusing(MemoryJournal):
        calls = 0

        async def write(self, *_: Any, **__: Any) -> Written:
            self.calls += 1
            return Written.FORGOTTEN

    bench.lease, bench.journal = Taken(), Refusing()
    bench.source.add(text(1, "a"))
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(bench.partition().run(bench.stop, drain_s=1.0))
        while not bench.journal.calls:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.1)
        assert bench.lease.calls == 1
        bench.stop.set()

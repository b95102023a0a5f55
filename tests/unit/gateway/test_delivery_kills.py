"""Delivery stopped at each of its awaits in turn: the next gateway ends with the same channel."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count

import pytest

from gateway.delivery.courier import Courier, Echoes
from gateway.delivery.partition import PartitionDelivery
from gateway.delivery.turns import Surroundings
from gateway.front import Outcome, OutgoingMessage
from gateway.notices import Notices
from gateway.sequencer import JournalRecord, Patch, Written
from shared.i18n import load_texts
from shared.segments import Envelope
from shared.turns import Front
from tests.support.channel import (
    ManualClock,
    MemoryFleet,
    MemoryFront,
    MemoryJournal,
    MemoryLease,
    MemoryReporter,
    MemorySource,
    NoTyping,
)
from tests.support.envelopes import NOW_MS, done, failed, superseded, text

NOTICES = Notices(load_texts())
REPLIES: dict[str, tuple[list[Envelope], list[str]]] = {
    "plain": ([text(1, "a"), text(2, "b"), done(2)], ["a", "b"]),
    "shorter second attempt": (
        [text(1, "a"), text(2, "b"), superseded(2), text(1, "x", attempt=2), done(1, attempt=2)],
        ["x"],
    ),
    "longer second attempt": (
        [
            text(1, "a"),
            superseded(2),
            text(1, "x", attempt=2),
            text(2, "y", attempt=2),
            done(2, attempt=2),
        ],
        ["x", "y"],
    ),
    "failed second attempt": (
        [text(1, "a"), text(2, "b"), superseded(2), failed(0, attempt=2)],
        ["It failed.\n-# Whoever set this up can change it."],
    ),
}


class Gate:
    """Lets so many awaits pass; then the process hangs for ever, to be killed."""

    def __init__(self, passes: int) -> None:
        self.left = passes
        self.reached = asyncio.Event()

    async def __call__(self) -> None:
        self.left -= 1
        if self.left < 0:
            self.reached.set()
            await asyncio.Event().wait()


class GatedFront(MemoryFront):
    gate: Gate

    async def send(self, message: OutgoingMessage) -> Outcome:
        return await self._gated(lambda: MemoryFront.send(self, message))

    async def edit(
        self, channel_id: int, message_id: int, text: str, *, is_notice: bool = False
    ) -> Outcome:
        return await self._gated(
            lambda: MemoryFront.edit(self, channel_id, message_id, text, is_notice=is_notice)
        )

    async def delete(self, channel_id: int, message_id: int) -> Outcome:
        return await self._gated(lambda: MemoryFront.delete(self, channel_id, message_id))

    async def _gated(self, act: Callable[[], Awaitable[Outcome]]) -> Outcome:
        await self.gate()
        outcome = await act()
        await self.gate()
        return outcome


class GatedJournal(MemoryJournal):
    gate: Gate

    async def read(self, turn_id: str) -> JournalRecord | None:
        await self.gate()
        return await super().read(turn_id)

    async def write(self, turn_id: str, patch: Patch) -> Written:
        await self.gate()
        written = await super().write(turn_id, patch)
        await self.gate()
        return written


class GatedSource(MemorySource):
    gate: Gate

    async def ack(self, entry_id: str) -> None:
        await self.gate()
        await super().ack(entry_id)
        await self.gate()


class Survivors:
    """What a killed gateway leaves behind."""

    def __init__(self) -> None:
        self.front = GatedFront()
        self.journal = GatedJournal()
        self.source = GatedSource()

    async def live(self, gate: Gate) -> None:
        """One life of a gateway: until the gate holds it, or until all is delivered."""
        for part in (self.front, self.journal, self.source):
            part.gate = gate
        clock = ManualClock(NOW_MS / 1000)
        courier = Courier(self.front, clock=clock, echoes=Echoes(), jitter=lambda: 1.0)
        around = Surroundings(
            couriers={Front.LOCAL: courier},
            reporter=MemoryReporter(),
            fleet=MemoryFleet(),
            typing=NoTyping(),
            notices=NOTICES,
            clock=clock,
            new_report_id=lambda: "r1",
        )
        partition = PartitionDelivery(
            0, source=self.source, journal=self.journal, lease=MemoryLease(), around=around
        )
        stop = asyncio.Event()
        running = asyncio.ensure_future(partition.run(stop, drain_s=1.0))
        while self.source.entries and not gate.reached.is_set():
            await asyncio.sleep(0)
        if gate.reached.is_set():
            running.cancel()
        stop.set()
        await asyncio.wait([running])
        self.front.in_flight.clear()


@pytest.mark.parametrize("name", list(REPLIES))
async def test_a_gateway_killed_anywhere_is_taken_over_without_a_trace(name):
    envelopes, expected = REPLIES[name]
    for passes in count():
        world = Survivors()
        world.source.add(*envelopes)
        first = Gate(passes)
        async with asyncio.timeout(10):
            await world.live(first)
            if first.reached.is_set():
                await world.live(Gate(10_000))
        assert world.front.shown(7) == expected, f"killed at await {passes}"
        assert not world.source.entries
        if not first.reached.is_set():
            assert passes > 10
            return


@pytest.mark.parametrize("name", list(REPLIES))
async def test_a_gateway_killed_again_and_again_ends_all_the_same(name):
    envelopes, expected = REPLIES[name]
    world = Survivors()
    world.source.add(*envelopes)
    lives = 0
    async with asyncio.timeout(10):
        while world.source.entries:
            lives += 1
            await world.live(Gate(6))  # enough for one envelope, with luck
            assert lives < 200
    assert world.front.shown(7) == expected

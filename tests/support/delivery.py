"""A partition's delivery with everything around it, for tests."""

import asyncio
from collections.abc import Callable

from gateway.delivery.channels import BlockedChannels
from gateway.delivery.courier import Courier, Echoes
from gateway.delivery.lanes import Pace
from gateway.delivery.partition import PartitionDelivery
from gateway.delivery.surroundings import Surroundings
from gateway.notices import Notices
from shared.i18n import load_texts
from shared.segments import Envelope
from shared.turns import Front
from tests.support.channel import (
    ManualClock,
    MemoryBudget,
    MemoryFleet,
    MemoryFront,
    MemoryJournal,
    MemoryLease,
    MemoryReporter,
    MemorySource,
    NoTyping,
)
from tests.support.envelopes import NOW_MS
from tests.support.painting import StubPainter

NOTICES = Notices(load_texts())


class Bench:
    """One partition with everything around it."""

    def __init__(self) -> None:
        self.front = MemoryFront()
        self.source = MemorySource()
        self.journal = MemoryJournal()
        self.lease = MemoryLease()
        self.fleet = MemoryFleet()
        self.reporter = MemoryReporter()
        self.typing = NoTyping()
        self.clock = ManualClock(NOW_MS / 1000)
        self.stop = asyncio.Event()
        self.pace = Pace()
        self.painter = StubPainter()
        self.channels = BlockedChannels()
        self.budget = MemoryBudget(self.clock)
        self.max_messages = 20
        self.shows_stop = True
        self.fronts: tuple[Front, ...] = (Front.LOCAL,)

    def courier(self) -> Courier:
        return Courier(
            self.front,
            clock=self.clock,
            echoes=Echoes(),
            jitter=lambda: 1.0,
            budget=self.budget,
        )

    def partition(self) -> PartitionDelivery:
        around = Surroundings(
            couriers=dict.fromkeys(self.fronts, self.courier()),
            reporter=self.reporter,
            fleet=self.fleet,
            typing=self.typing,
            notices=NOTICES,
            clock=self.clock,
            new_report_id=lambda: "r1",
            painter=self.painter,
            channels=self.channels,
            max_messages=self.max_messages,
            shows_stop=self.shows_stop,
        )
        self.journal.source = self.source
        return PartitionDelivery(
            0,
            source=self.source,
            journal=self.journal,
            lease=self.lease,
            around=around,
            pace=self.pace,
        )

    async def deliver(self, *envelopes: Envelope) -> None:
        """Runs until everything is acknowledged."""
        self.source.add(*envelopes)
        await self.until(lambda: not self.source.entries)

    async def until(self, is_met: Callable[[], bool]) -> None:
        self.stop.clear()
        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            running = group.create_task(self.partition().run(self.stop, drain_s=1.0))
            while not is_met() and not running.done():
                await asyncio.sleep(0.001)
            self.stop.set()

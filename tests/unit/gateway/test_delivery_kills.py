"""Delivery stopped at each of its awaits in turn: the next gateway ends with the same channel."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import msgspec
import pytest

from gateway.delivery.channels import BlockedChannels
from gateway.delivery.courier import Courier, Echoes
from gateway.delivery.partition import PartitionDelivery
from gateway.delivery.surroundings import Surroundings
from gateway.front import Button, Outcome, OutgoingFile, OutgoingMessage, Refusal, Refused
from gateway.notices import REST_IN_FILE, Notices
from gateway.steps import Armed, JournalRecord, Written
from shared.i18n import load_texts
from shared.segments import Envelope, SegmentKind
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
from tests.support.envelopes import NOW_MS, done, failed, superseded, text
from tests.support.painting import StubPainter

NOTICES = Notices(load_texts())


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A reply, the limits it meets, and what the channel shows in the end."""

    envelopes: list[Envelope]
    expected: list[str]
    load: float = 0.0
    max_messages: int = 20
    picture: bytes | None = None
    refused_files: Refused | None = None
    merges: bool = False
    kept: dict[str, bytes] = msgspec.field(default_factory=dict)
    max_chars: int = 2_000


REST = NOTICES.say(REST_IN_FILE, "en")
NO_FILES = Refused(refusal=Refusal.CHANNEL, status=403, code=50013)
TABLE = [
    text(1, "a"),
    text(2, "| t |", kind=SegmentKind.TABLE, fallback=("x", "y")),
    text(3, "b"),
    done(3),
]
LONG: dict[str, Any] = {"kind": SegmentKind.TABLE, "fallback": ("x", "y")}
MADE = [
    text(1, "a"),
    text(2, "", kind=SegmentKind.FILE, fallback=("(a picture)",), name="cat.png", picture="p1"),
    text(3, "b"),
    done(3),
]
KEPT = {"p1": b"png"}
HALVES = ["It failed. The answer above was cut off.", "-# Whoever set this up can change it."]
REPLIES = {
    "plain": Case(envelopes=[text(1, "a"), text(2, "b"), done(2)], expected=["a", "b"]),
    "shorter second attempt": Case(
        envelopes=[
            text(1, "a"),
            text(2, "b"),
            superseded(2),
            text(1, "x", attempt=2),
            done(1, attempt=2),
        ],
        expected=["x"],
    ),
    "longer second attempt": Case(
        envelopes=[
            text(1, "a"),
            superseded(2),
            text(1, "x", attempt=2),
            text(2, "y", attempt=2),
            done(2, attempt=2),
        ],
        expected=["x", "y"],
    ),
    "failed second attempt": Case(
        envelopes=[text(1, "a"), text(2, "b"), superseded(2), failed(0, attempt=2)],
        expected=["It failed.\n-# Whoever set this up can change it."],
    ),
    "a notice in two halves": Case(
        envelopes=[text(1, "a"), failed(1)], expected=["a", *HALVES], max_chars=45
    ),
    "a notice of another attempt in two halves": Case(
        envelopes=[text(1, "a"), text(2, "b"), failed(0, attempt=2)],
        expected=["a", "b", "It failed.", HALVES[1]],
        max_chars=45,
    ),
    "a notice after a gap in two halves": Case(
        envelopes=[text(1, "a"), failed(2)], expected=["a", *HALVES], max_chars=45
    ),
    "merged under load": Case(
        envelopes=[*(text(seq, f"<{seq}>", joint="\n\n") for seq in range(1, 6)), done(5)],
        expected=["<1><2><3><4><5>"],
        load=1.0,
        merges=True,
    ),
    "merged and superseded": Case(
        envelopes=[
            *(text(seq, f"<{seq}>", joint=" ") for seq in range(1, 5)),
            superseded(2),
            *(text(seq, f"<{seq}.2>", joint=" ", attempt=2) for seq in range(1, 3)),
            done(2, attempt=2),
        ],
        expected=["<1.2><2.2>"],
        load=1.0,
        merges=True,
    ),
    "the rest as a file": Case(
        envelopes=[*(text(seq, str(seq)) for seq in range(1, 6)), done(5)],
        expected=["1", "2", f"{REST}[reply.md: 3\n\n4\n\n5]"],
        max_messages=3,
    ),
    "the rest without files": Case(
        envelopes=[*(text(seq, str(seq)) for seq in range(1, 6)), done(5)],
        expected=["1", "2", "3\n\n4\n\n5"],
        max_messages=3,
        refused_files=NO_FILES,
    ),
    "a drawn table": Case(
        envelopes=TABLE, expected=["a", "[table.png: png| t |]", "b"], picture=b"png"
    ),
    "a table without files": Case(
        envelopes=TABLE, expected=["a", "x", "y", "b"], picture=b"png", refused_files=NO_FILES
    ),
    "a picture of the model": Case(
        envelopes=MADE, expected=["a", "[cat.png: png]", "b"], kept=KEPT
    ),
    "a picture that is gone": Case(envelopes=MADE, expected=["a", "(a picture)", "b"]),
    "a picture without files": Case(
        envelopes=MADE, expected=["a", "(a picture)", "b"], kept=KEPT, refused_files=NO_FILES
    ),
    "a long table": Case(envelopes=TABLE, expected=["a", "[table.md: | t |]", "b"], max_messages=3),
    "a long table without files": Case(
        envelopes=TABLE, expected=["a", "x", "y", "b"], max_messages=3, refused_files=NO_FILES
    ),
    "a table of a second attempt": Case(
        envelopes=[text(1, "1"), text(1, "| t |", attempt=2, **LONG), done(1, attempt=2)],
        expected=["x", "y"],
        max_messages=3,
    ),
    "a table as text": Case(envelopes=TABLE, expected=["a", "x", "y", "b"]),
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
        self,
        channel_id: int,
        message_id: int,
        text: str,
        *,
        is_notice: bool = False,
        files: tuple[OutgoingFile, ...] = (),
        buttons: tuple[Button, ...] = (),
    ) -> Outcome:
        def act() -> Awaitable[Outcome]:
            return MemoryFront.edit(
                self,
                channel_id,
                message_id,
                text,
                is_notice=is_notice,
                files=files,
                buttons=buttons,
            )

        return await self._gated(act)

    async def delete(self, channel_id: int, message_id: int) -> Outcome:
        return await self._gated(lambda: MemoryFront.delete(self, channel_id, message_id))

    async def disarm(self, channel_id: int, message_id: int) -> Outcome:
        return await self._gated(lambda: MemoryFront.disarm(self, channel_id, message_id))

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

    async def write(self, *args: Any, **more: Any) -> Written:
        await self.gate()
        written = await super().write(*args, **more)
        await self.gate()
        return written

    async def armed(self) -> list[Armed]:
        await self.gate()
        return await super().armed()

    async def disarmed(self, turn_id: str) -> None:
        await self.gate()
        await super().disarmed(turn_id)
        await self.gate()


class GatedSource(MemorySource):
    gate: Gate

    async def ack(self, entry_id: str) -> None:
        await self.gate()
        await super().ack(entry_id)
        await self.gate()


class Survivors:
    """What a killed gateway leaves behind."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.front = GatedFront()
        self.front.refused_files = case.refused_files
        self.front.max_chars = case.max_chars
        self.fleet = MemoryFleet()
        self.fleet.pictures = case.kept
        self.journal = GatedJournal()
        self.source = GatedSource()
        self.journal.source = self.source

    async def live(self, gate: Gate) -> None:
        """One life of a gateway: until the gate holds it, or until all is delivered."""
        for part in (self.front, self.journal, self.source):
            part.gate = gate
        clock = ManualClock(NOW_MS / 1000)
        budget = MemoryBudget(clock)
        budget.load = self.case.load
        painter = StubPainter()
        painter.picture = self.case.picture
        courier = Courier(
            self.front, clock=clock, echoes=Echoes(), jitter=lambda: 1.0, budget=budget
        )
        around = Surroundings(
            couriers=dict.fromkeys(Front, courier),
            reporter=MemoryReporter(),
            fleet=self.fleet,
            typing=NoTyping(),
            notices=NOTICES,
            clock=clock,
            new_report_id=lambda: "r1",
            painter=painter,
            channels=BlockedChannels(),
            max_messages=self.case.max_messages,
        )
        partition = PartitionDelivery(
            0, source=self.source, journal=self.journal, lease=MemoryLease(), around=around
        )
        stop = asyncio.Event()
        running = asyncio.ensure_future(partition.run(stop, drain_s=1.0))
        while (self.source.entries or self.journal.left) and not gate.reached.is_set():
            await asyncio.sleep(0)
        if gate.reached.is_set():
            running.cancel()
        stop.set()
        await asyncio.wait([running])
        self.front.in_flight.clear()


@pytest.mark.parametrize("name", list(REPLIES))
async def test_a_gateway_killed_anywhere_is_taken_over_without_a_trace(name):
    case = REPLIES[name]
    for passes in count():
        world = Survivors(case)
        world.source.add(*case.envelopes)
        first = Gate(passes)
        async with asyncio.timeout(10):
            await world.live(first)
            if first.reached.is_set():
                await world.live(Gate(10_000))
        assert seen(world) == case.expected, f"killed at await {passes}"
        assert not world.source.entries
        if not first.reached.is_set():
            assert passes > 8
            return


@pytest.mark.parametrize("name", list(REPLIES))
async def test_a_gateway_killed_again_and_again_ends_all_the_same(name):
    case = REPLIES[name]
    world = Survivors(case)
    world.source.add(*case.envelopes)
    lives = 0
    async with asyncio.timeout(10):
        while world.source.entries:
            lives += 1
            await world.live(Gate(6))  # enough for one envelope, with luck
            assert lives < 200
    assert seen(world) == case.expected


def seen(world: Survivors) -> list[str]:
    shown = world.front.shown(7)
    return ["".join("".join(shown).split())] if world.case.merges else shown


def in_discord(*envelopes: Envelope) -> list[Envelope]:
    """The same, where a running reply can be stopped."""
    return [
        msgspec.structs.replace(one, route=msgspec.structs.replace(one.route, front=Front.DISCORD))
        for one in envelopes
    ]


class SlowSource(GatedSource):
    """Each envelope comes when the one before it is shown: so a model writes."""

    def rewind(self) -> None:
        self._given: set[str] = set()

    async def read(self) -> list[Envelope]:
        await asyncio.sleep(0)
        if self._given & self.entries.keys():
            return []
        following = next(iter(self.entries.items()), None)
        if following is None:
            return []
        self._given.add(following[0])
        return [following[1]]


ARMED = {
    "plain": Case(
        envelopes=in_discord(*(text(seq, str(seq)) for seq in range(1, 6)), done(5)),
        expected=["1", "2", "3", "4", "5"],
    ),
    "a second attempt": Case(
        envelopes=in_discord(
            *(text(seq, str(seq)) for seq in range(1, 4)),
            superseded(2),
            *(text(seq, f"{seq}.2", attempt=2) for seq in range(1, 5)),
            done(4, attempt=2),
        ),
        expected=["1.2", "2.2", "3.2", "4.2"],
    ),
}


@pytest.mark.parametrize("name", list(ARMED))
async def test_no_button_to_stop_it_outlives_a_reply_whoever_is_killed(name):
    case, had_one = ARMED[name], False
    for passes in count():
        world = Survivors(case)
        world.source = world.journal.source = SlowSource()
        world.source.add(*case.envelopes)
        first = Gate(passes)
        async with asyncio.timeout(10):
            await world.live(first)
            had_one = had_one or any(one.buttons for one in world.front.messages(7))
            if first.reached.is_set():
                await world.live(Gate(10_000))
        assert seen(world) == case.expected, f"killed at await {passes}"
        left = [one.buttons for one in world.front.messages(7) if one.buttons]
        assert (left, world.journal.left) == ([], {}), f"killed at await {passes}"
        if not first.reached.is_set():
            assert had_one
            return

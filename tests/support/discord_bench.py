"""Delivery of a partition to the fake Discord, through the real front: what people would see.

Gateways die and are followed by others; the journal, the stream and Discord stay. Time passes by
waiting, as far as delivery waits; Discord's own clock goes on.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from gateway.delivery.courier import Courier, Echoes
from gateway.edges.discord import DiscordFront
from gateway.edges.discord_connection import DiscordOptions
from gateway.front import Echo
from ops.rehearsal.discord.faults import Fault
from ops.rehearsal.discord.limits import Rates
from ops.rehearsal.discord.rest import Call
from ops.rehearsal.discord.server import FakeDiscord
from ops.rehearsal.discord.world import Channel
from shared.segments import Envelope
from shared.turns import Front
from tests.support.delivery import Bench
from tests.support.discord import WIDE, MemoryMarks, running_discord
from tests.support.envelopes import done, preview, text

LIMIT_S = 10.0


class DiscordBench(Bench):
    """A partition, a Discord with ann and a channel, and the front between them, `live`."""

    live: DiscordFront

    def __init__(self, discord: FakeDiscord) -> None:
        super().__init__()
        self.fronts = (Front.DISCORD,)
        self.shows_stop = False  # what a button costs is not what is asked here
        self.discord = discord
        self.guild = discord.world.add_guild()
        self.ann = discord.world.add_user("ann", user_id=5)
        self.channel = self.open_channel()
        self._echoes = Echoes()
        self._listener: asyncio.Task[None] | None = None

    def open_channel(self) -> Channel:
        """One more channel of the server."""
        return self.discord.world.add_channel(self.guild.id)

    async def connect(self) -> None:
        """A gateway's front comes up, with no memory of an earlier one."""
        self._echoes = Echoes()
        options = DiscordOptions(token=self.discord.token, rest_url=self.discord.rest_url)
        front = DiscordFront(options, MemoryMarks())
        await front.connect()
        self.live = front
        self.front = front  # type: ignore[assignment]  # the real one in place of the fake
        self._listener = asyncio.create_task(self._listen(front), name="echoes")

    async def leave(self) -> None:
        """The front goes, as with its process."""
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.wait({self._listener})
            self._listener = None
            await self.front.close()

    def courier(self) -> Courier:
        return Courier(
            self.front,
            clock=self.clock,
            echoes=self._echoes,
            jitter=lambda: 1.0,
            budget=self.budget,
        )

    def reply(
        self, *texts: str, turn: str = "m1", channel: int = 0, reply_to: int = 0
    ) -> list[Envelope]:
        """A worker's whole reply, of texts that each stand alone."""
        where = channel or self.channel.id
        made = [
            text(seq, words, turn=turn, channel=where) for seq, words in enumerate(texts, start=1)
        ]
        made.append(done(len(made), turn=turn, channel=where))
        return [self.routed(envelope, reply_to) for envelope in made]

    def grown(self, seq: int, words: str, *, turn: str = "m1") -> Envelope:
        """What may be seen of the segment after `seq`."""
        return self.routed(preview(seq, words, turn=turn, channel=self.channel.id))

    def routed(self, envelope: Envelope, reply_to: int = 0) -> Envelope:
        """The envelope, for Discord, as an answer to a message."""
        changes = {"front": Front.DISCORD, "guild_id": self.guild.id}
        route = msgspec.structs.replace(envelope.route, **changes, reply_to=reply_to or None)
        return msgspec.structs.replace(envelope, route=route)

    async def killed_when(
        self, is_met: Callable[["DiscordBench"], bool], *envelopes: Envelope
    ) -> None:
        """Delivers until something is so; then the process is gone, and another one comes."""
        self.source.add(*envelopes)
        running = asyncio.create_task(self.partition().run(asyncio.Event(), drain_s=1.0))
        async with asyncio.timeout(LIMIT_S):
            while not is_met(self):
                await asyncio.sleep(0.001)
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        await self.leave()
        self.discord.faults.clear()
        await self.connect()

    @asynccontextmanager
    async def delivering(self) -> AsyncIterator[None]:
        """One gateway delivers while the block runs."""
        stop = asyncio.Event()
        running = asyncio.create_task(self.partition().run(stop, drain_s=1.0))
        try:
            yield
        finally:
            stop.set()
            await running

    async def taken(self) -> None:
        """Waits until everything is acknowledged."""
        async with asyncio.timeout(LIMIT_S):
            while self.source.entries:
                await asyncio.sleep(0.001)

    def fail(self, *faults: Fault) -> None:
        """So fail the next posts, one after another; a plain `Fault()` lets one pass."""
        for fault in faults:
            self.discord.faults.add(fault)

    def shown(self, channel: int = 0) -> list[str]:
        """The bot's messages."""
        return [one.content for one in self.discord.replies(channel or self.channel.id)]

    def calls(self, method: str, path: str = "/messages") -> list[Call]:
        """What Discord was asked about messages."""
        return [call for call in self.discord.calls if call.method == method and path in call.path]

    async def _listen(self, front: DiscordFront) -> None:
        async for event in front.events():
            if isinstance(event, Echo):
                self._echoes.absorb(event)


@asynccontextmanager
async def running_bench(rates: Rates = WIDE) -> AsyncIterator[DiscordBench]:
    async with running_discord(rates) as discord:
        bench = DiscordBench(discord)
        await bench.connect()
        try:
            yield bench
        finally:
            await bench.leave()

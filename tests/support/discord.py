"""The fake Discord of `ops.rehearsal.discord`, for tests.

The fake itself is product code (`turnfleet up --discord-rehearsal` starts it); here is what only
tests need: a running one with wide rate limits, and marks of a front's life in memory.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ops.rehearsal.discord.limits import Rates
from ops.rehearsal.discord.server import FakeDiscord

WIDE = Rates(channel_limit=50, channel_period_s=1.0, global_per_s=1000)
"""Rates that no test waits for."""


@asynccontextmanager
async def running_discord(rates: Rates = WIDE) -> AsyncIterator[FakeDiscord]:
    discord = FakeDiscord(rates=rates)
    discord.sockets.starts.window_s = 0.0  # five seconds at each start are for their own tests
    await discord.start()
    try:
        yield discord
    finally:
        await discord.stop()


async def connected(discord: FakeDiscord, *, within_s: float = 60.0) -> None:
    """Waits until a client's session has begun."""
    async with asyncio.timeout(within_s):
        while not discord.sockets.sessions:
            await asyncio.sleep(0.02)


class MemoryMarks:
    """`gateway.edges.discord_backfill.Marks` without Redis."""

    def __init__(self) -> None:
        self.alive: int | None = None
        self.channels: list[int] = []

    async def alive_ms(self, shard: int, count: int) -> int | None:
        del shard, count
        return self.alive

    async def note_alive(self, shard: int, count: int, ms: int) -> None:
        del shard, count
        self.alive = ms

    async def direct_channels(self) -> list[int]:
        return list(self.channels)

    async def note_direct_channel(self, channel_id: int) -> None:
        if channel_id not in self.channels:
            self.channels.append(channel_id)

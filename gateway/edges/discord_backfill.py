"""What was written while nobody listened.

Comes in: guilds as they come into sight, the marks of a gateway's life. Goes out: which channels'
history must be read, and from where. `gateway.edges.discord` imports it.
"""

import contextlib
from typing import Final, Protocol, Self

import hikari
import msgspec

from gateway.snowflakes import snowflake_at
from shared.errors import StoreFull

OVERLAP_MS: Final = 120_000
"""A dead socket is noticed after two heartbeats of 41 s: the mark may be wrong by as much."""
HORIZON_MS: Final = 12 * 3_600_000
"""Older prompts are not answered any more. Less than the 24 h that a duplicate is refused."""
MAX_CHANNELS: Final = 200
"""Channels read per guild after an outage: some seconds of requests. The latest come first."""
MAX_MESSAGES: Final = 200
"""Messages read at once, and of a channel after an outage."""

_EVERYTHING: Final = (1 << 63) - 1
"""An id that no message has yet: a history with this end is read until there is no more."""


class Marks(Protocol):
    """What must outlive the process. Every call may raise `StoreUnavailable`."""

    async def alive_ms(self, shard: int, count: int) -> int | None:
        """Until when everything of a shard was received and taken; None for a bot that never ran.

        One of a number of shards that is new has what the shards of the last number had.
        """
        ...

    async def note_alive(self, shard: int, count: int, ms: int) -> None:
        """Writes the same."""
        ...

    async def direct_channels(self) -> list[int]:
        """Channels of direct messages that were used lately: no event lists them."""
        ...

    async def note_direct_channel(self, channel_id: int) -> None:
        """Remembers one."""
        ...


class Moved(msgspec.Struct, frozen=True):
    """A channel whose history must be read after an id; `tries` is how often that failed.

    With `until` it is read up to that id, however much that is; what follows comes by itself.
    """

    channel_id: int
    guild_id: int | None
    after: int
    tries: int = 0
    until: int | None = None

    def joined(self, later: Self) -> Self:
        """Both, of one channel, in one.

        An end of the later one is the latest. Where it has none, a session began after the end of
        the other, and what was said in between is in no session: all there is must be read.
        """
        until = later.until if self.until is None else max(self.until, later.until or _EVERYTHING)
        return msgspec.structs.replace(
            self,
            after=min(self.after, later.after),
            tries=min(self.tries, later.tries),
            until=until,
        )

    def rest(self, count: int, last: int) -> Self | None:
        """What is left to read after `count` messages, of which `last` is the latest."""
        if self.until is None or count < MAX_MESSAGES or last >= self.until:
            return None
        return msgspec.structs.replace(self, after=last, tries=0)


class Backfill:
    """Decides what to read of one shard's channels.

    Args:
        marks: what outlives the process.
        shard: its number.
        count: how many shards there are.
    """

    def __init__(self, marks: Marks, shard: int, count: int) -> None:
        self._marks = marks
        self._shard = shard
        self._count = count
        self._since_ms: int | None = None

    async def begin(self, now_ms: int) -> None:
        """Reads how far the last process came; a bot that never ran begins now."""
        alive_ms = await self._marks.alive_ms(self._shard, self._count)
        if alive_ms is None:
            with contextlib.suppress(StoreFull):  # it is written again while the bot runs
                await self._marks.note_alive(self._shard, self._count, now_ms)
            alive_ms = now_ms
        # The mark may be ahead: of a gateway whose clock was wrong, on another machine or here.
        self._since_ms = max(min(alive_ms, now_ms) - OVERLAP_MS, now_ms - HORIZON_MS)

    async def note_alive(self, now_ms: int) -> None:
        """Notes that everything up to now was received and taken."""
        await self._marks.note_alive(self._shard, self._count, now_ms)
        self._since_ms = now_ms - OVERLAP_MS

    async def direct(self) -> list[Moved]:
        """The channels of direct messages; whether they moved only their history tells."""
        if self._since_ms is None:
            return []
        after = snowflake_at(self._since_ms)
        channels = (await self._marks.direct_channels())[:MAX_CHANNELS]
        return [Moved(channel_id, None, after) for channel_id in channels]

    def of_guild(self, event: hikari.GuildAvailableEvent) -> list[Moved]:
        """The guild's channels and threads with messages since the last mark, the latest first."""
        if self._since_ms is None:
            return []
        after = snowflake_at(self._since_ms)
        lasts = [
            (int(last), int(channel.id))
            for channel in (*event.channels.values(), *event.threads.values())
            if (last := getattr(channel, "last_message_id", None)) is not None and last > after
        ]
        lasts.sort(reverse=True)
        guild_id = int(event.guild_id)
        return [Moved(channel_id, guild_id, after) for _, channel_id in lasts[:MAX_CHANNELS]]

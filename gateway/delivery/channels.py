"""Channels that refused us, and channels that are gone.

Comes in: refusals, events of a front. Goes out: whether something may be said. One for all
partitions of a gateway; intake's mark of the same is in Redis.
"""

from typing import Final

BLOCK_S: Final = 15 * 60.0
"""How long a channel that refused us is left alone; as long as intake's mark in Redis."""
MAX_BLOCKED: Final = 10_000
"""Channels remembered; the oldest is forgotten, and is asked once more."""


class BlockedChannels:
    """Blocks of channels and of whole guilds, until a time."""

    def __init__(self) -> None:
        self._channels: dict[int, tuple[float, int | None]] = {}
        self._guilds: dict[int, float] = {}

    def block(self, channel_id: int, guild_id: int | None, now_s: float) -> None:
        """Leaves a channel alone for a while."""
        self._channels.pop(channel_id, None)
        self._channels[channel_id] = (now_s + BLOCK_S, guild_id)
        if len(self._channels) > MAX_BLOCKED:
            del self._channels[next(iter(self._channels))]

    def block_guild(self, guild_id: int, now_s: float) -> None:
        """Leaves all channels of a guild alone: the bot was removed, or the guild is gone."""
        self._guilds[guild_id] = now_s + BLOCK_S

    def is_blocked(self, channel_id: int, guild_id: int | None, now_s: float) -> bool:
        """Whether nothing can be said in a channel."""
        until_s, _ = self._channels.get(channel_id, (0.0, None))
        return max(until_s, self._guilds.get(guild_id or 0, 0.0)) > now_s

    def unblock(self, channel_id: int) -> None:
        """Tries a channel again: its permissions changed."""
        self._channels.pop(channel_id, None)

    def unblock_guild(self, guild_id: int) -> list[int]:
        """Tries a guild's channels again: its roles changed, or the bot is back in it."""
        self._guilds.pop(guild_id, None)
        freed = [key for key, (_, owner) in self._channels.items() if owner == guild_id]
        for channel_id in freed:
            del self._channels[channel_id]
        return freed

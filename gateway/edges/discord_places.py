"""What is known of Discord's channels: which are threads of which, and which are age-restricted.

Comes in: hikari's events about guilds, channels and threads. Goes out: prompts that know where they
were written. `gateway.edges.discord` imports it. Only what is out of the ordinary is remembered, so
that an idle guild costs nothing; hikari's own cache is off.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import hikari
import msgspec

from gateway.front import Prompt

MAX_THREADS: Final = 200_000
"""Threads that are remembered, 20 MB. One that is not is a channel without a parent: its guild's
settings hold there all the same, and it is known again with the next event about it."""

PLACE_EVENTS: Final[tuple[type[hikari.Event], ...]] = (
    hikari.GuildChannelCreateEvent,
    hikari.GuildChannelUpdateEvent,
    hikari.GuildThreadCreateEvent,
    hikari.GuildThreadUpdateEvent,
    hikari.GuildThreadAccessEvent,
)
"""What is listened to."""


class Places:
    """The channels of all guilds, as far as they are out of the ordinary."""

    def __init__(self) -> None:
        self.version = 0
        """Grows with each change."""
        self._parents: dict[int, int] = {}
        self._restricted: set[int] = set()

    @property
    def parents(self) -> dict[int, int]:
        """The channels of threads."""
        return dict(self._parents)

    @property
    def restricted(self) -> tuple[int, ...]:
        """Channels that are marked as age-restricted."""
        return tuple(sorted(self._restricted))

    @property
    def size(self) -> int:
        """How many are remembered."""
        return len(self._parents) + len(self._restricted)

    def adopt(self, parents: Mapping[int, int], restricted: Iterable[int]) -> None:
        """Takes over what another gateway knew."""
        self.version += 1
        self._parents.update(parents)
        self._restricted.update(restricted)

    def of_guild(self, event: hikari.GuildAvailableEvent) -> None:
        """A guild came into sight."""
        for channel in (*event.channels.values(), *event.threads.values()):
            self._note(channel)

    def heed(self, event: hikari.Event) -> None:
        """A channel or thread is new, or other than before."""
        match event:
            case hikari.GuildChannelCreateEvent() | hikari.GuildChannelUpdateEvent():
                self._note(event.channel)
            case (
                hikari.GuildThreadCreateEvent()
                | hikari.GuildThreadUpdateEvent()
                | hikari.GuildThreadAccessEvent()
            ):
                self._note(event.thread)
            case hikari.GuildThreadDeleteEvent():
                self._parents.pop(int(event.thread_id), None)
                self.version += 1
            case _:
                return

    def is_restricted(self, channel_id: int, parent_id: int | None = None) -> bool:
        """Whether a channel, or that of a thread, is marked as age-restricted."""
        return (parent_id or self._parents.get(channel_id, channel_id)) in self._restricted

    def placed(self, prompt: Prompt) -> Prompt:
        """The prompt, with the channel that its thread belongs to and what may be said there."""
        return msgspec.structs.replace(
            prompt,
            parent_id=self._parents.get(prompt.channel_id),
            is_age_restricted=self.is_restricted(prompt.channel_id),
        )

    def _note(self, channel: hikari.GuildChannel) -> None:
        channel_id = int(channel.id)
        before = self._parents.get(channel_id), channel_id in self._restricted
        if isinstance(channel, hikari.GuildThreadChannel):
            self._parents[channel_id] = int(channel.parent_id)
            while len(self._parents) > MAX_THREADS:
                self._parents.pop(next(iter(self._parents)))
        elif getattr(channel, "is_nsfw", False):
            self._restricted.add(channel_id)
        else:
            self._restricted.discard(channel_id)
        if before != (self._parents.get(channel_id), channel_id in self._restricted):
            self.version += 1

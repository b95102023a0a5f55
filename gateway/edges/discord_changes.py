"""Discord's events about what was there before, as changes.

Comes in: hikari's events. Goes out: the front's values. `gateway.edges.discord` imports it.
"""

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

import hikari

from gateway.front import Change, PlaceChanged, PlaceGone, PromptEdited, PromptsDeleted


def edited(event: hikari.MessageUpdateEvent) -> Change | None:
    """A person's message with another text, or none; None for previews of links, and for bots."""
    message = event.message
    if message.content is hikari.UNDEFINED or message.edited_timestamp in (None, hikari.UNDEFINED):
        return None
    if message.author is hikari.UNDEFINED or message.author.is_bot:
        return None
    # Empty also where it does not call the bot any more, which may then not read it.
    text = message.content or ""
    return PromptEdited(channel_id=int(event.channel_id), turn_id=_turn(message.id), text=text)


def deleted(event: hikari.MessageDeleteEvent) -> Change:
    """A message that is gone."""
    return PromptsDeleted(channel_id=int(event.channel_id), turn_ids=(_turn(event.message_id),))


def all_deleted(event: hikari.GuildBulkMessageDeleteEvent) -> Change:
    """Messages that a moderator's command took away."""
    turn_ids = tuple(_turn(message_id) for message_id in sorted(event.message_ids))
    return PromptsDeleted(channel_id=int(event.channel_id), turn_ids=turn_ids)


def channel_gone(event: hikari.GuildChannelDeleteEvent) -> Change:
    """A channel that was deleted."""
    return PlaceGone(channel_id=int(event.channel_id), guild_id=int(event.guild_id))


def thread_gone(event: hikari.GuildThreadDeleteEvent) -> Change:
    """A thread that was deleted."""
    return PlaceGone(channel_id=int(event.thread_id), guild_id=int(event.guild_id))


def guild_gone(event: hikari.GuildLeaveEvent) -> Change:
    """A server that the bot was thrown out of."""
    return PlaceGone(guild_id=int(event.guild_id))


def guild_back(event: hikari.GuildJoinEvent) -> Change:
    """A server that the bot came to, for the first time or again."""
    return PlaceChanged(guild_id=int(event.guild_id))


def channel_changed(event: hikari.GuildChannelUpdateEvent) -> Change:
    """A channel with other settings, such as permissions."""
    return PlaceChanged(channel_id=int(event.channel_id), guild_id=int(event.guild_id))


def role_changed(event: hikari.RoleUpdateEvent) -> Change:
    """A role with other permissions: that may concern all channels."""
    return PlaceChanged(guild_id=int(event.guild_id))


CHANGES: Final = MappingProxyType[Any, Callable[..., Change | None]](
    {
        hikari.MessageUpdateEvent: edited,
        hikari.MessageDeleteEvent: deleted,
        hikari.GuildBulkMessageDeleteEvent: all_deleted,
        hikari.GuildChannelDeleteEvent: channel_gone,
        hikari.GuildThreadDeleteEvent: thread_gone,
        hikari.GuildLeaveEvent: guild_gone,
        hikari.GuildJoinEvent: guild_back,
        hikari.GuildChannelUpdateEvent: channel_changed,
        hikari.RoleUpdateEvent: role_changed,
    }
)
"""What is listened to, and how it is read."""


def change_of(event: hikari.Event) -> Change | None:
    """The change that an event stands for; None for one that is of no account."""
    for kind, read in CHANGES.items():
        if isinstance(event, kind):
            return read(event)
    return None


def _turn(message_id: int) -> str:
    return f"m{int(message_id)}"

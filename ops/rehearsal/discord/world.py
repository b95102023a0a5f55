"""People, guilds, channels and messages of the fake Discord.

Comes in: what people do and what bots ask. Goes out: records, or a `Refusal` with Discord's own
code. Synchronous, no socket; the clock is an argument. `rest` and `server` drive it.
"""

import re
from collections.abc import Callable
from typing import Final

import msgspec

EPOCH_MS: Final = 1_420_070_400_000
"""Where snowflakes begin (developer docs, reference)."""
MAX_CONTENT_CHARS: Final = 2000
"""Counted in code points (discord-api-docs issue 1315)."""
MAX_NONCE_CHARS: Final = 25
NONCE_WINDOW_S: Final = 120.0
"""Discord says "the past few minutes"; a test may shorten it."""

TEXT: Final = 0
DIRECT: Final = 1
THREAD: Final = 11
FORUM: Final = 15
"""Numbers of channel types (developer docs, resources/channel)."""

_USER_MENTION = re.compile(r"<@!?(\d+)>")


class Refusal(Exception):
    """What Discord answers instead."""

    def __init__(self, status: int, code: int, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field  # of the request, whose form is invalid
        self.status = status
        self.code = code
        self.message = message


class User(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody, or a bot."""

    id: int
    name: str
    is_bot: bool = False


class Guild(msgspec.Struct, kw_only=True):
    """A server with the ids of its channels."""

    id: int
    name: str
    channels: list[int] = msgspec.field(default_factory=list)
    blocked_words: set[str] = msgspec.field(default_factory=set)
    """AutoMod refuses messages of bots with these, as it does those of people."""


class Channel(msgspec.Struct, kw_only=True):
    """A text channel, or a channel of direct messages with `recipient`.

    `denied` holds what the bot may not do there: `view`, `send`, `files`, `history`, `webhooks`.
    `kind` is Discord's number: 0 text, 1 direct, 11 public thread, 15 forum. A thread that is
    archived comes back with the next message, unless it is locked.
    """

    id: int
    name: str
    guild_id: int | None = None
    recipient: int | None = None
    kind: int = TEXT
    parent_id: int | None = None
    last_message_id: int | None = None
    denied: set[str] = msgspec.field(default_factory=set)
    is_locked: bool = False
    is_archived: bool = False
    is_deleted: bool = False
    is_age_restricted: bool = False
    typing: list[float] = msgspec.field(default_factory=list)


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message as the channel shows it."""

    id: int
    channel_id: int
    author_id: int
    content: str
    created_s: float
    nonce: str | int | None = None
    reply_to: int | None = None
    mentions: tuple[int, ...] = ()
    pings: tuple[int, ...] = ()
    files: tuple[str, ...] = ()
    contents: tuple[bytes, ...] = ()
    components: tuple[dict[str, object], ...] = ()
    edited_s: float | None = None
    edits: int = 0
    attachments: tuple[dict[str, object], ...] = ()
    """What people attach: Discord's own objects, with addresses that a test serves."""
    shown_name: str | None = None
    """The name that a webhook spoke under; the author is the webhook then."""


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """What a bot wants to post. `may_ping` None is Discord's default: everybody is pinged."""

    content: str = ""
    nonce: str | int | None = None
    enforce_nonce: bool = False
    reply_to: int | None = None
    fail_if_not_exists: bool = True
    files: tuple[str, ...] = ()
    contents: tuple[bytes, ...] = ()
    components: tuple[dict[str, object], ...] = ()
    may_ping: tuple[int, ...] | None = None
    shown_name: str | None = None


class World:
    """The whole of the fake's memory.

    Args:
        now_s: seconds since the epoch.
        nonce_window_s: how long a nonce is remembered.
    """

    def __init__(self, now_s: Callable[[], float], nonce_window_s: float = NONCE_WINDOW_S) -> None:
        self._now_s = now_s
        self.nonce_window_s = nonce_window_s
        self._last_id = 0
        self._nonces: dict[tuple[int, str | int], tuple[int, float]] = {}
        self.users: dict[int, User] = {}
        self.guilds: dict[int, Guild] = {}
        self.channels: dict[int, Channel] = {}
        self.messages: dict[int, dict[int, Message]] = {}
        self.roles: dict[tuple[int, int], tuple[int, ...]] = {}
        """The roles of members, by guild and person."""
        self.left: set[tuple[int, int]] = set()
        """Who is in a guild no more; everybody else is in all of them."""
        self.owners: dict[int, int] = {}
        """The bots of webhooks."""
        self.unanswerable: set[int] = set()
        """Messages that take no reply, as those of the system itself."""

    def next_id(self) -> int:
        """A fresh snowflake of this moment."""
        fresh = (int(self._now_s() * 1000) - EPOCH_MS) << 22
        self._last_id = max(fresh, self._last_id + 1)
        return self._last_id

    def add_user(self, name: str, *, is_bot: bool = False, user_id: int | None = None) -> User:
        """Adds a person or a bot."""
        user = User(id=user_id or self.next_id(), name=name, is_bot=is_bot)
        self.users[user.id] = user
        return user

    def add_guild(self, name: str = "guild") -> Guild:
        """Adds a server."""
        guild = Guild(id=self.next_id(), name=name)
        self.guilds[guild.id] = guild
        return guild

    def add_channel(
        self,
        guild_id: int,
        name: str = "general",
        *,
        kind: int = TEXT,
        parent_id: int | None = None,
    ) -> Channel:
        """Adds a channel to a server: a text channel, a forum, or a thread of one of them."""
        channel = Channel(
            id=self.next_id(), name=name, guild_id=guild_id, kind=kind, parent_id=parent_id
        )
        self.guilds[guild_id].channels.append(channel.id)
        return self._keep(channel)

    def direct_channel(self, user_id: int) -> Channel:
        """The channel of direct messages with a person."""
        for channel in self.channels.values():
            if channel.recipient == user_id:
                return channel
        return self._keep(Channel(id=self.next_id(), name="", recipient=user_id, kind=DIRECT))

    def shown(self, channel_id: int) -> list[Message]:
        """The channel's messages, oldest first."""
        found = self.messages[channel_id]
        return [found[key] for key in sorted(found)]

    def channel(self, channel_id: int, *needs: str) -> Channel:
        """The channel, if the bot may do what it needs to.

        Raises:
            Refusal: 10003, 40058, 50001, 50013, 50083 or 160005.
        """
        channel = self.channels.get(channel_id)
        if channel is None or channel.is_deleted:
            raise Refusal(404, 10003, "Unknown Channel")
        if "view" in channel.denied:
            raise Refusal(403, 50001, "Missing Access")
        if channel.denied.intersection(needs):
            raise Refusal(403, 50013, "Missing Permissions")
        if "send" in needs:
            _check_speech(channel)
        return channel

    def member(self, guild_id: int, user_id: int) -> User:
        """A member of a server. Raises `Refusal` 10004 or 10007."""
        if guild_id not in self.guilds:
            raise Refusal(404, 10004, "Unknown Guild")
        user = self.users.get(user_id)
        if user is None or (guild_id, user_id) in self.left:
            raise Refusal(404, 10007, "Unknown Member")
        return user

    def message(self, channel_id: int, message_id: int) -> Message:
        """A message. Raises `Refusal` 10008 when there is none."""
        found = self.messages.get(channel_id, {}).get(message_id)
        if found is None:
            raise Refusal(404, 10008, "Unknown Message")
        return found

    def post(
        self, author_id: int, channel_id: int, draft: Draft, *, needs: tuple[str, ...] = ("send",)
    ) -> tuple[Message, bool]:
        """Posts a message; with `enforce_nonce` once per nonce of an author within the window.

        Returns:
            The message, and whether it is new.

        Raises:
            Refusal: whatever Discord refuses.
        """
        channel = self.channel(channel_id, *needs, *(["files"] if draft.files else []))
        check_draft(draft)
        self._moderate(channel, draft.content)
        known = self._known(author_id, draft)
        if known is not None:
            # Asking again for a deleted message is answered so on purpose (docs PR 6647).
            return self.message(channel_id, known), False
        reply_to = self._reference(channel, draft)
        message = Message(
            id=self.next_id(),
            channel_id=channel_id,
            author_id=author_id,
            content=draft.content,
            created_s=self._now_s(),
            nonce=draft.nonce,
            reply_to=reply_to,
            mentions=self._mentions(draft.content),
            pings=self._pings(draft),
            files=draft.files,
            contents=draft.contents,
            components=draft.components,
            shown_name=draft.shown_name,
        )
        self.messages[channel_id][message.id] = message
        channel.last_message_id = message.id
        channel.typing.clear()
        channel.is_archived = False
        if draft.nonce is not None:
            self._nonces[author_id, draft.nonce] = (message.id, self._now_s())
        return message, True

    def edit(
        self,
        author_id: int,
        channel_id: int,
        message_id: int,
        content: str | None,
        *,
        components: tuple[dict[str, object], ...] | None = None,
        files: tuple[str, ...] | None = None,
    ) -> Message:
        """Replaces a message's text, its components, its files; None leaves them.

        Raises:
            Refusal: 10008, 50005, 50006, 50013, 50035 or 200000.
        """
        channel = self.channel(channel_id, *(["files"] if files else []))
        old = self.message(channel_id, message_id)
        if old.author_id != author_id:
            raise Refusal(403, 50005, "Cannot edit a message authored by another user")
        content = old.content if content is None else content
        files = old.files if files is None else files
        held = files or tuple("" for _ in old.attachments)
        check_draft(Draft(content=content, files=held))
        self._moderate(channel, content)
        new = msgspec.structs.replace(
            old,
            content=content,
            mentions=self._mentions(content),
            files=files,
            components=old.components if components is None else components,
            edited_s=self._now_s(),
            edits=old.edits + 1,
        )
        self.messages[channel_id][message_id] = new
        return new

    def delete(self, author_id: int, channel_id: int, message_id: int) -> None:
        """Deletes a message. Raises `Refusal` 10008 or 50013."""
        self.channel(channel_id)
        if self.message(channel_id, message_id).author_id != author_id:
            raise Refusal(403, 50013, "Missing Permissions")
        del self.messages[channel_id][message_id]

    def history(
        self, channel_id: int, *, after: int | None, before: int | None, limit: int
    ) -> list[Message]:
        """Up to `limit` messages, newest first as Discord sends them: those nearest to `after`."""
        self.channel(channel_id, "history")
        found = self.shown(channel_id)
        if after is not None:
            return [message for message in found if message.id > after][:limit][::-1]
        if before is not None:
            found = [message for message in found if message.id < before]
        return found[-limit:][::-1]

    def _keep(self, channel: Channel) -> Channel:
        self.channels[channel.id] = channel
        self.messages[channel.id] = {}
        return channel

    def _known(self, author_id: int, draft: Draft) -> int | None:
        if draft.nonce is None or not draft.enforce_nonce:
            return None
        message_id, at_s = self._nonces.get((author_id, draft.nonce), (None, 0.0))
        is_fresh = self._now_s() - at_s <= self.nonce_window_s
        return message_id if is_fresh else None

    def _reference(self, channel: Channel, draft: Draft) -> int | None:
        if draft.reply_to is None:
            return None
        if "history" in channel.denied:
            raise Refusal(403, 160002, "Cannot reply without permission to read message history")
        if draft.reply_to in self.unanswerable:
            raise Refusal(400, 50035, "Invalid Form Body", field="message_reference")
        if draft.reply_to in self.messages[channel.id]:
            return draft.reply_to
        if draft.fail_if_not_exists:
            raise Refusal(400, 50035, "Invalid Form Body: message_reference: Unknown message")
        return None

    def _moderate(self, channel: Channel, content: str) -> None:
        words = self.guilds[channel.guild_id].blocked_words if channel.guild_id else set()
        if any(word in content for word in words):
            raise Refusal(400, 200000, "Message was blocked by automatic moderation")

    def _mentions(self, content: str) -> tuple[int, ...]:
        found = dict.fromkeys(int(name) for name in _USER_MENTION.findall(content))
        return tuple(user_id for user_id in found if user_id in self.users)

    def _pings(self, draft: Draft) -> tuple[int, ...]:
        mentioned = self._mentions(draft.content)
        if draft.may_ping is None:
            return mentioned
        return tuple(user_id for user_id in mentioned if user_id in draft.may_ping)


def _check_speech(channel: Channel) -> None:
    if channel.kind == FORUM:
        raise Refusal(400, 40058, "Cannot message this channel until after a thread is started")
    if channel.is_locked:
        code = 50083 if channel.is_archived else 160005
        raise Refusal(400, code, "Thread is locked")


def check_draft(draft: Draft) -> None:
    """Refuses a text or a nonce that Discord would refuse."""
    if len(draft.content) > MAX_CONTENT_CHARS:
        raise Refusal(400, 50035, "Invalid Form Body: content: Must be 2000 or fewer in length.")
    if draft.nonce is not None and len(str(draft.nonce)) > MAX_NONCE_CHARS:
        raise Refusal(400, 50035, "Invalid Form Body: nonce: Must be 25 or fewer in length.")
    if not draft.content.strip() and not draft.files:
        raise Refusal(400, 50006, "Cannot send an empty message")

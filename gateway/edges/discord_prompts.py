"""Discord's messages as prompts, echoes and history.

Comes in: hikari's message values. Goes out: the front's values. `gateway.edges.discord` imports it.
"""

import hikari

from gateway.context import readable
from gateway.front import Echo, Prompt, ShownMessage
from shared.history import Attachment, Remembered
from shared.turns import Front


def prompt_of(
    message: hikari.Message, bot_id: int, guild_id: int | None, *, backfilled: bool = False
) -> Prompt:
    """A person's message as a prompt; `guild_id` because history does not carry it."""
    referenced = message.referenced_message
    names = names_of(message)
    return Prompt(
        front=Front.DISCORD,
        message_id=int(message.id),
        channel_id=int(message.channel_id),
        user_id=int(message.author.id),
        guild_id=guild_id,
        text=message.content or "",
        author=_name_of(message),
        own_name=next((name for one, name in names if one == bot_id), ""),
        names=names,
        replied=None if referenced is None else remembered_of(referenced, bot_id),
        attachments=attachments_of(message),
        roles=() if guild_id is None else _roles_of(message),
        mentions_bot=bot_id in (message.user_mentions or ()),
        replies_to_bot=referenced is not None and _is_ours(referenced, bot_id),
        from_bot=message.author.is_bot or message.webhook_id is not None,
        backfilled=backfilled,
    )


def names_of(message: hikari.PartialMessage) -> tuple[tuple[int, str], ...]:
    """Who is mentioned, by id."""
    mentioned = message.user_mentions or {}
    return tuple((int(one), _called(user)) for one, user in mentioned.items())


def attachments_of(message: hikari.PartialMessage) -> tuple[Attachment, ...]:
    """The files of a message."""
    return tuple(
        Attachment(
            id=int(one.id),
            name=one.filename,
            url=one.url,
            mime_type=one.media_type or "",
            size_bytes=one.size,
        )
        for one in message.attachments or ()
    )


def remembered_of(message: hikari.PartialMessage, bot_id: int) -> Remembered:
    """A message that is answered, as the channel's memory keeps it."""
    author = message.author if isinstance(message.author, hikari.User) else None
    return Remembered(
        id=int(message.id),
        user_id=0 if author is None else int(author.id),
        text=readable(message.content or "", dict(names_of(message))),
        author="" if author is None else _called(author),
        is_own=_is_ours(message, bot_id),
        attachments=attachments_of(message),
    )


def _name_of(message: hikari.Message) -> str:
    """What somebody is called in the guild, else everywhere."""
    member = message.member
    return _called(member if isinstance(member, hikari.Member) else message.author)


def _called(user: hikari.PartialUser) -> str:
    name = user.display_name
    return name if isinstance(name, str) else ""


def _roles_of(message: hikari.Message) -> tuple[int, ...] | None:
    """None where the message does not tell its member, as in a channel's history."""
    member = message.member
    return roles_of(member) if isinstance(member, hikari.Member) else None


def roles_of(member: hikari.Member) -> tuple[int, ...]:
    """A member's roles."""
    return tuple(int(one) for one in member.role_ids)


def echo_of(message: hikari.Message, bot_id: int) -> Echo | None:
    """Our own message with a nonce; None for everything else."""
    if message.nonce is None or int(message.author.id) != bot_id:
        return None
    return Echo(nonce=message.nonce, channel_id=int(message.channel_id), message_id=int(message.id))


def shown_of(message: hikari.Message, own: frozenset[int]) -> ShownMessage:
    """A message of the channel's history; `own` are the authors that are ours."""
    return ShownMessage(
        message_id=int(message.id),
        text=message.content or "",
        is_own=int(message.author.id) in own,
        nonce=message.nonce,
        files=tuple(attached.filename for attached in message.attachments),
    )


def _is_ours(message: hikari.PartialMessage, bot_id: int) -> bool:
    """Whether the bot wrote it, itself or as a persona: then its application made the webhook."""
    author = message.author
    if isinstance(author, hikari.User) and int(author.id) == bot_id:
        return True
    return bool(message.webhook_id) and message.application_id == bot_id

"""What was said in a channel, as far as a model reads it, and what one turn reads of it.

Comes in: nothing. Goes out: values that the gateway writes into Redis and a worker reads at claim.
Pure; anyone may import it.
"""

from enum import StrEnum

import msgspec

from shared.private import told_by_size


class Context(StrEnum):
    """What the model reads before the prompt: the channel's latest, the reply chain, or nothing."""

    CHANNEL = "channel"
    REPLIES = "replies"
    NONE = "none"


class Attachment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file of a message. `url` is Discord's, and no longer answers after a day.

    `prompt` is the turn that reads it with its own prompt, where several are answered together.
    """

    id: int
    name: str
    url: str
    mime_type: str = ""
    size_bytes: int = 0
    prompt: str = ""


class Remembered(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message of a channel. Mentions in `text` are names already."""

    __repr__ = told_by_size

    id: int
    user_id: int
    text: str
    author: str = ""
    is_own: bool = False
    reply_to: int | None = None
    attachments: tuple[Attachment, ...] = ()
    owner: str = ""
    """Whose channel it stands in, by `owner_of`; it goes when they are forgotten."""


class Noted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a reply noted for later ones, and whose channel it is in."""

    __repr__ = told_by_size

    text: str
    owner: str = ""


def owner_of(guild_id: int | None, user_id: int) -> str:
    """Whose a channel is: its guild's, or, one of direct messages, the person's.

    >>> owner_of(7, 5), owner_of(None, 5)
    ('guild:7', 'user:5')
    """
    return f"user:{user_id}" if guild_id is None else f"guild:{guild_id}"


class Reading(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a turn reads beside its own prompt.

    Args:
        context: of the channel.
        messages: at most.
        before: id of the prompt's message: only what was written before it.
        reply_to: the message that the prompt answers.
        author: the person's name, where several people speak.
        own_name: what the bot is called.
        attachments: of the prompt, and of the message that it answers.
        members: names of people to their ids, so that a mention by name can reach them.
        emoji: names of the guild's own emoji to their whole form.
        speakers: whose words end the reply, where a persona's guard wants it.
        details_hours: how long what replies note is read by later ones; 0 keeps none.
    """

    __repr__ = told_by_size

    before: int
    context: Context = Context.CHANNEL
    messages: int = 30
    reply_to: int | None = None
    author: str = ""
    own_name: str = ""
    attachments: tuple[Attachment, ...] = ()
    members: tuple[tuple[str, int], ...] = ()
    emoji: tuple[tuple[str, str], ...] = ()
    speakers: tuple[str, ...] = ()
    details_hours: float = 0.0

"""Who is spoken to, and where the answer goes.

Comes in: a prompt of a front. Goes out: whether the bot answers it, the turn's id, its route, and
the text without the mention that only called the bot. Pure.
"""

import re

import msgspec

from gateway.front import Prompt
from shared.turns import Front, Route

_ID_PREFIXES = {Front.DISCORD: "m", Front.LOCAL: "l"}


def is_addressed(prompt: Prompt) -> bool:
    """Whether the bot is to answer: mentioned, replied to, or spoken to in private.

    Messages of bots are never answered, not even mentions: two bots would talk for ever.
    """
    if prompt.from_bot:
        return False
    if prompt.front is Front.LOCAL or prompt.guild_id is None:
        return True
    return prompt.mentions_bot or prompt.replies_to_bot


def named(prompt: Prompt, names: tuple[str, ...]) -> Prompt:
    """A prompt that begins with a name of the bot, as one that mentions it, without the name.

    >>> prompt = Prompt(front=Front.DISCORD, message_id=7, channel_id=1, user_id=2, text="Ann, hi")
    >>> named(prompt, ("ann",)).text
    'hi'
    """
    for name in names:
        found = re.match(rf"\s*{re.escape(name)}(?!\w)[\s,:!.]*", prompt.text, re.IGNORECASE)
        if found is not None:
            text = prompt.text[found.end() :]
            return msgspec.structs.replace(prompt, text=text, mentions_bot=True)
    return prompt


def turn_id_of(prompt: Prompt) -> str:
    """The turn's id, made of the message's, so that a message seen twice is one turn.

    >>> turn_id_of(Prompt(front=Front.DISCORD, message_id=7, channel_id=1, user_id=2, text=""))
    'm7'
    """
    return prompt.turn_id or f"{_ID_PREFIXES[prompt.front]}{prompt.message_id}"


def route_of(prompt: Prompt, locale: str | None = None) -> Route:
    """Where the reply goes: the prompt's own channel (or thread), as a reply to it.

    Args:
        prompt: what is answered.
        locale: the language of notices, where the place or the persona has one.
    """
    return Route(
        front=prompt.front,
        channel_id=prompt.channel_id,
        user_id=prompt.user_id,
        guild_id=prompt.guild_id,
        reply_to=prompt.message_id,
        locale=locale or prompt.locale,
        parent_id=prompt.parent_id,
    )


def text_without_call(text: str, bot_id: int) -> str:
    """The prompt without the mention that calls the bot; one within the text stays.

    >>> text_without_call("<@42> what is <@43>?", 42)
    'what is <@43>?'
    """
    call = rf"<@!?{bot_id}>"
    return re.sub(rf"^\s*{call}[\s,:]*|\s*{call}\s*$", "", text).strip()

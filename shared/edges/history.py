"""The latest messages of channels, in Redis: written by gateways, read by workers at claim.

Comes in: messages, edits, deletions. Goes out: what was said, in order. It outlives gateways; a
channel is forgotten a day after its last message. Edges import it.
"""

import logging
from typing import Final

import msgspec
from redis.asyncio import Redis

from shared.edges.redis import within
from shared.edges.scripting import Script
from shared.history import Noted, Remembered
from shared.keys import Keys
from shared.lifetimes import DETAILS_TTL_MS, HISTORY_TTL_MS, OVERHEARD_TTL_MS
from shared.logs import fields
from shared.wire import UNREADABLE

logger = logging.getLogger(__name__)

MAX_MESSAGES: Final = 200
"""Of a channel: the most that a guild may let a model read."""
MAX_OVERHEARD: Final = 20
"""Of a channel where nobody speaks with the bot: what was said just before it is called."""
MAX_TEXT_CHARS: Final = 4_000
"""Of a message: Discord's limit for those who pay."""
MAX_NOTES: Final = 8
"""Notes of replies that are kept for a channel."""
MAX_NOTE_CHARS: Final = 2_000

_WITH_BOT: Final = b"with_bot"

_decode = msgspec.json.Decoder(Remembered).decode
_decode_note = msgspec.json.Decoder(Noted).decode
_encode = msgspec.json.Encoder().encode


class ChannelHistory:
    """The channels of one cell. All methods raise `StoreUnavailable` when nobody answers."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys
        self._remember = Script(redis, "remember")

    async def remember(
        self, channel_id: int, message: Remembered, *, is_with_bot: bool = True
    ) -> None:
        """Keeps a message, once; the newest version of it stands.

        Args:
            channel_id: where it was said.
            message: what was said.
            is_with_bot: it is to the bot, or the bot's. Where none is, little is kept and not long:
                most channels that a bot can read never speak with it.
        """
        kept = msgspec.structs.replace(message, text=message.text[:MAX_TEXT_CHARS])
        args: list[str | bytes | int] = [
            str(message.id),
            _encode(kept),
            MAX_MESSAGES,
            HISTORY_TTL_MS,
            MAX_OVERHEARD,
            OVERHEARD_TTL_MS,
            int(is_with_bot),
        ]
        await within(self._remember([self._keys.history(channel_id)], args))

    async def amend(self, channel_id: int, message_id: int, text: str) -> None:
        """Replaces the text of a message that is kept; one without words and files goes."""
        key = self._keys.history(channel_id)
        found: bytes | None = await within(self._redis.hget(key, str(message_id)))
        if found is not None and (message := _message(found)) is not None:
            if not text.strip() and not message.attachments:
                await self.forget(channel_id, message_id)
                return
            changed = msgspec.structs.replace(message, text=text)
            await self.remember(channel_id, changed, is_with_bot=False)

    async def forget(self, channel_id: int, *message_ids: int) -> None:
        """Takes messages out."""
        if message_ids:
            names = [str(one) for one in message_ids]
            await within(self._redis.hdel(self._keys.history(channel_id), *names))

    async def read(self, channel_id: int, *, before: int) -> list[Remembered]:
        """What was said before a message, oldest first, from where the channel began afresh."""
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.hgetall(self._keys.history(channel_id))
            pipe.get(self._keys.context_start(channel_id))
            found: tuple[dict[bytes, bytes], bytes | None] = await within(pipe.execute())
        texts = [text for name, text in found[0].items() if name != _WITH_BOT]
        start = int(found[1] or 0)
        messages = [message for text in texts if (message := _message(text)) is not None]
        return sorted((one for one in messages if start < one.id < before), key=lambda one: one.id)

    async def note(
        self, channel_id: int, notes: list[str], *, hours: float, owner: str = ""
    ) -> None:
        """Keeps what a reply noted for later ones; `owner` is whose channel it is."""
        if not notes:
            return
        noted = [Noted(text=one[:MAX_NOTE_CHARS], owner=owner) for one in notes]
        key = self._keys.details(channel_id)
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.rpush(key, *[_encode(one) for one in noted])
            pipe.ltrim(key, -MAX_NOTES, -1)
            pipe.pexpire(key, min(DETAILS_TTL_MS, max(1, round(hours * 3_600_000))))
            await within(pipe.execute())

    async def notes(self, channel_id: int) -> list[str]:
        """What replies noted, oldest first."""
        found: list[bytes] = await within(self._redis.lrange(self._keys.details(channel_id), 0, -1))
        return [_note(one) for one in found]


def _note(text: bytes) -> str:
    try:
        return _decode_note(text).text
    except UNREADABLE:
        return text.decode()  # of an older version, which kept the bare text


def _message(text: bytes) -> Remembered | None:
    try:
        return _decode(text)
    except UNREADABLE as exc:
        logger.warning("history.unreadable", extra=fields(reason=str(exc)))
        return None

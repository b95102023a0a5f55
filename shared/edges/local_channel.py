"""The local channel: a durable stand-in for Discord that lives in Redis, outside the gateway.

Comes in: what people write (`turnfleet turns send`, the console) and what the gateway sends. Goes
out: prompts for the gateway; messages and changes for those who watch. `gateway.edges.local` and
`ops` may import it.

It keeps Discord's promises and no more: ids that grow, one message per nonce within a window, edits
and deletions in place, a typing sign that fades, 2,000 code points. Because it does not live in the
gateway, a gateway that is killed finds its world again.
"""

import logging
import secrets
from collections.abc import AsyncIterator
from enum import StrEnum
from typing import cast

import msgspec
from redis.asyncio import Redis

from shared.edges.redis import translated
from shared.edges.scripting import Script
from shared.errors import WireError
from shared.keys import Keys
from shared.lifetimes import LOCAL_CHANGES_MAX, LOCAL_NONCE_TTL_MS, LOCAL_TTL_MS
from shared.segments import MAX_SEGMENT_CHARS
from shared.turns import Target
from shared.wire import UNREADABLE, encode_json

logger = logging.getLogger(__name__)

TYPING_MS = 10_000
"""How long a typing sign shows; Discord's lasts ten seconds too."""
READ_COUNT = 64
"""Prompts per read: enough to be quick, few enough to be stopped soon."""
BLOCK_MS = 1_000
"""How long a read waits: shorter than any socket timeout, and soon enough for a stop."""


class LocalMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message of a local channel. `files` are names; `edits` counts how often it was changed."""

    id: int = 0
    channel_id: int
    user_id: int
    text: str
    is_bot: bool = False
    guild_id: int | None = None
    nonce: str | None = None
    reply_to: int | None = None
    files: tuple[str, ...] = ()
    is_notice: bool = False
    edits: int = 0
    target: Target | None = None
    """The model that shall answer, where the person chose one."""
    locale: str = "en"


class ChangeKind(StrEnum):
    """What may happen in a local channel."""

    POSTED = "posted"
    EDITED = "edited"
    DELETED = "deleted"
    TYPING = "typing"


class LocalChange(msgspec.Struct, frozen=True, kw_only=True):
    """Something happened. `cursor` is where to go on watching; a deletion has no `message`."""

    cursor: str
    kind: ChangeKind
    message_id: int = 0
    message: LocalMessage | None = None


class LocalPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A person's message on its way to the gateway; `receipt` acknowledges it."""

    receipt: str
    message: LocalMessage


class Posted(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a post: `message_id` 0 means that it was posted before and then deleted."""

    message_id: int
    is_new: bool


_message = msgspec.json.Decoder(LocalMessage)


def local_turn_id(message_id: int) -> str:
    """The id of the turn that a local prompt becomes."""
    return f"l{message_id}"


class LocalChannel:
    """The local channels of one cell.

    Args:
        client: a connection whose socket timeout is longer than `BLOCK_MS`.
        keys: the cell's keys.
    """

    def __init__(self, client: Redis, keys: Keys) -> None:
        self._redis = client
        self._keys = keys
        self._post = Script(client, "local_post")
        self._change = Script(client, "local_change")
        self._read_up_to = b"0"

    async def say(
        self,
        channel_id: int,
        text: str,
        *,
        user_id: int = 1,
        guild_id: int | None = None,
        reply_to: int | None = None,
        target: Target | None = None,
        locale: str = "en",
    ) -> int:
        """Posts a person's prompt and returns the id of its message.

        Raises:
            ValueError: the text is empty or over 2,000 code points.
        """
        message = LocalMessage(
            channel_id=channel_id,
            user_id=user_id,
            text=text,
            guild_id=guild_id,
            reply_to=reply_to,
            target=target,
            locale=locale,
            nonce=secrets.token_hex(12),  # a lost connection sends the script twice
        )
        return (await self.post(message)).message_id

    async def post(self, message: LocalMessage) -> Posted:
        """Posts a message, once per nonce. A message that is not a bot's goes to the gateway.

        Raises:
            ValueError: the text is empty or over 2,000 code points, or there is no nonce.
        """
        if message.nonce is None:
            raise ValueError("a message needs a nonce")
        if not message.text.strip() and not message.files:
            raise ValueError("a message needs text")
        _check_length(message.text)
        channel_id = message.channel_id
        keys = [
            self._keys.local_messages(channel_id),
            self._keys.local_changes(channel_id),
            self._keys.local_clock,
            self._keys.local_nonce(message.nonce),
            self._keys.local_typing(channel_id),
            self._keys.local_prompts,
        ]
        is_prompt = 0 if message.is_bot else 1
        limits = [LOCAL_TTL_MS, LOCAL_NONCE_TTL_MS, LOCAL_CHANGES_MAX]
        with translated():
            answer = await self._post(keys, [encode_json(message), is_prompt, *limits, channel_id])
        name, fresh = cast("tuple[bytes, int]", answer)
        return Posted(message_id=int(name), is_new=fresh == 1)

    async def edit(
        self, channel_id: int, message_id: int, text: str, *, is_notice: bool = False
    ) -> bool:
        """Replaces a message's text, and what it is; False when it is gone. One writer per channel.

        Raises:
            ValueError: the text is over 2,000 code points.
        """
        _check_length(text)
        old = await self.message(channel_id, message_id)
        if old is None:
            return False
        new = msgspec.structs.replace(old, text=text, is_notice=is_notice, edits=old.edits + 1)
        return await self._changed(channel_id, message_id, ChangeKind.EDITED, encode_json(new))

    async def delete(self, channel_id: int, message_id: int) -> bool:
        """Deletes a message; False when it was gone."""
        return await self._changed(channel_id, message_id, ChangeKind.DELETED, b"")

    async def typing(self, channel_id: int) -> None:
        """Shows the typing sign for `TYPING_MS`."""
        stream = self._keys.local_changes(channel_id)
        change = {"kind": ChangeKind.TYPING.value}
        with translated():
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.set(self._keys.local_typing(channel_id), "1", px=TYPING_MS)
                pipe.xadd(stream, change, maxlen=LOCAL_CHANGES_MAX, approximate=True)  # type: ignore[arg-type]  # its dict is invariant
                pipe.pexpire(stream, LOCAL_TTL_MS)
                await pipe.execute()

    async def is_typing(self, channel_id: int) -> bool:
        """Whether the typing sign shows now."""
        with translated():
            return bool(await self._redis.exists(self._keys.local_typing(channel_id)))

    async def message(self, channel_id: int, message_id: int) -> LocalMessage | None:
        """One message, None when there is no such."""
        name = self._keys.local_messages(channel_id)
        with translated():
            body = await self._redis.hget(name, str(message_id))  # type: ignore[misc]  # redis-py types both clients
        return None if body is None else _decode(cast("bytes", body), message_id)

    async def messages(self, channel_id: int) -> list[LocalMessage]:
        """All messages of the channel, oldest first."""
        name = self._keys.local_messages(channel_id)
        with translated():
            bodies = await self._redis.hgetall(name)  # type: ignore[misc]  # redis-py types both clients
        found = cast("dict[bytes, bytes]", bodies)
        return [_decode(found[key], int(key)) for key in sorted(found, key=int)]

    async def watch(self, channel_id: int, *, after: str = "0") -> AsyncIterator[LocalChange]:
        """What happens in the channel after a cursor (`0`: all that is kept, `$`: from now on)."""
        stream = self._keys.local_changes(channel_id)
        cursor = after
        while True:
            with translated():
                answer = await self._redis.xread({stream: cursor}, count=READ_COUNT, block=BLOCK_MS)
            for _, entries in cast("list[tuple[bytes, list[_Entry]]]", answer or []):
                for entry_id, fields in entries:
                    cursor = entry_id.decode()
                    yield _change_of(cursor, fields)

    async def pending_prompts(self) -> list[LocalPrompt]:
        """Prompts that nobody acknowledged, oldest first; `next_prompts` goes on behind them."""
        with translated():
            answer = await self._redis.xrange(self._keys.local_prompts, count=READ_COUNT)
        entries = cast("list[_Entry]", answer)
        self._read_up_to = entries[-1][0] if entries else b"0"
        return await self._prompts_of(entries)

    async def next_prompts(self) -> list[LocalPrompt]:
        """Waits up to `BLOCK_MS` for prompts behind those that this object has read.

        They are read by position, not by a group: each gateway sees every prompt, admission makes
        one turn of it, and a gateway that is stalled keeps none from the others.
        """
        stream = self._keys.local_prompts
        with translated():
            answer = await self._redis.xread(
                {stream: self._read_up_to}, count=READ_COUNT, block=BLOCK_MS
            )
        found = cast("list[tuple[bytes, list[_Entry]]]", answer or [])
        entries = [entry for _, rows in found for entry in rows]
        if entries:
            self._read_up_to = entries[-1][0]
        return await self._prompts_of(entries)

    async def ack_prompt(self, receipt: str) -> None:
        """Acknowledges a prompt, which removes it: it was admitted or declined."""
        with translated():
            await self._redis.xdel(self._keys.local_prompts, receipt)

    async def _prompts_of(self, entries: "list[_Entry]") -> list[LocalPrompt]:
        found: list[LocalPrompt] = []
        for entry_id, fields in entries:
            receipt = entry_id.decode()
            try:
                message = _decode(fields[b"body"], int(fields[b"id"]))
            except WireError:
                logger.warning("local.prompt_unreadable", extra={"receipt": receipt})
                await self.ack_prompt(receipt)  # it would be unreadable for ever
                continue
            found.append(LocalPrompt(receipt=receipt, message=message))
        return found

    async def _changed(
        self, channel_id: int, message_id: int, kind: ChangeKind, body: bytes
    ) -> bool:
        keys = [self._keys.local_messages(channel_id), self._keys.local_changes(channel_id)]
        limits = [LOCAL_TTL_MS, LOCAL_CHANGES_MAX]
        with translated():
            done = await self._change(keys, [kind.value, message_id, body, *limits])
        return bool(done == 1)


_Entry = tuple[bytes, dict[bytes, bytes]]


def _check_length(text: str) -> None:
    if len(text) > MAX_SEGMENT_CHARS:
        raise ValueError(f"a message has at most {MAX_SEGMENT_CHARS} code points, not {len(text)}")


def _decode(body: bytes, message_id: int) -> LocalMessage:
    try:
        return msgspec.structs.replace(_message.decode(body), id=message_id)
    except UNREADABLE as exc:
        raise WireError(f"not a local message: {exc}") from exc


def _change_of(cursor: str, fields: dict[bytes, bytes]) -> LocalChange:
    kind = ChangeKind(fields[b"kind"].decode())
    message_id = int(fields.get(b"id", b"0"))
    body = fields.get(b"body")
    message = _decode(body, message_id) if body else None
    return LocalChange(cursor=cursor, kind=kind, message_id=message_id, message=message)

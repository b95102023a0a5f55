"""What Redis alone holds for good, as plain values: read, compared, and put back.

Comes in: a server and the key names of a cell. Goes out: each value by its place. The mirror keeps
them in the database. Boxes of credentials stay boxes: nothing here opens one.
"""

import base64
import re
from collections.abc import Mapping

import msgspec
from redis.asyncio import Redis

from shared.edges.redis import within
from shared.keys import Keys
from shared.lifetimes import FORGOTTEN_TTL_MS

Place = tuple[str, str]
"""A key, and a field or member of it ('' where it has none)."""
Value = tuple[str, str]
"""The key's kind, and the value in base64; of a list, all of it as JSON; of a member, its score."""


def durable(keys: Keys) -> tuple[str, ...]:
    """The keys that are kept nowhere else: choices, keys of people, and operators' words."""
    return (
        keys.choices,
        keys.credentials,
        keys.credential_pauses,
        keys.credential_loans,
        keys.credential_audit,
        keys.pauses,
        keys.forget_due,
        keys.forgotten,
    )


async def read(redis: Redis, keys: Keys) -> dict[Place, Value]:
    """All that a server has now. Raises `StoreError`."""
    found: dict[Place, Value] = {}
    for key in durable(keys):
        kind: bytes = await within(redis.type(key))
        match kind:
            case b"hash":
                fields: Mapping[bytes, bytes] = await within(redis.hgetall(key))
                for name, value in fields.items():
                    found[key, name.decode()] = ("hash", _text(value))
            case b"zset":
                scores: list[tuple[bytes, float]] = await within(
                    redis.zrange(key, 0, -1, withscores=True)
                )
                for name, score in scores:
                    found[key, name.decode()] = ("zset", repr(score))
            case b"list":
                items: list[bytes] = await within(redis.lrange(key, 0, -1))
                found[key, ""] = ("list", _list_text([_text(one) for one in items]))
            case _:
                pass  # none: it is not there
    return found


async def put(redis: Redis, keys: Keys, place: Place, value: Value | None) -> None:
    """Brings one place to a value, or takes it away. Raises `StoreError`."""
    key, field = place
    if value is None:
        # Of a kind that nobody has written here there is nothing to take away.
        kind: bytes = await within(redis.type(key))
        if kind == b"hash":
            await within(redis.hdel(key, field))
        elif kind == b"zset":
            await within(redis.zrem(key, field))
        return
    match value:
        case ("zset", score):
            await within(redis.zadd(key, {field: float(score)}))
        case ("list", text):
            async with redis.pipeline(transaction=True) as pipe:
                pipe.delete(key)
                pipe.rpush(key, *[_bytes(one) for one in _items(text)])
                await within(pipe.execute())
        case (_, text):
            await within(redis.hset(key, field, _bytes(text)))  # type: ignore[arg-type]  # bytes are taken
    if key == keys.forgotten:
        await within(redis.pexpire(key, FORGOTTEN_TTL_MS))


def restored(has: Value | None, had: Value | None, should: Value | None) -> Value | None:
    """What a place gets: what it should have, unless it was changed since the server started.

    Args:
        has: what it holds now.
        had: what it held when the server started.
        should: what the mirror has, which is newer than that.
    """
    if has is not None and has[0] == "list":
        return _joined(has, had, should)
    return should if has == had else has


def list_without(text: str, wanted: re.Pattern[bytes]) -> str | None:
    """A list without the items that a pattern is found in; None where none are left."""
    items = _items(text)
    kept = [one for one in items if not wanted.search(_bytes(one))]
    return _list_text(kept) if kept else None


def _joined(has: Value, had: Value | None, should: Value | None) -> Value:
    """A list, the newest first: what was added since the start, before what the mirror knows."""
    now, before = _items(has[1]), _items(had[1]) if had else []
    known = _items(should[1]) if should else []
    added = now[: len(now) - len(before)]
    if added + before != now or known == now:
        return has
    return "list", _list_text(added + known)


def _items(text: str) -> list[str]:
    return msgspec.json.decode(text, type=list[str])


def _list_text(items: list[str]) -> str:
    return msgspec.json.encode(items).decode()


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)

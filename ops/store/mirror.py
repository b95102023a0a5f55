"""A mirror of what Redis alone would hold for good: settings, personas, sealed credentials.

Comes in: the durable keys of a cell. Goes out: rows of `redis_mirror`, and, after Redis has lost
everything, the same keys again (`turnfleet db restore-redis`). The recorder keeps the mirror.

A mark lies in both. A server without it has forgotten its keys: the mirror is then not followed
into nothing, it waits for the restore. Boxes of credentials stay boxes: nothing here opens one.
"""

import asyncio
import base64
import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from redis.asyncio import Redis
from sqlalchemy import and_, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from ops.store.engine import Database
from ops.store.tables import redis_mirror
from shared.edges.redis import within
from shared.keys import Keys

MARK: Final = ("mark", "")
"""Where the mark lies among the rows; no key of ours has that name."""
BATCH: Final = 500

Place = tuple[str, str]
"""A key, and a field of it ('' where it is no hash)."""
Value = tuple[str, str]
"""The key's kind, and the value in base64; of a list, all of it as JSON."""


def durable(keys: Keys) -> tuple[str, ...]:
    """The keys that are kept nowhere else."""
    return (
        keys.choices,
        keys.credentials,
        keys.credential_pauses,
        keys.credential_loans,
        keys.credential_audit,
    )


class Mirrored(msgspec.Struct, frozen=True, kw_only=True):
    """What a look found. `is_forgotten`: Redis lost its keys, and nothing was changed."""

    changed: int = 0
    removed: int = 0
    is_forgotten: bool = False


class Mirror:
    """The mirror of one cell. All methods raise `StoreError` when a server is away.

    Args:
        database: that holds the rows.
        redis: a client of `shared.edges.redis.connect`.
        keys: the key names of the cell.
    """

    def __init__(self, database: Database, redis: Redis, keys: Keys) -> None:
        self._database = database
        self._redis = redis
        self._keys = keys
        self._known: dict[Place, Value] | None = None

    async def follow(self, now: datetime) -> Mirrored:
        """Brings the rows to what Redis has. A cancelled call has done all of it or nothing."""
        known = await self._rows() if self._known is None else self._known
        if MARK not in known:
            await self._mark(now)
            known = await self._rows()
        raw: bytes | None = await within(self._redis.get(self._keys.mirrored))
        if raw is None or raw.decode() != known[MARK][1]:
            self._known = None
            return Mirrored(is_forgotten=True)
        found = await self._read()
        changed = {place: value for place, value in found.items() if known.get(place) != value}
        removed = known.keys() - found.keys() - {MARK}
        if changed or removed:
            await self._write(changed, removed, now)
        self._known = {MARK: known[MARK], **found}
        return Mirrored(changed=len(changed), removed=len(removed))

    async def restore(self) -> dict[str, int]:
        """Writes the mirrored values that Redis does not have. Returns how many, by key.

        What is there already is newer than the mirror, and stays.
        """
        rows = await self._rows()
        written: dict[str, int] = {}
        for (key, field), (kind, text) in rows.items():
            if (key, field) != MARK:
                added = await self._put(key, field, kind, text)
                written[key] = written.get(key, 0) + added
        if MARK in rows:
            await within(self._redis.set(self._keys.mirrored, rows[MARK][1]))
        return written

    async def _mark(self, now: datetime) -> None:
        """Makes this server the one that the mirror is of. Whoever is first decides."""
        await within(self._redis.set(self._keys.mirrored, secrets.token_hex(8), nx=True))
        raw: bytes | None = await within(self._redis.get(self._keys.mirrored))
        await self._write({MARK: ("mark", (raw or b"").decode())}, set(), now)

    async def _read(self) -> dict[Place, Value]:
        found: dict[Place, Value] = {}
        for key in durable(self._keys):
            kind: bytes = await within(self._redis.type(key))
            match kind:
                case b"hash":
                    fields: Mapping[bytes, bytes] = await within(self._redis.hgetall(key))
                    for name, value in fields.items():
                        found[key, name.decode()] = ("hash", _text(value))
                case b"list":
                    items: list[bytes] = await within(self._redis.lrange(key, 0, -1))
                    whole = msgspec.json.encode([_text(one) for one in items])
                    found[key, ""] = ("list", whole.decode())
                case b"string":
                    value_: bytes | None = await within(self._redis.get(key))
                    found[key, ""] = ("string", _text(value_ or b""))
                case _:
                    pass  # none: it is not there
        return found

    async def _put(self, key: str, field: str, kind: str, text: str) -> int:
        if kind == "hash":
            new: int = await within(self._redis.hsetnx(key, field, _bytes(text)))  # type: ignore[arg-type]  # bytes are taken
            return new
        if await within(self._redis.exists(key)):
            return 0
        if kind == "list":
            items = [_bytes(one) for one in msgspec.json.decode(text, type=list[str])]
            await within(self._redis.rpush(key, *items))
            return len(items)
        await within(self._redis.set(key, _bytes(text), nx=True))
        return 1

    async def _rows(self) -> dict[Place, Value]:
        mirror = redis_mirror.c
        columns = (mirror.key, mirror.field, mirror.kind, mirror.value)
        async with self._database.begin() as connection:
            rows = await connection.execute(select(*columns))
            return {(row.key, row.field): (row.kind, row.value) for row in rows}

    async def _write(
        self, changed: Mapping[Place, Value], removed: set[Place], now: datetime
    ) -> None:
        rows: list[dict[str, Any]] = [
            {"key": key, "field": field, "kind": kind, "value": value, "changed_at": now}
            for (key, field), (kind, value) in sorted(changed.items())
        ]
        mirror = redis_mirror.c
        dialect = sqlite if self._database.is_sqlite else postgresql
        insert = dialect.insert(redis_mirror)
        new = {name: insert.excluded[name] for name in ("kind", "value", "changed_at")}
        if MARK in changed:
            statement = insert.on_conflict_do_nothing(index_elements=["key", "field"])
        else:
            statement = insert.on_conflict_do_update(index_elements=["key", "field"], set_=new)
        async with self._database.begin() as connection:
            for start in range(0, len(rows), BATCH):
                await connection.execute(statement, rows[start : start + BATCH])
                await asyncio.sleep(0)
            for key, field in sorted(removed):
                gone = delete(redis_mirror).where(and_(mirror.key == key, mirror.field == field))
                await connection.execute(gone)


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)

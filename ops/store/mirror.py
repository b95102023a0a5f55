"""A mirror of what Redis alone would hold for good: settings, personas, sealed credentials, pauses.

Comes in: the durable keys of a cell. Goes out: rows of `redis_mirror`, and, after Redis has lost
them, the same keys again (`turnfleet db restore-redis`). The recorder keeps the mirror.

A mark lies in both, and how often the mirror was written. A server without the mark has lost its
keys; one with a smaller number was started from an old dump. Either way the mirror is not followed
into the past: it waits for somebody who decides. Boxes of credentials stay boxes: nothing here
opens one.
"""

import asyncio
import secrets
from collections.abc import Collection, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import msgspec
from redis.asyncio import Redis
from sqlalchemy import BigInteger, Insert, and_, case, cast, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from ops.store.durable import Place, Value, put, read, restored
from ops.store.engine import Database
from ops.store.tables import redis_mirror
from shared.edges.redis import within
from shared.keys import Keys

MARK: Final = ("mark", "")
"""Where the mark lies among the rows; no key of ours has that name."""
VERSION: Final = ("mark", "version")
"""And how often the mirror was written."""
OLD: Final = "old:"
"""Before the keys of what a server had that was found to be older than its mirror. Who restores
it then knows what was changed since."""
BATCH: Final = 500


class Standing(StrEnum):
    """How a server stands to its mirror."""

    CURRENT = "current"
    LOST = "lost"
    """It has lost its keys, or is another one."""
    OLD = "old"
    """It was started from a dump that is older than the mirror."""


class Mirrored(msgspec.Struct, frozen=True, kw_only=True):
    """What a look found; unless the server is `CURRENT`, the mirror was left as it is."""

    changed: int = 0
    removed: int = 0
    standing: Standing = Standing.CURRENT


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """What a server lacks: what each place should hold, None for what should not be there."""

    standing: Standing
    values: dict[Place, Value | None] = msgspec.field(default_factory=dict)

    def by_key(self) -> dict[str, int]:
        """How many values, by key."""
        counts: dict[str, int] = {}
        for key, _ in self.values:
            counts[key] = counts.get(key, 0) + 1
        return counts


class _Rows(msgspec.Struct, frozen=True, kw_only=True):
    """The mirror's rows.

    `old` is what a server from an old dump had when it was seen, None where there was none;
    `old_version` is the number that it had.
    """

    mark: str | None
    version: int
    values: dict[Place, Value]
    old: dict[Place, Value] | None
    old_version: int = 0

    def seen(self, version: int) -> dict[Place, Value] | None:
        """What the server of this number had when it was seen; None where it is seen anew."""
        return self.old if self.old_version == version else None


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
        self._known: _Rows | None = None

    async def follow(self, now: datetime) -> Mirrored:
        """Brings the rows to what Redis has. A cancelled call has done all of it or nothing."""
        mark, version = await self._marks()
        known = self._known
        if known is None or (known.mark, known.version) != (mark, version):
            known = await self._rows()
            if known.mark is None:
                known = await self._begin(now)
            # After the rows: another recorder writes there what already lies in Redis.
            mark, version = await self._marks()
        standing = _standing(known, mark, version)
        found = await read(self._redis, self._keys)
        if standing is Standing.OLD and found == known.values:
            # Only the number was lost, with the last moment before a crash.
            await self._catch_up(known)
            standing = Standing.CURRENT
        if standing is not Standing.CURRENT:
            self._known = None
            if standing is Standing.OLD and known.seen(version) is None:
                stale = _as_old(known.old or {}, 0).keys()
                await self._write(_as_old(found, version), stale, now)
            return Mirrored(standing=standing)
        changed = {name: one for name, one in found.items() if known.values.get(name) != one}
        removed = known.values.keys() - found.keys()
        if changed or removed or known.old is not None:
            # Redis first: a crash in between leaves a number there that is too large, and that is
            # harmless; one that is too small would call a server old that is not.
            version = await within(self._redis.incr(self._keys.mirror_version))
            gone = removed if known.old is None else removed | _as_old(known.old, 0).keys()
            await self._write(changed, gone, now, version=version)
        self._known = _Rows(mark=mark, version=version, values=found, old=None)
        return Mirrored(changed=len(changed), removed=len(removed))

    async def loss(self) -> Loss:
        """What a server that lost something should have otherwise; nothing where it is current.

        What was changed since its start is newer than the mirror, and is left as it is.
        """
        rows = await self._rows()
        mark, version = await self._marks()
        standing = Standing.CURRENT if rows.mark is None else _standing(rows, mark, version)
        if standing is Standing.CURRENT:
            return Loss(standing=standing)
        found = await read(self._redis, self._keys)
        before: Mapping[Place, Value] = {}
        if standing is Standing.OLD:
            seen = rows.seen(version)
            before = found if seen is None else seen
        values = {}
        for place in sorted(rows.values.keys() | found.keys()):
            has, should = found.get(place), rows.values.get(place)
            value = restored(has, before.get(place), should)
            if value != has:
                values[place] = value
        return Loss(standing=standing, values=values)

    async def restore(self) -> Loss:
        """Gives a server back what it lost. Again, it finds nothing. Returns what was written.

        A cancelled call has written a part; the next one does the rest.
        """
        loss = await self.loss()
        for place, value in loss.values.items():
            await put(self._redis, self._keys, place, value)
        await self.accept()
        return loss

    async def accept(self) -> None:
        """Takes the server for right as it is: the next look brings the mirror to what it has."""
        rows = await self._rows()
        if rows.mark is not None:
            await within(self._redis.set(self._keys.mirrored, rows.mark))
            await self._catch_up(rows)

    async def _marks(self) -> tuple[str | None, int]:
        names = (self._keys.mirrored, self._keys.mirror_version)
        mark, version = [await within(self._redis.get(name)) for name in names]
        return None if mark is None else mark.decode(), int(version or 0)

    async def _begin(self, now: datetime) -> _Rows:
        """Makes this server the one that the mirror is of. Whoever is first decides."""
        await within(self._redis.set(self._keys.mirrored, secrets.token_hex(8), nx=True))
        mark, version = await self._marks()
        row = {"key": MARK[0], "field": MARK[1], "kind": "mark", "value": mark, "changed_at": now}
        first = self._insert().on_conflict_do_nothing(index_elements=["key", "field"])
        async with self._database.begin() as connection:
            await connection.execute(first, [row])
        await self._write({}, (), now, version=version)
        return await self._rows()

    async def _catch_up(self, rows: _Rows) -> None:
        """Raises the server's number to the mirror's. Two at once raise it too far: no harm."""
        _, version = await self._marks()
        if version < rows.version:
            step = rows.version - version
            await within(self._redis.incrby(self._keys.mirror_version, step))

    async def _rows(self) -> _Rows:
        mirror = redis_mirror.c
        columns = (mirror.key, mirror.field, mirror.kind, mirror.value)
        async with self._database.begin() as connection:
            rows = await connection.execute(select(*columns))
            found = {(row.key, row.field): (row.kind, row.value) for row in rows}
        mark, version = found.pop(MARK, None), found.pop(VERSION, None)
        old = {
            (key.removeprefix(OLD), field): found.pop((key, field))
            for key, field in list(found)
            if key.startswith(OLD)
        }
        noted = old.pop(MARK, None)
        return _Rows(
            mark=mark[1] if mark else None,
            version=int(version[1]) if version else 0,
            values=found,
            old=old if noted else None,
            old_version=int(noted[1]) if noted else 0,
        )

    async def _write(
        self,
        changed: Mapping[Place, Value],
        removed: Collection[Place],
        now: datetime,
        *,
        version: int | None = None,
    ) -> None:
        """Changes rows, all in one transaction; the number of `version` never falls."""
        rows: list[dict[str, Any]] = [
            {"key": key, "field": field, "kind": kind, "value": value, "changed_at": now}
            for (key, field), (kind, value) in sorted(changed.items())
        ]
        mirror = redis_mirror.c
        async with self._database.begin() as connection:
            for key, field in sorted(removed):
                gone = delete(redis_mirror).where(and_(mirror.key == key, mirror.field == field))
                await connection.execute(gone)
            for start in range(0, len(rows), BATCH):
                await connection.execute(self._upsert(), rows[start : start + BATCH])
                await asyncio.sleep(0)
            if version is not None:
                row = dict(zip(("key", "field"), VERSION, strict=True))
                row |= {"kind": "mark", "value": str(version)}
                await connection.execute(self._raise(), [row | {"changed_at": now}])

    def _upsert(self) -> Insert:
        insert = self._insert()
        new = {name: insert.excluded[name] for name in ("kind", "value", "changed_at")}
        return insert.on_conflict_do_update(index_elements=["key", "field"], set_=new)

    def _raise(self) -> Insert:
        insert = self._insert()
        new, old = insert.excluded.value, redis_mirror.c.value
        is_higher = cast(new, BigInteger) > cast(old, BigInteger)
        higher = {"value": case((is_higher, new), else_=old)}
        return insert.on_conflict_do_update(index_elements=["key", "field"], set_=higher)

    def _insert(self) -> postgresql.Insert | sqlite.Insert:
        if self._database.is_sqlite:
            return sqlite.insert(redis_mirror)
        return postgresql.insert(redis_mirror)


def _standing(rows: _Rows, mark: str | None, version: int) -> Standing:
    if mark != rows.mark:
        return Standing.LOST
    return Standing.OLD if version < rows.version else Standing.CURRENT


def _as_old(values: Mapping[Place, Value], version: int) -> dict[Place, Value]:
    """The rows that say what an old server had, with one that says which number it had."""
    named = {(f"{OLD}{key}", field): value for (key, field), value in values.items()}
    return {(f"{OLD}{MARK[0]}", MARK[1]): ("mark", str(version)), **named}

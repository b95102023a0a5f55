"""Takes whom the fleet has forgotten out of what is still on its way into the database.

Comes in: reports and summaries, and the digests of those who were forgotten. Goes out: the same
without their ids. The recorder writes through it: a report may have waited on a disk.
"""

import asyncio
import base64
import logging
import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import msgspec
from redis.asyncio import Redis
from sqlalchemy import and_, delete, select, update

from ops.store.durable import list_without
from ops.store.engine import Database
from ops.store.forgetting import NOBODY, forget_guild, forget_user
from ops.store.tables import redis_mirror
from shared.edges.forgetting import Kind, Subject
from shared.edges.redis import within
from shared.errors import StoreError
from shared.failures import ErrorReport
from shared.keys import Keys
from shared.summaries import TurnSummary

LOOK_S: Final = 30.0
"""How soon rows follow after somebody was forgotten in Redis."""

_log = logging.getLogger(__name__)

Reported = TypeVar("Reported", bound=ErrorReport | TurnSummary)


def without(reports: Sequence[Reported], forgotten: Collection[str]) -> list[Reported]:
    """The reports, those of forgotten people and guilds without their ids."""
    return [_without(one, forgotten) for one in reports] if forgotten else list(reports)


def _without(report: Reported, forgotten: Collection[str]) -> Reported:
    changes: dict[str, object] = {}
    if report.user_id is not None and Subject(Kind.USER, report.user_id).digest in forgotten:
        changes["user_id"] = None if isinstance(report, ErrorReport) else NOBODY
    if report.guild_id is not None and Subject(Kind.GUILD, report.guild_id).digest in forgotten:
        changes["guild_id"] = None
    return msgspec.structs.replace(report, **changes) if changes else report


class Forgotten:
    """Follows the fleet in forgetting. All methods raise `StoreError` when a server is away.

    Args:
        database: whose rows lose their ids.
        redis: a client of `shared.edges.redis.connect`.
        keys: the key names of the cell.
    """

    def __init__(self, database: Database, redis: Redis, keys: Keys) -> None:
        self._database = database
        self._redis = redis
        self._keys = keys

    async def digests(self) -> frozenset[str]:
        """Who was forgotten lately."""
        found: list[bytes] = await within(self._redis.hkeys(self._keys.forgotten))
        return frozenset(name.decode() for name in found)

    async def follow(self) -> int:
        """Takes whoever waits for it out of the rows. Returns how many rows had them."""
        waiting: list[bytes] = await within(self._redis.zrange(self._keys.forget_rows, 0, -1))
        count = 0
        for text in waiting:
            count += await forget_rows(self._database, Subject.parsed(text.decode()))
            await within(self._redis.zrem(self._keys.forget_rows, text))
        return count

    async def run(self) -> None:
        """Follows again and again, until it is cancelled; what fails is tried at the next look."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                count = await self.follow()
            except StoreError as exc:
                _log.warning("forgotten.left", extra={"error": str(exc)})
                continue
            if count:
                _log.info("forgotten.rows", extra={"rows": count})


async def forget_rows(database: Database, subject: Subject) -> int:
    """Takes a subject's id out of every row. Returns how many had it."""
    forget = forget_user if subject.kind is Kind.USER else forget_guild
    return await forget(database, subject.id) + await _forget_mirrored(database, subject)


async def _forget_mirrored(database: Database, subject: Subject) -> int:
    """Drops what the mirror has of a subject: a restore must not bring it back.

    The mirror follows Redis anyway, but for one that waits for a restore.
    """
    mirror, wanted, count = redis_mirror.c, subject.pattern(), 0
    async with database.begin() as connection:
        columns = (mirror.key, mirror.field, mirror.kind, mirror.value)
        for row in list(await connection.execute(select(*columns))):
            left = _left_of(row, wanted)
            if left == row.value:
                continue
            place = and_(mirror.key == row.key, mirror.field == row.field)
            if left is None:
                await connection.execute(delete(redis_mirror).where(place))
            else:
                await connection.execute(update(redis_mirror).where(place).values(value=left))
            count += 1
    return count


def _left_of(row: Any, wanted: re.Pattern[bytes]) -> str | None:
    """What stays of a row of the mirror; None where it is the subject's."""
    if wanted.search(row.field.encode()) or _names(row.key, row.value, wanted):
        return None
    value: str = row.value
    return list_without(value, wanted) if row.kind == "list" else value


def _names(key: str, value: str, wanted: re.Pattern[bytes]) -> bool:
    """Whether a loan names the subject as whose key is lent."""
    return key.endswith(":loan") and wanted.search(base64.b64decode(value)) is not None


def receipt(subject: Subject, counts: dict[str, int]) -> dict[str, object]:
    """What a person gets who asked: when, for whom (as a digest), and how much went from where."""
    moment = datetime.now(UTC).isoformat(timespec="seconds")
    return {"at": moment, "kind": subject.kind.value, "subject": subject.digest, **counts}

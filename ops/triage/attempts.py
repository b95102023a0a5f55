"""The failed attempts of a turn, and the turns of a cause: expected ones too.

Comes in: a turn's id, or a cause. Goes out: what failed, in order.
"""

from datetime import datetime
from typing import Final

import msgspec
from sqlalchemy import func, select

from ops.store.engine import Database
from ops.store.tables import turn_failures
from ops.triage.errors import MAX_ROWS, is_cause

MAX_TURNS: Final = 10_000
"""As many as failed turns are kept."""


class FailedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that failed: `is_expected` where it needs nobody and has no row of its own."""

    id: str
    created_at: datetime
    attempt: int | None
    error_type: str
    group_hash: str
    is_expected: bool
    provider: str | None
    model: str | None
    credential_source: str | None


async def attempts_of(database: Database, turn_id: str) -> list[FailedAttempt]:
    """The failed attempts of a turn, the first one first."""
    logs = turn_failures.c
    columns = [logs[name] for name in FailedAttempt.__struct_fields__]
    statement = (
        select(*columns)
        .where(logs.turn_id == turn_id)
        .order_by(logs.created_at, logs.seq)
        .limit(MAX_ROWS)
    )
    async with database.begin() as connection:
        rows = [dict(row._mapping) for row in await connection.execute(statement)]
    return [FailedAttempt(**row | {"is_expected": bool(row["is_expected"])}) for row in rows]


async def turns_of(
    database: Database, cause: str, since: datetime, *, limit: int = MAX_TURNS
) -> frozenset[tuple[str, str]]:
    """The turns that a cause has struck, each with the cause's word.

    Args:
        database: to ask.
        cause: its word, its group's hash, or the beginning of that.
        since: how far back.
        limit: how many at most; of more the latest, as the index of failed turns has them.
    """
    logs = turn_failures.c
    statement = (
        select(logs.turn_id, logs.error_type)
        .where(is_cause(turn_failures, cause), logs.created_at >= since)
        .where(logs.turn_id.is_not(None))
        .group_by(logs.turn_id, logs.error_type)
        .order_by(func.max(logs.created_at).desc())
        .limit(limit)
    )
    async with database.begin() as connection:
        rows = await connection.execute(statement)
        return frozenset((row.turn_id, row.error_type) for row in rows)

"""The failed attempts of a turn, expected ones too.

Comes in: a turn's id. Goes out: what failed, in order.
"""

from datetime import datetime

import msgspec
from sqlalchemy import select

from ops.store.engine import Database
from ops.store.tables import turn_failures
from ops.triage.errors import MAX_ROWS


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

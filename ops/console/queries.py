"""What only pages ask: how a cause spreads over the hours, guilds, models, keys and versions.

Comes in: hashes of causes. Goes out: counts. Each query walks the index of causes by time.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec
from sqlalchemy import ColumnElement, func, literal_column, select

from ops.store.engine import Database
from ops.store.tables import error_groups, error_logs
from ops.triage import CauseRecord

HOURS: Final = 24
FACETS: Final = ("guild_id", "provider", "model", "key_id", "worker_version")
FACET_ROWS: Final = 8
"""Values of a facet that are shown; the rest is one bar."""


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """A value of a facet, and how many errors have it."""

    value: str
    count: int


async def hourly(database: Database, hashes: Sequence[str], now: datetime) -> dict[str, list[int]]:
    """Errors of each cause in each of the last 24 hours, the oldest first."""
    start = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS - 1)
    counts = {name: [0] * HOURS for name in hashes}
    logs = error_logs.c
    hour = _hour(database)
    statement = (
        select(logs.group_hash, hour.label("hour"), func.count())
        .where(logs.group_hash.in_(list(hashes)), logs.created_at >= start)
        .group_by(logs.group_hash, hour)
    )
    async with database.begin() as connection:
        for name, at, count in await connection.execute(statement):
            index = int((_moment(at) - start) / timedelta(hours=1))
            if 0 <= index < HOURS:
                counts[name][index] += int(count)
    return counts


async def cause_of(database: Database, group_hash: str) -> CauseRecord | None:
    """One cause by its whole hash."""
    statement = select(error_groups).where(error_groups.c.group_hash == group_hash)
    async with database.begin() as connection:
        row = (await connection.execute(statement)).first()
    return CauseRecord(**row._mapping) if row is not None else None


async def facets(database: Database, group_hash: str, since: datetime) -> dict[str, list[Bar]]:
    """Where a cause strikes: the most frequent values of each facet."""
    found = {}
    for name in FACETS:
        column = error_logs.c[name]
        statement = (
            select(column, func.count().label("errors"))
            .where(error_logs.c.group_hash == group_hash, error_logs.c.created_at >= since)
            .group_by(column)
            .order_by(func.count().desc())
        )
        async with database.begin() as connection:
            rows = [
                (str(value or "none"), int(n)) for value, n in await connection.execute(statement)
            ]
        bars = [Bar(value=value, count=count) for value, count in rows[:FACET_ROWS]]
        rest = sum(count for _, count in rows[FACET_ROWS:])
        if rest:
            bars.append(Bar(value=f"{len(rows) - FACET_ROWS} others", count=rest))
        found[name] = bars
    return found


def _hour(database: Database) -> ColumnElement[str]:
    """The hour of a row as text that begins alike on both databases: 2026-05-01 12 or with a T."""
    if database.is_sqlite:
        return func.substr(error_logs.c.created_at, 1, 13)
    # Written out, not bound: PostgreSQL must see that it groups by what it selects.
    utc: ColumnElement[str] = literal_column("'UTC'")
    form: ColumnElement[str] = literal_column("'YYYY-MM-DD\"T\"HH24'")
    return func.to_char(func.timezone(utc, error_logs.c.created_at), form)


def _moment(hour: str) -> datetime:
    return datetime.fromisoformat(f"{hour}:00:00+00:00")

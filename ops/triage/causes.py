"""Causes: which are frequent, which are suddenly more frequent, and where each of them strikes.

Comes in: filters and hashes. Goes out: counts. What is counted are failed attempts: with a row in
`error_logs` where somebody must act, and in `turn_failures` all of them, expected ones too.
"""

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

import msgspec
from sqlalchemy import Column, ColumnElement, Select, Table, and_, case, func, or_, select
from sqlalchemy import literal_column as literal

from ops.store.engine import Database
from ops.store.tables import error_groups, error_logs, turn_failures
from ops.triage.errors import (
    ATTRIBUTES,
    MAX_ROWS,
    CauseRecord,
    ErrorFilter,
    conditions,
    conditions_of,
)

MIN_SPIKE: Final = 10
"""Failures in a window that are worth waking somebody: fewer are chance."""
USUAL: Final = timedelta(hours=24)
"""What a window is compared with: a day, so that the hours of the day even out."""
HOURS: Final = 24
FACETS: Final = ("guild_id", "provider", "model", "key_id", "worker_version")
FACET_ROWS: Final = 8
"""Values of a facet that are shown; the rest is one bar."""


class TopCause(msgspec.Struct, frozen=True, kw_only=True):
    """A cause within a window: how often, and how far it reaches.

    `expected` of the `errors` need nobody. `is_new` where it was never seen before the window.
    """

    group_hash: str
    error_type: str
    category: str
    title: str
    status: str
    regressed_at: datetime | None
    first_version: str
    errors: int
    expected: int
    guilds: int
    keys: int
    first_at: datetime
    last_at: datetime
    is_new: bool = False


class TopBy(StrEnum):
    """What errors can be ranked by."""

    CAUSE = "cause"
    GUILD = "guild"
    PROVIDER = "provider"
    MODEL = "model"
    KEY = "key"
    WORKER = "worker"
    VERSION = "version"


_TOP_COLUMNS: Final = {
    TopBy.GUILD: "guild_id",
    TopBy.PROVIDER: "provider",
    TopBy.MODEL: "model",
    TopBy.KEY: "key_id",
    TopBy.WORKER: "worker_id",
    TopBy.VERSION: "worker_version",
}


class TopValue(msgspec.Struct, frozen=True, kw_only=True):
    """A guild, a model, ... within a window. `value` '' is none (a DM, no key).

    `expected` of the `errors` need nobody.
    """

    value: str
    errors: int
    expected: int
    causes: int
    guilds: int
    last_at: datetime


class Spike(msgspec.Struct, frozen=True, kw_only=True):
    """An open cause that is much more frequent now than it was: `usual` failures per window."""

    group_hash: str
    error_type: str
    category: str
    title: str
    errors: int
    usual: float
    is_expected: bool = False
    """Whether all of the failures are of the kind that needs nobody: a busy provider, say."""


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """A value of a facet, and how many failures have it."""

    value: str
    count: int


async def top_causes(
    database: Database,
    wanted: ErrorFilter,
    *,
    with_expected: bool = False,
    new_in: str | None = None,
) -> list[TopCause]:
    """The causes of the failures that match, the most frequent first.

    Args:
        database: to ask.
        wanted: the filter.
        with_expected: counts expected failures too, which have neither text nor worker.
        new_in: only causes that this version was the first to report.
    """
    table, matching, expected = _failures(wanted, with_expected=with_expected)
    logs, groups = table.c, error_groups.c
    counted = (
        select(
            logs.group_hash,
            func.min(logs.error_type).label("error_type"),
            func.min(logs.category).label("category"),
            func.count().label("errors"),
            expected.label("expected"),
            func.count(logs.guild_id.distinct()).label("guilds"),
            func.count(logs.key_id.distinct()).label("keys"),
            func.min(logs.created_at).label("first_at"),
            func.max(logs.created_at).label("last_at"),
        )
        .where(*matching)
        .group_by(logs.group_hash)
        .subquery()
    )
    statement = (
        select(counted, groups.title, groups.status, groups.regressed_at)
        .add_columns(groups.first_version, groups.first_seen)
        .join(error_groups, groups.group_hash == counted.c.group_hash, isouter=True)
        .order_by(counted.c.errors.desc(), counted.c.group_hash)
        .limit(min(wanted.limit, MAX_ROWS))
    )
    if new_in is not None:
        statement = statement.where(groups.first_version == new_in)
    async with database.begin() as connection:
        rows = [dict(row._mapping) for row in await connection.execute(statement)]
    return [_top(row, wanted.since) for row in rows]


def _failures(
    wanted: ErrorFilter, *, with_expected: bool
) -> tuple[Table, list[ColumnElement[bool]], ColumnElement[int]]:
    """The table with the failures that are meant, which of them, and how to count expected ones.

    Texts, channels and workers stand in `error_logs` alone.
    """
    if not with_expected:
        return error_logs, conditions(wanted), literal("0")
    matching = conditions_of(turn_failures, wanted, *ATTRIBUTES)
    return turn_failures, matching, func.sum(turn_failures.c.is_expected)


def _top(row: dict[str, Any], since: datetime | None) -> TopCause:
    seen = row.pop("first_seen")
    named = {
        "title": row.pop("title") or row["error_type"],
        "status": row.pop("status") or "open",
        "first_version": row.pop("first_version") or "",
        "expected": int(row.pop("expected") or 0),
    }
    is_new = bool(since and seen and seen >= since)
    return TopCause(**row, **named, is_new=is_new)


async def top_values(
    database: Database, wanted: ErrorFilter, by: TopBy, *, with_expected: bool = False
) -> list[TopValue]:
    """The guilds, models, keys, ... with the most failures that match.

    Args:
        database: to ask.
        wanted: the filter.
        by: what is ranked.
        with_expected: counts expected failures too, which have no worker.
    """
    table, matching, expected = _failures(wanted, with_expected=with_expected)
    logs = table.c
    column = logs[_TOP_COLUMNS[by]]
    statement = (
        select(
            column.label("value"),
            func.count().label("errors"),
            expected.label("expected"),
            func.count(logs.group_hash.distinct()).label("causes"),
            func.count(logs.guild_id.distinct()).label("guilds"),
            func.max(logs.created_at).label("last_at"),
        )
        .where(*matching)
        .group_by(column)
        .order_by(func.count().desc(), column)
        .limit(min(wanted.limit, MAX_ROWS))
    )
    async with database.begin() as connection:
        rows = [dict(row._mapping) for row in await connection.execute(statement)]
    return [
        TopValue(**row | {"value": _named(row["value"]), "expected": int(row["expected"] or 0)})
        for row in rows
    ]


async def spikes(
    database: Database, *, now: datetime, window: timedelta, factor: float
) -> list[Spike]:
    """The open causes whose last window has `factor` times the usual failures, the worst first.

    Usual is the mean per window of the day before; fewer than `MIN_SPIKE` failures are none.
    """
    logs, groups = turn_failures.c, error_groups.c
    is_recent = logs.created_at >= now - window
    counted = (
        select(
            logs.group_hash,
            func.min(logs.error_type).label("error_type"),
            func.min(logs.category).label("category"),
            func.min(logs.is_expected).label("is_expected"),
            func.sum(case((is_recent, 1), else_=0)).label("recent"),
            func.count().label("total"),
        )
        .where(logs.created_at >= now - window - USUAL, logs.created_at < now)
        .group_by(logs.group_hash)
        .subquery()
    )
    statement = (
        select(counted, groups.title)
        .join(error_groups, groups.group_hash == counted.c.group_hash, isouter=True)
        .where(_is_heard(now), counted.c.recent >= MIN_SPIKE)
    )
    async with database.begin() as connection:
        rows = [dict(row._mapping) for row in await connection.execute(statement)]
    found = []
    for row in rows:
        recent, total = int(row.pop("recent")), int(row.pop("total"))
        usual = (total - recent) * (window / USUAL)
        named = {
            "title": row.pop("title") or row["error_type"],
            "is_expected": bool(row.pop("is_expected")),
        }
        if recent >= factor * usual:
            found.append(Spike(**row, **named, errors=recent, usual=round(usual, 2)))
    return sorted(found, key=_deviation, reverse=True)


async def cause_of(database: Database, group_hash: str) -> CauseRecord | None:
    """One cause by its whole hash."""
    statement = select(error_groups).where(error_groups.c.group_hash == group_hash)
    async with database.begin() as connection:
        row = (await connection.execute(statement)).first()
    return CauseRecord(**row._mapping) if row is not None else None


async def hourly(database: Database, hashes: Sequence[str], now: datetime) -> dict[str, list[int]]:
    """Failures of each cause in each of the last 24 hours, the oldest first."""
    start = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS - 1)
    counts = {name: [0] * HOURS for name in hashes}
    logs = turn_failures.c
    hour = _hour(database, logs.created_at)
    statement = (
        select(logs.group_hash, hour.label("hour"), func.count())
        .where(logs.group_hash.in_(list(hashes)), logs.created_at >= start)
        .group_by(logs.group_hash, hour)
    )
    async with database.begin() as connection:
        for name, at, count in await connection.execute(statement):
            moment = datetime.fromisoformat(f"{at}:00:00+00:00")
            index = int((moment - start) / timedelta(hours=1))
            if 0 <= index < HOURS:
                counts[name][index] += int(count)
    return counts


async def facets(database: Database, group_hash: str, since: datetime) -> dict[str, list[Bar]]:
    """Where a cause strikes: the most frequent values of each facet."""
    found = {}
    for name in FACETS:
        async with database.begin() as connection:
            rows = [
                (_named(value) or "none", int(count))
                for value, count in await connection.execute(_facet(name, group_hash, since))
            ]
        bars = [Bar(value=value, count=count) for value, count in rows[:FACET_ROWS]]
        rest = sum(count for _, count in rows[FACET_ROWS:])
        if rest:
            bars.append(Bar(value=f"{len(rows) - FACET_ROWS} others", count=rest))
        found[name] = bars
    return found


def _facet(name: str, group_hash: str, since: datetime) -> Select[Any]:
    logs = turn_failures.c
    return (
        select(logs[name], func.count())
        .where(logs.group_hash == group_hash, logs.created_at >= since)
        .group_by(logs[name])
        .order_by(func.count().desc())
    )


def _is_heard(now: datetime) -> ColumnElement[bool]:
    """Causes that may wake somebody: open ones, and those whose mute has ended."""
    groups = error_groups.c
    return or_(
        groups.status.is_(None),
        groups.status == "open",
        and_(groups.status == "muted", groups.muted_until <= now),
    )


def _deviation(spike: Spike) -> float:
    """How far beyond chance: failures of one cause come about as a Poisson process does."""
    return (spike.errors - spike.usual) / math.sqrt(max(spike.usual, 1.0))


def _hour(database: Database, moment: Column[Any]) -> ColumnElement[str]:
    """The hour of a row as text that is alike on both databases: 2026-05-01T12."""
    if database.is_sqlite:
        return func.substr(moment, 1, 13)
    # Written out, not bound: PostgreSQL must see that it groups by what it selects.
    utc: ColumnElement[str] = literal("'UTC'")
    form: ColumnElement[str] = literal("'YYYY-MM-DD\"T\"HH24'")
    return func.to_char(func.timezone(utc, moment), form)


def _named(value: object) -> str:
    return str(value) if value else ""

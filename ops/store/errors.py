"""Writes what the fleet reports: errors and their causes, failures, ended turns and their cost.

Comes in: reports and summaries. Goes out: rows, once per id, however often it is delivered, in one
transaction. The recorder calls it.
"""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, NamedTuple, TypeVar, cast

from sqlalchemy import Boolean, Insert, Table, bindparam, case, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from ops.store.engine import Database
from ops.store.rows import (
    Row,
    error_row,
    failure_row,
    group_rows,
    makes_a_row,
    sighting,
    stats_rows,
    usage_rows,
)
from ops.store.tables import (
    error_group_aliases,
    error_groups,
    error_logs,
    turn_failures,
    turn_stats,
    usage_ledger,
)
from shared.errors import StoreRejected
from shared.failures import ErrorReport
from shared.redaction import clean
from shared.summaries import TurnSummary

T = TypeVar("T", ErrorReport, TurnSummary)
R = TypeVar("R")
Record = ErrorReport | TurnSummary
_VERSION: Final = re.compile(r"v?(\d{1,9}(?:\.\d{1,9})*)(?=$|[-+_]|\.?(?:rc|dev|post|[ab]\d))")
"""A commit may begin with digits, too: behind a version's numbers stands its end, or a stage."""


async def write_reports(database: Database, records: Sequence[Record], received: datetime) -> int:
    """Writes the rows of what was reported. Returns how many errors for an operator were new.

    A cancelled call has written all of them or none.

    Raises:
        StoreRejected: at least one record cannot be stored; none was.
        StoreUnavailable: the database cannot now; none was stored.
    """
    rows = _rows_of(records, received)
    if not rows.failures and not rows.turns:
        return 0
    async with database.begin() as connection:
        await _follow_aliases(connection, rows)
        failed = await _insert_new(connection, turn_failures, rows.failures)
        await _count_turns(connection, rows.turns)
        new = await _insert_new(connection, error_logs, rows.errors)
        groups = await _groups(connection, [row for row in rows.sightings if row["id"] in failed])
        if groups:
            await connection.execute(_upsert_groups(connection.dialect.name), groups)
    return len(new)


class _Rows(NamedTuple):
    """The rows of a batch by table. A turn comes with its worker's version."""

    errors: list[Row]
    failures: list[Row]
    sightings: list[Row]
    turns: list[tuple[Row, str]]


def _rows_of(records: Sequence[Record], received: datetime) -> _Rows:
    reports = {one.id: one for one in records if isinstance(one, ErrorReport)}
    summaries = [one for one in records if isinstance(one, TurnSummary)]
    turns = [
        (row, clean(one.worker_version))
        for one in summaries
        for row in _made(usage_rows, one, one.turn_id, received)
    ]
    return _Rows(
        errors=[
            _made(error_row, one, one.id, received) for one in reports.values() if makes_a_row(one)
        ],
        failures=[_made(failure_row, one, one.id, received) for one in reports.values()],
        sightings=[_made(sighting, one, one.id, received) for one in reports.values()],
        turns=list({str(row["id"]): (row, version) for row, version in turns}.values()),
    )


def _made(make: Callable[[T, datetime], R], record: T, name: str, received: datetime) -> R:
    try:
        return make(record, received)
    except (ArithmeticError, LookupError, TypeError, ValueError) as exc:
        raise StoreRejected(f"report {name} makes no row: {exc!r}") from exc


async def _follow_aliases(connection: AsyncConnection, rows: _Rows) -> None:
    """Counts failures of a cause that was merged into another one as failures of that one."""
    hashes = {str(row["group_hash"]) for row in rows.failures}
    if not hashes:
        return
    aliases = error_group_aliases.c
    statement = select(aliases.from_hash, aliases.to_hash).where(aliases.from_hash.in_(hashes))
    known = {row.from_hash: row.to_hash for row in await connection.execute(statement)}
    for row in (*rows.errors, *rows.failures, *rows.sightings) if known else ():
        row["group_hash"] = known.get(row["group_hash"], row["group_hash"])


async def _count_turns(connection: AsyncConnection, turns: list[tuple[Row, str]]) -> None:
    """Enters turns into the ledger, and counts those that were not there yet."""
    new = await _insert_new(connection, usage_ledger, [row for row, _ in turns])
    counts = stats_rows(turn for turn in turns if turn[0]["id"] in new)
    if counts:
        await connection.execute(_upsert_stats(connection.dialect.name), counts)


async def _insert_new(connection: AsyncConnection, table: Table, rows: list[Row]) -> set[str]:
    """Inserts the rows whose ids are not there yet. Returns those ids."""
    if not rows:
        return set()
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(table).on_conflict_do_nothing(index_elements=["id"])
    result = await connection.execute(statement.returning(table.c.id), rows)
    return set(result.scalars())


async def _groups(connection: AsyncConnection, sightings: list[Row]) -> list[Row]:
    """The rows of causes, each with whether it is back (`may_reopen`) where it was resolved.

    Where it was resolved in a version, what older ones still report does not count.
    """
    groups, rows = error_groups.c, group_rows(sightings)
    statement = (
        select(groups.group_hash, groups.resolved_in, groups.resolved_at, groups.last_version)
        .where(groups.group_hash.in_([str(row["group_hash"]) for row in rows]))
        .where(groups.status == "resolved", groups.resolved_in.is_not(None))
    )
    mended = {row.group_hash: row for row in await connection.execute(statement)} if rows else {}
    back = {str(row["group_hash"]) for row in sightings} - set(mended)
    for row in sightings:
        name = str(row["group_hash"])
        if (cause := mended.get(name)) is None or cast("datetime", row["created_at"]) <= (
            cause.resolved_at
        ):
            continue
        if _has_cure(str(row["worker_version"]), cause.resolved_in, cause.last_version):
            back.add(name)
    return [row | {"may_reopen": row["group_hash"] in back} for row in rows]


def _has_cure(version: str, resolved_in: str, last_version: str) -> bool:
    """Whether a version should have the cure.

    Versions without numbers have no order: one that reported the cause lately has it not.
    """
    mine, cured = _numbers(version), _numbers(resolved_in)
    if mine is None or cured is None:
        return version == resolved_in or version != last_version
    return mine >= cured


def _numbers(version: str) -> tuple[int, ...] | None:
    """The numbers that a version begins with: 1.2 and v1.2.0 are the same."""
    found = _VERSION.match(version)
    numbers = [int(one) for one in found[1].split(".")] if found else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers) if found else None


def _upsert_stats(dialect_name: str) -> Insert:
    dialect = postgresql if dialect_name == "postgresql" else sqlite
    statement = dialect.insert(turn_stats)
    new, old = statement.excluded, turn_stats.c
    upsert: Insert = statement.on_conflict_do_update(
        index_elements=[column.name for column in turn_stats.primary_key],
        set_={name: old[name] + new[name] for name in ("turns", "failed", "cancelled")},
    )
    return upsert


def _upsert_groups(dialect_name: str) -> Insert:
    """Adds counts to the groups that are there, and widens their span of time.

    A resolved cause that comes again is open again, where its row says so (`may_reopen`).
    """
    dialect = postgresql if dialect_name == "postgresql" else sqlite
    statement = dialect.insert(error_groups)
    new, old = statement.excluded, error_groups.c
    is_earlier, is_later = new.first_seen < old.first_seen, new.last_seen >= old.last_seen
    may_reopen = bindparam("may_reopen", type_=Boolean)
    is_back = (old.status == "resolved") & may_reopen & (new.last_seen > old.resolved_at)
    upsert: Insert = statement.on_conflict_do_update(
        index_elements=["group_hash"],
        set_={
            "status": case((is_back, "open"), else_=old.status),
            "regressed_at": case((is_back, new.last_seen), else_=old.regressed_at),
            "seen_count": old.seen_count + new.seen_count,
            "first_seen": case((is_earlier, new.first_seen), else_=old.first_seen),
            "first_version": case((is_earlier, new.first_version), else_=old.first_version),
            "last_seen": case((is_later, new.last_seen), else_=old.last_seen),
            "last_version": case((is_later, new.last_version), else_=old.last_version),
        },
    )
    return upsert

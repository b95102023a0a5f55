"""Writes error reports: rows, and the groups they belong to, in one transaction.

Comes in: reports. Goes out: rows, once per report id, however often it is delivered. The recorder
calls it.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Insert, case
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from ops.store.engine import Database
from ops.store.rows import Row, error_row, group_rows, makes_a_row
from ops.store.tables import error_groups, error_logs
from shared.errors import StoreRejected
from shared.failures import ErrorReport


async def write_reports(
    database: Database, reports: Sequence[ErrorReport], received: datetime
) -> int:
    """Writes the rows of the reports that need an operator. Returns how many were new.

    A cancelled call has written all of them or none.

    Raises:
        StoreRejected: at least one report cannot be stored; none was.
        StoreUnavailable: the database cannot now; none was stored.
    """
    by_id = {report.id: _row(report, received) for report in reports if makes_a_row(report)}
    if not by_id:
        return 0
    async with database.begin() as connection:
        new = await _insert_new(connection, list(by_id.values()))
        groups = group_rows(by_id[one] for one in by_id if one in new)
        if groups:
            await connection.execute(_upsert_groups(connection.dialect.name), groups)
    return len(new)


def _row(report: ErrorReport, received: datetime) -> Row:
    try:
        return error_row(report, received)
    except (ArithmeticError, LookupError, TypeError, ValueError) as exc:
        raise StoreRejected(f"report {report.id} makes no row: {exc!r}") from exc


async def _insert_new(connection: AsyncConnection, rows: list[Row]) -> set[str]:
    """Inserts the rows whose ids are not there yet. Returns those ids."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    statement = dialect.insert(error_logs).on_conflict_do_nothing(index_elements=["id"])
    result = await connection.execute(statement.returning(error_logs.c.id), rows)
    return set(result.scalars())


def _upsert_groups(dialect_name: str) -> Insert:
    """Adds counts to the groups that are there, and widens their span of time."""
    dialect = postgresql if dialect_name == "postgresql" else sqlite
    statement = dialect.insert(error_groups)
    new, old = statement.excluded, error_groups.c
    is_earlier, is_later = new.first_seen < old.first_seen, new.last_seen >= old.last_seen
    upsert: Insert = statement.on_conflict_do_update(
        index_elements=["group_hash"],
        set_={
            "seen_count": old.seen_count + new.seen_count,
            "first_seen": case((is_earlier, new.first_seen), else_=old.first_seen),
            "first_version": case((is_earlier, new.first_version), else_=old.first_version),
            "last_seen": case((is_later, new.last_seen), else_=old.last_seen),
            "last_version": case((is_later, new.last_version), else_=old.last_version),
        },
    )
    return upsert

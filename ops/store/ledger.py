"""What was used and what it cost, by whom: sums of the usage ledger.

Comes in: what is told apart, and a span of time. Goes out: sums over all attempts, those that were
superseded told apart. A count that a provider did not give is in no sum; `counted` and `costed` say
how many attempts had one. The CLI uses it.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Text, case, func, literal_column, select, type_coerce

from ops.store.engine import Database
from ops.store.rows import SUPERSEDED
from ops.store.tables import usage_ledger

MAX_ROWS: Final = 1_000


class UsedBy(StrEnum):
    """What sums can be told apart by."""

    GUILD = "guild"
    USER = "user"
    PROVIDER = "provider"
    MODEL = "model"
    KEY = "key"
    SOURCE = "source"
    DAY = "day"
    COST_SOURCE = "cost-source"


_COLUMNS: Final = {
    UsedBy.GUILD: "guild_id",
    UsedBy.USER: "user_id",
    UsedBy.PROVIDER: "provider",
    UsedBy.MODEL: "model",
    UsedBy.KEY: "key_id",
    UsedBy.SOURCE: "credential_source",
    UsedBy.DAY: "created_at",
    UsedBy.COST_SOURCE: "cost_source",
}
_SUMS: Final = (
    "input_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cost",
)
_VOID_SUMS: Final = ("output_tokens", "cost")


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """The sums of one value, '' for none (a direct message). None: nobody gave that count.

    `turns` have ended, `attempts` is what they took, `counted` of these have tokens, `costed` a
    cost. `superseded_output_tokens` and `superseded_cost` are the part that nobody read.
    """

    value: str
    turns: int
    attempts: int
    counted: int
    costed: int
    input_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    cost: float | None
    superseded_output_tokens: int | None
    superseded_cost: float | None


async def used(database: Database, by: UsedBy, *, since: datetime, limit: int = 50) -> list[Used]:
    """The sums since then, those with the most output first."""
    ledger = usage_ledger.c
    column = ledger[_COLUMNS[by]]
    # Not the bare number: SQLite would walk the index of guilds and fetch each row on its own,
    # three times as long as the index of the time with all sums in it.
    key = column + 0 if by in {UsedBy.GUILD, UsedBy.USER} else column
    if by is UsedBy.DAY:
        key = day_of(column, is_sqlite=database.is_sqlite)
    is_void = ledger.state == SUPERSEDED
    statement = (
        select(
            key.label("value"),
            func.sum(case((is_void, 0), else_=1)).label("turns"),
            func.count().label("attempts"),
            func.count(ledger.output_tokens).label("counted"),
            func.count(ledger.cost).label("costed"),
            *(func.sum(ledger[name]).label(name) for name in _SUMS),
            *(
                func.sum(case((is_void, ledger[name]))).label(f"superseded_{name}")
                for name in _VOID_SUMS
            ),
        )
        .where(ledger.created_at >= since)
        .group_by(literal_column("value"))
        .order_by(*_order(by))
        .limit(min(limit, MAX_ROWS))
    )
    async with database.begin() as connection:
        rows = [dict(row._mapping) for row in await connection.execute(statement)]
    return [_used(row) for row in rows]


def day_of(moment: ColumnElement[Any], *, is_sqlite: bool) -> ColumnElement[Any]:
    """The day of a moment in UTC: SQLite has it as text that begins with it."""
    if is_sqlite:
        return func.substr(type_coerce(moment, Text), 1, 10)
    return func.to_char(func.timezone("UTC", moment), "YYYY-MM-DD")


def _order(by: UsedBy) -> tuple[ColumnElement[Any], ...]:
    """Days as they come; all else by what it used."""
    value: ColumnElement[Any] = literal_column("value")
    if by is UsedBy.DAY:
        return (value,)
    return (func.coalesce(func.sum(usage_ledger.c.output_tokens), 0).desc(), value)


def _used(row: dict[str, Any]) -> Used:
    """The sums of a row; PostgreSQL adds whole numbers up to a decimal."""
    names = (*_SUMS, *(f"superseded_{name}" for name in _VOID_SUMS))
    sums = {name: None if row[name] is None else float(row[name]) for name in names}
    counts = ("turns", "attempts", "counted", "costed")
    facts = {"value": str(row["value"] or "")} | {name: int(row[name]) for name in counts}
    return msgspec.convert(facts | sums, Used, strict=False)

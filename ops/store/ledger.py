"""What was used and what it cost, by whom: sums of the usage ledger.

Comes in: what is told apart, and a span of time. Goes out: sums. A count that a provider did not
give is in no sum; `counted` says how many turns had one. The CLI uses it.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import msgspec
from sqlalchemy import func, literal_column, select

from ops.store.engine import Database
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


_COLUMNS: Final = {
    UsedBy.GUILD: "guild_id",
    UsedBy.USER: "user_id",
    UsedBy.PROVIDER: "provider",
    UsedBy.MODEL: "model",
    UsedBy.KEY: "key_id",
    UsedBy.SOURCE: "credential_source",
}
_SUMS: Final = (
    "input_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "cost",
)


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """The sums of one value, '' for none (a direct message). None: nobody gave that count."""

    value: str
    turns: int
    counted: int
    input_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    cost: float | None


async def used(database: Database, by: UsedBy, *, since: datetime, limit: int = 50) -> list[Used]:
    """The sums since then, those with the most output first."""
    ledger = usage_ledger.c
    column = ledger[_COLUMNS[by]]
    # Not the bare number: SQLite would walk the index of guilds and fetch each row on its own,
    # three times as long as the index of the time with all sums in it.
    key = column + 0 if by in {UsedBy.GUILD, UsedBy.USER} else column
    statement = (
        select(
            key.label("value"),
            func.count().label("turns"),
            func.count(ledger.output_tokens).label("counted"),
            *(func.sum(ledger[name]).label(name) for name in _SUMS),
        )
        .where(ledger.created_at >= since)
        .group_by(literal_column("value"))
        .order_by(func.coalesce(func.sum(ledger.output_tokens), 0).desc(), literal_column("value"))
        .limit(min(limit, MAX_ROWS))
    )
    async with database.begin() as connection:
        rows = [dict(row._mapping) for row in await connection.execute(statement)]
    return [_used(row) for row in rows]


def _used(row: dict[str, Any]) -> Used:
    """The sums of a row; PostgreSQL adds whole numbers up to a decimal."""
    sums = {name: None if row[name] is None else float(row[name]) for name in _SUMS}
    facts = {"value": str(row["value"] or ""), "turns": row["turns"], "counted": row["counted"]}
    return msgspec.convert(facts | sums, Used, strict=False)

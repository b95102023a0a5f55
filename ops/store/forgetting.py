"""Forgets who a person or a guild was, where somebody has the right to that.

Comes in: an id. Goes out: how many rows no longer have it. What failed and what it cost stays.
"""

from typing import Final

from sqlalchemy import ColumnElement, Table, delete, update

from ops.store.engine import Database
from ops.store.tables import error_logs, turn_failures, turn_stats, usage_ledger

NOBODY: Final = 0
"""In the place of an id that every row of a table must have."""


async def forget_user(database: Database, user_id: int) -> int:
    """Takes a person's id out of every row. A cancelled call has done all or nothing."""
    async with database.begin() as connection:
        total = 0
        for table, nobody in ((error_logs, None), (turn_failures, None), (usage_ledger, NOBODY)):
            change = update(table).where(_is(table, "user_id", user_id)).values(user_id=nobody)
            total += (await connection.execute(change)).rowcount
        return total


async def forget_guild(database: Database, guild_id: int) -> int:
    """Takes a guild's id out of every row, and its counts out of the statistics."""
    async with database.begin() as connection:
        total = 0
        for table in (error_logs, turn_failures, usage_ledger):
            change = update(table).where(_is(table, "guild_id", guild_id)).values(guild_id=None)
            total += (await connection.execute(change)).rowcount
        counts = delete(turn_stats).where(turn_stats.c.guild_id == guild_id)
        return total + (await connection.execute(counts)).rowcount


def _is(table: Table, name: str, number: int) -> ColumnElement[bool]:
    condition: ColumnElement[bool] = table.c[name] == number
    return condition

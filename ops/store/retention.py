"""Forgets what is too old, in small transactions, so that the recorder never waits long.

Comes in: the time. Goes out: how many rows of which table went. `turnfleet db maintain` calls it;
running it again changes nothing.
"""

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from sqlalchemy import Column, Table, delete, select

from ops.store.engine import Database
from ops.store.tables import error_groups, error_logs, turn_failures, turn_stats, usage_ledger

BATCH: Final = 5_000
"""Rows of one transaction: well under a second on both databases, and the lock is free between."""


class Rule(NamedTuple):
    """Rows of a table that are older than this go."""

    table: Table
    moment: Column[datetime]
    keep: timedelta


RULES: Final = (
    Rule(error_logs, error_logs.c.created_at, timedelta(days=30)),
    Rule(turn_failures, turn_failures.c.created_at, timedelta(days=90)),
    Rule(turn_stats, turn_stats.c.bucket, timedelta(days=400)),
    Rule(usage_ledger, usage_ledger.c.created_at, timedelta(days=400)),
    Rule(error_groups, error_groups.c.last_seen, timedelta(days=400)),
)
"""Stacks and messages a month; causes, rates and costs a year, and a month to compare it in."""


async def forget_old(database: Database, now: datetime) -> dict[str, int]:
    """Deletes what is older than its rule says. Returns the rows that went, by table.

    A cancelled call leaves whole batches deleted; the next one goes on.
    """
    gone = {}
    for rule in RULES:
        gone[rule.table.name] = await _forget(database, rule, now - rule.keep)
    await database.shrink()
    return gone


async def _forget(database: Database, rule: Rule, before: datetime) -> int:
    total = 0
    key = next(iter(rule.table.primary_key))
    while True:
        old = select(key).where(rule.moment < before).order_by(rule.moment).limit(BATCH)
        statement = delete(rule.table).where(key.in_(old), rule.moment < before)
        async with database.begin() as connection:
            count = (await connection.execute(statement)).rowcount
        total += count
        if count == 0:
            return total

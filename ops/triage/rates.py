"""Rates: ended turns and failures, by what they have in common.

Comes in: a span of time. Goes out: counts from `turn_stats` and `turn_failures`, so that expected
failures, which have no row in `error_logs`, are seen too.
"""

from datetime import datetime
from enum import StrEnum
from typing import Final

import msgspec
from sqlalchemy import func, select

from ops.store.engine import Database
from ops.store.tables import turn_failures, turn_stats


class RateBy(StrEnum):
    """What rates can be told apart by."""

    MODEL = "model"
    PROVIDER = "provider"
    GUILD = "guild"
    KEY = "key"
    VERSION = "version"


_RATE_COLUMNS: Final = {
    RateBy.MODEL: "model",
    RateBy.PROVIDER: "provider",
    RateBy.GUILD: "guild_id",
    RateBy.KEY: "key_id",
    RateBy.VERSION: "worker_version",
}
"""The column that both tables have for it."""


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """Turns and failures of a model, a guild, ... `value` '' is none (a DM, no key).

    `failures` are attempts that need an operator, `expected` those that do not; a turn that failed
    once and then succeeded has one of them, and is no failed turn.
    """

    value: str
    turns: int = 0
    failed_turns: int = 0
    cancelled: int = 0
    failures: int = 0
    expected: int = 0

    @property
    def per_1000(self) -> float | None:
        """Failed turns per 1,000; None where no turn ended."""
        return round(1000 * self.failed_turns / self.turns, 1) if self.turns else None


async def rates(
    database: Database, by: RateBy, *, since: datetime, guild_id: int | None = None
) -> list[Rate]:
    """Ended turns and failures by one of their facts, the most failures per turn first."""
    name = _RATE_COLUMNS[by]
    stats, failures = turn_stats.c, turn_failures.c
    hour = since.replace(minute=0, second=0, microsecond=0)
    turns = select(
        stats[name], func.sum(stats.turns), func.sum(stats.failed), func.sum(stats.cancelled)
    ).where(stats.bucket >= hour)
    failed = select(failures[name], func.count(), func.sum(failures.is_expected)).where(
        failures.created_at >= hour
    )
    if guild_id is not None:
        turns = turns.where(stats.guild_id == guild_id)
        failed = failed.where(failures.guild_id == guild_id)
    async with database.begin() as connection:
        ended = list(await connection.execute(turns.group_by(stats[name])))
        counted = list(await connection.execute(failed.group_by(failures[name])))
    found: dict[str, Rate] = {}
    for value, *numbers in ended:
        whole, lost, stopped = map(int, numbers)
        found[_named(value)] = Rate(
            value=_named(value), turns=whole, failed_turns=lost, cancelled=stopped
        )
    for value, attempts, expected in counted:
        old = found.get(_named(value)) or Rate(value=_named(value))
        found[old.value] = msgspec.structs.replace(
            old, failures=int(attempts) - int(expected), expected=int(expected)
        )
    return sorted(found.values(), key=lambda rate: (-(rate.per_1000 or 0.0), rate.value))


def _named(value: object) -> str:
    return str(value) if value else ""

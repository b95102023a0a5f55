"""What speaks against a replay that nobody named: a cause that still fails, a person who moved on.

Comes in: failed turns, and the operators' database. Goes out: evidence for `Replays.examine`. It is
asked for when turns are chosen by filters; a person who names a turn has looked at it.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from ops.store.engine import Database
from ops.store.tables import error_groups, turn_failures, usage_ledger
from shared.edges.records import TurnRecord
from shared.segments import TurnFailed
from shared.turns import TurnState

FRESH: Final = timedelta(seconds=60)
"""A failure of this age says that the cause is still there: a busy model has several a minute, and
an operator who has mended something tries it within two."""

Failing = tuple[str, str, str]
"""Cause, provider and model."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What is known.

    `failing`: how many seconds ago each last failed, where none succeeded since and nobody resolved
    it. `answered`: by failed turn, the later turn in which its person got a reply in that place.
    """

    failing: dict[Failing, int] = msgspec.field(default_factory=dict)
    answered: dict[str, str] = msgspec.field(default_factory=dict)


async def evidence(database: Database, records: Sequence[TurnRecord], now: datetime) -> Evidence:
    """What the database knows about these failed turns. Raises `StoreError`."""
    failing: dict[Failing, int] = {}
    answered: dict[str, str] = {}
    async with database.begin() as connection:
        for kind in {kind for record in records if (kind := _kind(record))}:
            age_s = await _failing_s(connection, kind, now)
            if age_s is not None:
                failing[kind] = age_s
        for record in records:
            later = await _answered(connection, record)
            if later is not None:
                answered[record.turn_id] = later
    return Evidence(failing=failing, answered=answered)


def _kind(record: TurnRecord) -> Failing | None:
    if not isinstance(record.event, TurnFailed):
        return None
    return record.event.cause, record.facts.provider, record.facts.model


async def _failing_s(connection: AsyncConnection, kind: Failing, now: datetime) -> int | None:
    cause, provider, model = kind
    logs, groups, ledger = turn_failures.c, error_groups.c, usage_ledger.c
    last_failed = (
        select(func.max(logs.created_at))
        .join(error_groups, groups.group_hash == logs.group_hash, isouter=True)
        .where(logs.error_type == cause, logs.created_at >= now - FRESH)
        .where(logs.provider == provider, logs.model == model)
        .where(func.coalesce(groups.status, "open") != "resolved")
    )
    failed_at: datetime | None = (await connection.execute(last_failed)).scalar()
    if failed_at is None:
        return None
    succeeded = (
        select(ledger.id)
        .where(ledger.provider == provider, ledger.model == model, ledger.created_at > failed_at)
        .where(ledger.state == TurnState.DONE)
        .limit(1)
    )
    if (await connection.execute(succeeded)).first() is not None:
        return None
    return int((now - failed_at).total_seconds())


async def _answered(connection: AsyncConnection, record: TurnRecord) -> str | None:
    ledger = usage_ledger.c
    ended = datetime.fromtimestamp((record.finished_ms or record.enqueued_ms) / 1000, UTC)
    statement = (
        select(ledger.turn_id)
        .where(ledger.user_id == record.route.user_id, ledger.created_at > ended)
        .where(ledger.state == TurnState.DONE)
        # A replay answers an old prompt: its person may wait for the others all the same.
        .where(ledger.turn_id.not_like("%.%"))
        .order_by(ledger.created_at)
        .limit(1)
    )
    guild = record.route.guild_id
    statement = statement.where(
        ledger.guild_id.is_(None) if guild is None else ledger.guild_id == guild
    )
    found: str | None = (await connection.execute(statement)).scalar()
    return found

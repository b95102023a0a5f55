"""What an operator decides about a cause: not now, done, look at it again, the same as that one.

Comes in: a cause's hash, or enough of its beginning. Goes out: the cause's new state in
`error_groups`. The CLI and the console use it.
"""

from datetime import datetime
from typing import Any, Final

import msgspec
from sqlalchemy import Update, case, delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from ops.store.engine import Database
from ops.store.tables import error_group_aliases, error_groups, error_logs, turn_failures
from shared.redaction import clean, redact

MIN_HASH_CHARS: Final = 4
"""The shortest part of a hash that a person may give."""
NOTE_CHARS: Final = 500


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A decision. `muted_until` None mutes for good; `resolved_in` is the version with the cure."""

    status: str
    muted_until: datetime | None = None
    resolved_in: str | None = None
    note: str | None = None


async def decide(database: Database, part: str, verdict: Verdict, now: datetime) -> list[str]:
    """Decides about the cause whose hash begins so.

    Returns:
        The hashes that begin so; the decision was made only if there is exactly one.
    """
    async with database.begin() as connection:
        found = await _beginning(connection, part)
        if len(found) == 1:
            change = update(error_groups).where(error_groups.c.group_hash == found[0])
            await connection.execute(change.values(**_values(verdict, now)))
    return found


def _values(verdict: Verdict, now: datetime) -> dict[str, Any]:
    values: dict[str, Any] = {
        "status": verdict.status,
        "muted_until": verdict.muted_until,
        "resolved_in": verdict.resolved_in,
        "resolved_at": now if verdict.status == "resolved" else None,
        "regressed_at": None,
    }
    if verdict.note is not None:
        values["note"] = redact(clean(verdict.note))[:NOTE_CHARS]
    return values


async def merge(database: Database, part: str, into: str) -> tuple[list[str], list[str]]:
    """Makes two causes one: what was and will be of the first counts for the second.

    A cancelled call has merged both or nothing.

    Args:
        database: that may be written.
        part: the hash of the cause that ends, or its beginning.
        into: that of the one that stays.

    Returns:
        The hashes that begin with each; they were merged only if it was one of each, and two.
    """
    groups = error_groups.c
    async with database.begin() as connection:
        found = [await _beginning(connection, text) for text in (part, into)]
        (gone, kept) = found
        if len(gone) == len(kept) == 1 and gone != kept:
            old, new = gone[0], kept[0]
            for table in (error_logs, turn_failures):
                moved = update(table).where(table.c.group_hash == old).values(group_hash=new)
                await connection.execute(moved)
            rows = await connection.execute(select(error_groups).where(groups.group_hash == old))
            await connection.execute(_absorb(new, dict(rows.mappings().one())))
            await connection.execute(delete(error_groups).where(groups.group_hash == old))
            aliases = error_group_aliases.c
            # A writer that had looked for aliases before may have brought a merged cause back: the
            # same merge, or the other way round, puts that right.
            again = aliases.from_hash.in_((old, new))
            await connection.execute(delete(error_group_aliases).where(again))
            pointing = update(error_group_aliases).where(aliases.to_hash == old)
            await connection.execute(pointing.values(to_hash=new))
            row = {"from_hash": old, "to_hash": new}
            await connection.execute(error_group_aliases.insert(), row)
        return gone, kept


def _absorb(new: str, old: dict[str, Any]) -> Update:
    groups = error_groups.c
    is_earlier, is_later = (
        groups.first_seen > old["first_seen"],
        groups.last_seen < old["last_seen"],
    )
    return (
        update(error_groups)
        .where(groups.group_hash == new)
        .values(
            seen_count=groups.seen_count + old["seen_count"],
            first_version=case((is_earlier, old["first_version"]), else_=groups.first_version),
            last_version=case((is_later, old["last_version"]), else_=groups.last_version),
            first_seen=case((is_earlier, old["first_seen"]), else_=groups.first_seen),
            last_seen=case((is_later, old["last_seen"]), else_=groups.last_seen),
        )
    )


async def _beginning(connection: AsyncConnection, part: str) -> list[str]:
    """The hashes that begin so: two at most, so that one is sure."""
    if len(part) < MIN_HASH_CHARS or not part.isalnum():
        return []
    groups = error_groups.c
    begins = groups.group_hash.startswith(part, autoescape=True)
    rows = await connection.execute(select(groups.group_hash).where(begins).limit(2))
    return list(rows.scalars())

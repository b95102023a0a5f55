"""What an operator decides about a cause: not now, done, or look at it again.

Comes in: a cause's hash, or enough of its beginning. Goes out: the cause's new state in
`error_groups`. The CLI and the console use it.
"""

from datetime import datetime
from typing import Any, Final

import msgspec
from sqlalchemy import select, update

from ops.store.engine import Database
from ops.store.tables import error_groups
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
    if len(part) < MIN_HASH_CHARS or not part.isalnum():
        return []
    groups = error_groups.c
    async with database.begin() as connection:
        begins = groups.group_hash.startswith(part, autoescape=True)
        rows = await connection.execute(select(groups.group_hash).where(begins).limit(2))
        found = list(rows.scalars())
        if len(found) == 1:
            change = update(error_groups).where(groups.group_hash == found[0])
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

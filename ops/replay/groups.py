"""A group of failures as a filter: the index of failed turns knows words of causes alone.

Comes in: a filter whose cause may be a group's hash. Goes out: the filter with the turns of that
group, as the operators' database has them. Command line and console use it.
"""

from datetime import UTC, datetime, timedelta

import msgspec

from ops.replay.turns import FailedFilter
from ops.store.engine import Database
from ops.triage.attempts import turns_of
from shared.causes import Cause
from shared.lifetimes import FAILED_TTL_MS


def group_in(wanted: FailedFilter) -> str | None:
    """The group's hash that a filter names; None for a word, which needs no database."""
    return None if wanted.cause in set(Cause) else wanted.cause


async def narrowed(database: Database, wanted: FailedFilter) -> FailedFilter:
    """The filter with a group's turns in the place of its hash; another one as it is.

    Raises:
        StoreError: the database does not answer.
    """
    if (group := group_in(wanted)) is None:
        return wanted
    since = datetime.now(UTC) - timedelta(milliseconds=FAILED_TTL_MS)
    found = await turns_of(database, group, since)
    return msgspec.structs.replace(wanted, cause=None, among=found)

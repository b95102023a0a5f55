"""A cause as a person names it, for the index of failed turns, which knows words alone.

Comes in: a filter whose cause may be a group's hash. Goes out: the filter with the turns of that
group, as the operators' database has them. `turns list` and `turns replay` use it.
"""

from datetime import UTC, datetime, timedelta

import msgspec

from ops.cli.exits import NotFound
from ops.cli.session import database
from ops.replay.turns import FailedFilter
from ops.triage.attempts import turns_of
from shared.causes import Cause
from shared.lifetimes import FAILED_TTL_MS


async def narrowed(wanted: FailedFilter) -> FailedFilter:
    """The filter, with a group's turns in the place of its hash.

    Raises:
        NotFound: it is no word of a cause, and no group of failed turns begins so.
        StoreError: the database does not answer; a word needs none.
    """
    cause = wanted.cause
    if cause is None or cause in set(Cause):
        return wanted
    since = datetime.now(UTC) - timedelta(milliseconds=FAILED_TTL_MS)
    async with database() as opened:
        found = await turns_of(opened, cause, since)
    if not found:
        raise NotFound(f"no turn failed by a cause {cause}; `turnfleet errors top --all` has them")
    return msgspec.structs.replace(wanted, cause=None, among=found)

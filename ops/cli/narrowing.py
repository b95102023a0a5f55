"""A cause as a person names it: `turns list` and `turns replay` take the hash of a group, too.

Comes in: a filter. Goes out: the filter with the turns of the group that it names.
"""

from ops.cli.exits import NotFound
from ops.cli.session import database
from ops.replay import groups
from ops.replay.turns import FailedFilter


async def narrowed(wanted: FailedFilter) -> FailedFilter:
    """The filter, with a group's turns in the place of its hash.

    Raises:
        NotFound: it is no word of a cause, and no group of failed turns begins so.
        StoreError: the database does not answer; a word needs none.
    """
    if groups.group_in(wanted) is None:
        return wanted
    async with database() as opened:
        found = await groups.narrowed(opened, wanted)
    if not found.among:
        raise NotFound(
            f"no turn failed by a cause {wanted.cause}; `turnfleet errors top --all` has them"
        )
    return found

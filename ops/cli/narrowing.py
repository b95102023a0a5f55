"""What the options of `ops.cli.filters` choose: errors, or failed turns.

Comes in: the options as a person gave them. Goes out: a filter. `turns list` and `turns replay`
take the hash of a group for a cause, too: then the filter has the turns of that group.
"""

from datetime import UTC, datetime

from ops.cli.exits import NotFound
from ops.cli.session import database, span
from ops.replay import groups
from ops.replay.turns import FailedFilter
from ops.triage.errors import ErrorFilter
from shared.failures import FailureCategory


def errors_by(
    *,
    since: str,
    cause: str | None,
    category: str | None,
    guild: int | None,
    channel: int | None,
    user: int | None,
    provider: str | None,
    model: str | None,
    key: str | None,
    worker: str | None,
    turn: str | None,
    text: str | None,
    limit: int,
) -> ErrorFilter:
    """The rows that the options of `errors list` and `errors export` choose."""
    return ErrorFilter(
        since=datetime.now(UTC) - span(since),
        cause=cause,
        category=category,
        guild_id=guild,
        channel_id=channel,
        user_id=user,
        provider=provider,
        model=model,
        key_id=key,
        worker_id=worker,
        turn_id=turn,
        text=text,
        limit=limit,
    )


def failed_by(
    *,
    since: str | None,
    cause: str | None,
    category: FailureCategory | None,
    guild: int | None,
    channel: int | None,
    user: int | None,
    provider: str | None,
    model: str | None,
    text: str | None,
) -> FailedFilter:
    """The failed turns that the options of `turns list` and `turns replay` choose."""
    ago = None if since is None else datetime.now(UTC) - span(since)
    return FailedFilter(
        since_ms=int(ago.timestamp() * 1000) if ago is not None else 0,
        cause=cause,
        category=category.value if category else None,
        guild_id=guild,
        channel_id=channel,
        user_id=user,
        provider=provider,
        model=model,
        text=text,
    )


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

"""`turnfleet errors`: what failed, for whom, and why.

Comes in: filters from the command line. Goes out: rows of the operators' database.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import msgspec
import typer

from ops.cli.errors_export import export, forget
from ops.cli.exits import Exit, NotFound
from ops.cli.output import (
    Output,
    OutputFormat,
    print_record,
    print_records,
    say,
    say_block,
    say_title,
)
from ops.cli.session import database, span
from ops.store.causes import Verdict, decide
from ops.triage import (
    MAX_ROWS,
    MIN_ID_CHARS,
    ErrorDetail,
    ErrorFilter,
    ErrorRecord,
    Rate,
    RateBy,
    Spike,
    TopCause,
    error_detail,
    find_error,
    list_errors,
    rates,
    spikes,
    top_causes,
)
from shared.errors import ConfigError

app = typer.Typer(help="What failed, for whom, and why.", no_args_is_help=True)
app.command()(export)
app.command()(forget)

LIST_COLUMNS: Final = (
    "created_at",
    "id",
    "error_type",
    "provider",
    "model",
    "guild_id",
    "turn_id",
    "error_message",
)
TOP_COLUMNS: Final = (
    "errors",
    "guilds",
    "keys",
    "error_type",
    "last_at",
    "status",
    "group_hash",
    "title",
)
SPIKE_COLUMNS: Final = ("errors", "usual", "error_type", "group_hash", "title")
TURN_COLUMNS: Final = ("created_at", "attempt", "error_type", "http_status", "error_message")
RATE_SHOWN: Final = ("per_1000", "turns", "failed_turns", "cancelled", "failures", "expected")
SHORT_CHARS: Final = 12
"""Of ids and hashes in tables: enough to name one; `show` takes it."""

Since = Annotated[str, typer.Option(metavar="SPAN", help="How far back: 90s, 15m, 24h, 7d.")]
Cause = Annotated[str | None, typer.Option(help="A cause's word, or a group's hash.")]
Guild = Annotated[int | None, typer.Option(help="A guild's id.")]
Channel = Annotated[int | None, typer.Option(help="A channel's id.")]
User = Annotated[int | None, typer.Option(help="A user's id.")]
Provider = Annotated[str | None, typer.Option(help="A provider's name.")]
Model = Annotated[str | None, typer.Option(help="A model's id.")]
Key = Annotated[str | None, typer.Option(help="A key's fingerprint.")]
Worker = Annotated[str | None, typer.Option(help="A worker's id.")]
Turn = Annotated[str | None, typer.Option(help="A turn's id.")]
Category = Annotated[str | None, typer.Option(help="api_error, rate_limit, timeout, ...")]
Containing = Annotated[str | None, typer.Option("--text", help="Part of the message.")]
Hash = Annotated[str, typer.Argument(help="A cause's hash, or its beginning.")]
Note = Annotated[str | None, typer.Option(help="Why, for whoever looks next.")]
Limit = Annotated[int, typer.Option(min=1, max=MAX_ROWS, help="How many at most.")]


@app.command("list")
def list_(
    since: Since = "24h",
    cause: Cause = None,
    category: Category = None,
    guild: Guild = None,
    channel: Channel = None,
    user: User = None,
    provider: Provider = None,
    model: Model = None,
    key: Key = None,
    worker: Worker = None,
    turn: Turn = None,
    text: Containing = None,
    limit: Limit = 50,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Lists errors that need somebody, the newest first. All filters must match."""
    wanted = ErrorFilter(
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

    async def ask() -> list[ErrorRecord]:
        async with database() as opened:
            return await list_errors(opened, wanted)

    records = [_listed(record, output) for record in asyncio.run(ask())]
    print_records(records, LIST_COLUMNS, output, empty="No errors match.")


@app.command()
def top(
    since: Since = "24h",
    provider: Provider = None,
    model: Model = None,
    guild: Guild = None,
    worker: Worker = None,
    limit: Limit = 20,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Ranks the causes: how often, and how many guilds and keys they reach."""
    wanted = ErrorFilter(
        since=datetime.now(UTC) - span(since),
        provider=provider,
        model=model,
        guild_id=guild,
        worker_id=worker,
        limit=limit,
    )

    async def ask() -> list[TopCause]:
        async with database() as opened:
            return await top_causes(opened, wanted)

    records = [_shortened(msgspec.structs.asdict(one), output) for one in asyncio.run(ask())]
    print_records(records, TOP_COLUMNS, output, empty="No errors match.")


@app.command("spikes")
def spikes_(
    window: Annotated[
        str, typer.Option(metavar="SPAN", help="The time that is looked at.")
    ] = "10m",
    factor: Annotated[float, typer.Option(min=1.0, help="How many times the usual.")] = 3.0,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Finds causes that are much more frequent now than over the last day. Ends with 3 if any.

    For cron and alerts: muted and resolved causes, and fewer than ten errors, count for nothing.
    """
    if (looked_at := span(window)) <= timedelta(0):
        raise typer.BadParameter("the window must be longer than nothing")

    async def ask() -> list[Spike]:
        async with database() as opened:
            now = datetime.now(UTC)
            return await spikes(opened, now=now, window=looked_at, factor=factor)

    found = asyncio.run(ask())
    records = [_shortened(msgspec.structs.asdict(one), output) for one in found]
    print_records(records, SPIKE_COLUMNS, output, empty="No spikes.")
    if found:
        raise typer.Exit(Exit.FOUND)


@app.command()
def show(
    error_id: Annotated[str, typer.Argument(help="An error's id, or its beginning or end.")],
    output: Output = OutputFormat.TABLE,
) -> None:
    """Shows one error with everything known: its cause, its turn's other failures, the stack."""
    if len(error_id) < MIN_ID_CHARS:
        raise ConfigError(f"give at least {MIN_ID_CHARS} characters of the error's id")

    async def ask() -> ErrorDetail:
        async with database() as opened:
            found = await find_error(opened, error_id)
            if not found:
                raise NotFound(f"there is no error {error_id}; `turnfleet errors list` has them")
            if len(found) > 1:
                raise ConfigError(f"several errors have {error_id}; give more of the id")
            return await error_detail(opened, found[0])

    _print_detail(asyncio.run(ask()), output)


@app.command()
def rate(
    since: Since = "24h",
    by: Annotated[RateBy, typer.Option(help="What is told apart.")] = RateBy.MODEL,
    guild: Guild = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Failures per 1,000 ended turns, by whole hours; expected failures count apart."""
    oldest = datetime.now(UTC) - span(since)

    async def ask() -> list[Rate]:
        async with database() as opened:
            return await rates(opened, by, since=oldest, guild_id=guild)

    found = asyncio.run(ask())
    records = [
        {by.value: one.value} | msgspec.structs.asdict(one) | {"per_1000": one.per_1000}
        for one in found
    ]
    print_records(records, (by.value, *RATE_SHOWN), output, empty="No turns have ended.")


@app.command()
def mute(
    cause: Hash,
    until: Annotated[str | None, typer.Option("--for", metavar="SPAN", help="How long.")] = None,
    note: Note = None,
) -> None:
    """Mutes a cause: it is counted, but no spike and no alarm. Without --for it stays muted."""
    end = datetime.now(UTC) + span(until) if until else None
    _decide(cause, Verdict(status="muted", muted_until=end, note=note))


@app.command()
def resolve(
    cause: Hash,
    version: Annotated[
        str | None, typer.Option("--in", help="The version that has the cure.")
    ] = None,
    note: Note = None,
) -> None:
    """Marks a cause as mended. When it comes again it is open, and marked as regressed."""
    _decide(cause, Verdict(status="resolved", resolved_in=version, note=note))


@app.command()
def reopen(cause: Hash, note: Note = None) -> None:
    """Opens a cause that was muted or resolved."""
    _decide(cause, Verdict(status="open", note=note))


def _decide(cause: str, verdict: Verdict) -> None:
    async def run() -> list[str]:
        async with database(read_only=False) as opened:
            return await decide(opened, cause, verdict, datetime.now(UTC))

    found = asyncio.run(run())
    if not found:
        raise NotFound(f"there is no cause {cause}; `turnfleet errors top` has them")
    if len(found) > 1:
        raise ConfigError(f"several causes begin with {cause}; give more of the hash")
    say(f"{found[0]} is {verdict.status}.")


def _print_detail(detail: ErrorDetail, output: OutputFormat) -> None:
    if output is not OutputFormat.TABLE:
        print_record(msgspec.to_builtins(detail), output)
        return
    facts = msgspec.structs.asdict(detail.error)
    stack = facts.pop("stack_trace")
    print_record(facts, output)
    if detail.cause is not None:
        say_title("Cause")
        print_record(msgspec.structs.asdict(detail.cause), output)
    if len(detail.turn) > 1:
        say_title(f"Failures of turn {detail.error.turn_id}")
        rows = [msgspec.structs.asdict(one) for one in detail.turn]
        print_records(rows, TURN_COLUMNS, output, empty="")
    if stack:
        say_title("Stack")
        say_block(str(stack))


def _listed(record: ErrorRecord, output: OutputFormat) -> dict[str, object]:
    return _shortened(msgspec.structs.asdict(record), output)


def _shortened(facts: dict[str, object], output: OutputFormat) -> dict[str, object]:
    if output is not OutputFormat.TABLE:
        return facts
    if "id" in facts:
        # A time-sorted id begins alike for all of an hour: its end is what tells them apart.
        facts["id"] = str(facts["id"])[-SHORT_CHARS:]
    facts["group_hash"] = str(facts["group_hash"])[:SHORT_CHARS]
    return facts

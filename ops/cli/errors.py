"""`turnfleet errors`: what failed, for whom, and why.

Comes in: filters from the command line. Goes out: rows of the operators' database.
"""

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
import typer

from ops.cli import filters as by
from ops.cli.errors_buried import buried
from ops.cli.errors_export import export, forget
from ops.cli.errors_import import import_
from ops.cli.errors_top import rate, shortened, spikes_, top
from ops.cli.exits import NotFound
from ops.cli.filters import given
from ops.cli.narrowing import errors_by
from ops.cli.output import (
    Output,
    OutputFormat,
    print_record,
    print_records,
    say,
    say_block,
    say_title,
)
from ops.cli.session import database, settings_now, span
from ops.store.causes import Verdict, decide, merge
from ops.triage.errors import (
    MAX_ROWS,
    MIN_ID_CHARS,
    ErrorDetail,
    ErrorRecord,
    error_detail,
    find_error,
    list_errors,
)
from ops.triage.repairs import Common, Step, log_command, quoted, steps_for
from shared.edges.sentry import event_id
from shared.errors import ConfigError

app = typer.Typer(help="What failed, for whom, and why.", no_args_is_help=True)
app.command()(top)
app.command("spikes")(spikes_)
app.command()(rate)
app.command()(export)
app.command("import")(import_)
app.command()(buried)
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
TURN_COLUMNS: Final = ("created_at", "attempt", "error_type", "http_status", "error_message")
STEP_COLUMNS: Final = ("what", "command")

Hash = Annotated[str, typer.Argument(help="A cause's hash, or its beginning.", callback=given)]
Note = Annotated[str | None, typer.Option(help="Why, for whoever looks next.")]
Limit = Annotated[int, typer.Option(min=1, max=MAX_ROWS, help="How many at most.")]


@app.command("list")
def list_(
    since: by.Since = "24h",
    cause: by.Cause = None,
    category: by.Category = None,
    guild: by.Guild = None,
    channel: by.Channel = None,
    user: by.User = None,
    provider: by.Provider = None,
    model: by.Model = None,
    key: by.Key = None,
    worker: by.Worker = None,
    turn: by.Turn = None,
    text: by.Containing = None,
    limit: Limit = 50,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Lists errors that need somebody, the newest first. All filters must match."""
    wanted = errors_by(
        since=since,
        cause=cause,
        category=category,
        guild=guild,
        channel=channel,
        user=user,
        provider=provider,
        model=model,
        key=key,
        worker=worker,
        turn=turn,
        text=text,
        limit=limit,
    )

    async def ask() -> list[ErrorRecord]:
        async with database() as opened:
            return await list_errors(opened, wanted)

    records = [_listed(record, output) for record in asyncio.run(ask())]
    print_records(records, LIST_COLUMNS, output, empty="No errors match.")


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
def mute(
    cause: Hash,
    until: Annotated[
        str | None, typer.Option("--for", metavar="SPAN", help="How long.", callback=given)
    ] = None,
    note: Note = None,
) -> None:
    """Mutes a cause: it is counted, but no spike and no alarm. Without --for it stays muted."""
    end = datetime.now(UTC) + span(until) if until else None
    _decide(cause, Verdict(status="muted", muted_until=end, note=note))


@app.command()
def resolve(
    cause: Hash,
    version: Annotated[
        str | None, typer.Option("--in", help="The version that has the cure.", callback=given)
    ] = None,
    note: Note = None,
) -> None:
    """Marks a cause as mended. When it comes again it is open, and marked as regressed."""
    _decide(cause, Verdict(status="resolved", resolved_in=version, note=note))


@app.command()
def reopen(cause: Hash, note: Note = None) -> None:
    """Opens a cause that was muted or resolved."""
    _decide(cause, Verdict(status="open", note=note))


@app.command("merge")
def merge_(
    cause: Hash,
    into: Annotated[str, typer.Argument(help="The hash of the cause that stays.", callback=given)],
) -> None:
    """Makes two causes one: what was and will be of the first counts for the second."""

    async def run() -> tuple[list[str], list[str]]:
        async with database(read_only=False) as opened:
            return await merge(opened, cause, into)

    gone, kept = asyncio.run(run())
    if _only(gone, cause) == _only(kept, into):
        raise ConfigError("a cause cannot be merged into itself")
    say(f"{gone[0]} now counts as {kept[0]}.")


def _decide(cause: str, verdict: Verdict) -> None:
    async def run() -> list[str]:
        async with database(read_only=False) as opened:
            return await decide(opened, cause, verdict, datetime.now(UTC))

    found = _only(asyncio.run(run()), cause)
    say(f"{found} is {verdict.status}.")


def _only(found: list[str], part: str) -> str:
    if not found:
        raise NotFound(f"there is no cause {part}; `turnfleet errors top` has them")
    if len(found) > 1:
        raise ConfigError(f"several causes begin with {part}; give more of the hash")
    return found[0]


def _print_detail(detail: ErrorDetail, output: OutputFormat) -> None:
    error = detail.error
    elsewhere, steps = _look_at(error), _steps(error)
    if output is not OutputFormat.TABLE:
        more = {"repairs": msgspec.to_builtins(steps), "look_at": elsewhere}
        print_record(msgspec.to_builtins(detail) | more, output)
        return
    facts = msgspec.structs.asdict(error)
    stack = facts.pop("stack_trace")
    print_record(facts, output)
    if detail.cause is not None:
        say_title("Cause")
        print_record(msgspec.structs.asdict(detail.cause), output)
    if len(detail.turn) > 1:
        say_title(f"Failures of turn {error.turn_id}")
        rows = [msgspec.structs.asdict(one) for one in detail.turn]
        print_records(rows, TURN_COLUMNS, output, empty="")
    if stack:
        say_title("Stack")
        say_block(str(stack))
    say_title("Look at")
    print_record(elsewhere, output)
    say_title("What mends it")
    print_records([msgspec.structs.asdict(step) for step in steps], STEP_COLUMNS, output, empty="")


def _steps(error: ErrorRecord) -> list[Step]:
    common = Common(
        group_hash=error.group_hash,
        provider=error.provider,
        model=error.model,
        key_id=error.key_id,
        guild_id=error.guild_id,
    )
    return steps_for(error.error_type, common, error.turn_id)


def _look_at(error: ErrorRecord) -> dict[str, str]:
    """Where else there is something about an error: the log, its turn, Sentry."""
    found = {"log": log_command("id", error.id)}
    if error.turn_id is not None:
        found["log_of_turn"] = log_command("turn_id", error.turn_id)
        found["turn"] = f"turnfleet turns show {quoted(error.turn_id)}"
    if settings_now().sentry_url is not None:
        found["sentry"] = f"{settings_now().sentry_url}/issues/?query={event_id(error.id)}"
    return found


def _listed(record: ErrorRecord, output: OutputFormat) -> dict[str, object]:
    return shortened(msgspec.structs.asdict(record), output)

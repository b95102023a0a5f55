"""`errors top`, `errors spikes` and `errors rate`: what is frequent, and what is more than usual.

Comes in: a span of time and what is told apart. Goes out: ranked causes, guilds, models, ...
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import msgspec
import typer

from ops.cli.exits import Exit
from ops.cli.filters import Cause, Containing, Guild, Key, Model, Provider, Since, Worker, given
from ops.cli.output import Output, OutputFormat, console, print_records, say
from ops.cli.session import database, span
from ops.triage.causes import Spike, TopBy, TopCause, TopValue, spikes, top_causes, top_values
from ops.triage.errors import MAX_ROWS, ErrorFilter
from ops.triage.rates import Rate, RateBy, rates
from shared.errors import StoreUnavailable
from shared.redaction import redact

TOP_COLUMNS: Final = (
    "errors",
    "expected",
    "guilds",
    "keys",
    "error_type",
    "last_at",
    "status",
    "group_hash",
    "title",
)
VALUE_COLUMNS: Final = ("errors", "expected", "causes", "guilds", "last_at")
SPIKE_COLUMNS: Final = ("errors", "usual", "is_expected", "error_type", "group_hash", "title")
RATE_SHOWN: Final = ("per_1000", "turns", "failed_turns", "cancelled", "failures", "expected")
SHORT_CHARS: Final = 12
"""Of ids and hashes in tables: enough to name one; `show` takes it."""
WATCH_S: Final = 5.0
"""Between two looks: the recorder writes each second, and an eye wants to finish reading."""

Found = Sequence[TopCause | TopValue]


def top(
    by: Annotated[TopBy, typer.Option(help="What is ranked.")] = TopBy.CAUSE,
    since: Since = "24h",
    cause: Cause = None,
    provider: Provider = None,
    model: Model = None,
    guild: Guild = None,
    key: Key = None,
    worker: Worker = None,
    text: Containing = None,
    new_in: Annotated[
        str | None,
        typer.Option(help="Only causes that this version was the first to report.", callback=given),
    ] = None,
    with_expected: Annotated[
        bool, typer.Option("--all", help="Expected failures too, which need nobody.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Again and again, until Ctrl-C.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=MAX_ROWS, help="How many at most.")] = 20,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Ranks causes, guilds, models, ...: how often, and how many guilds and keys they reach."""
    if by is not TopBy.CAUSE and new_in is not None:
        raise typer.BadParameter("--new-in belongs to --by cause")
    if with_expected and (by is TopBy.WORKER or worker is not None or text is not None):
        raise typer.BadParameter(
            "expected failures have neither worker nor text: leave these out, or --all"
        )

    async def ask() -> Found:
        wanted = ErrorFilter(
            since=datetime.now(UTC) - span(since),
            cause=cause,
            provider=provider,
            model=model,
            guild_id=guild,
            key_id=key,
            worker_id=worker,
            text=text,
            limit=limit,
        )
        async with database() as opened:
            if by is not TopBy.CAUSE:
                return await top_values(opened, wanted, by, with_expected=with_expected)
            return await top_causes(opened, wanted, with_expected=with_expected, new_in=new_in)

    def show(found: Found) -> None:
        if watch and output is OutputFormat.TABLE:
            console().clear()
        _print_top(found, by, output)
        sys.stdout.flush()  # a pipe would be given nothing until eight KiB have come together

    async def run() -> None:
        show(await ask())
        if watch:
            await watching(ask, show)

    # One run: between two, Ctrl-C may hit a destructor, where Python swallows it.
    asyncio.run(run())


async def watching(
    ask: Callable[[], Awaitable[Found]], show: Callable[[Found], None], pause_s: float = WATCH_S
) -> None:
    """Looks again and again, until it is cancelled; a database that is away comes back."""
    while True:
        await asyncio.sleep(pause_s)
        try:
            found = await ask()
        except StoreUnavailable as exc:
            say(f"{redact(str(exc))}; trying again.")
        else:
            show(found)


def spikes_(
    window: Annotated[
        str, typer.Option(metavar="SPAN", help="The time that is looked at.")
    ] = "10m",
    factor: Annotated[float, typer.Option(min=1.0, help="How many times the usual.")] = 3.0,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Finds causes that are much more frequent now than over the last day. Ends with 3 if any.

    For cron and alerts, over expected failures too: muted and resolved causes, and fewer than ten
    failures, count for nothing.
    """
    if (looked_at := span(window)) <= timedelta(0):
        raise typer.BadParameter("the window must be longer than nothing")

    async def ask() -> list[Spike]:
        async with database() as opened:
            now = datetime.now(UTC)
            return await spikes(opened, now=now, window=looked_at, factor=factor)

    found = asyncio.run(ask())
    records = [shortened(msgspec.structs.asdict(one), output) for one in found]
    print_records(records, SPIKE_COLUMNS, output, empty="No spikes.")
    if found:
        raise typer.Exit(Exit.FOUND)


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


def shortened(facts: dict[str, object], output: OutputFormat) -> dict[str, object]:
    """A row with short ids where it is a table for people."""
    if output is not OutputFormat.TABLE:
        return facts
    if "id" in facts:
        # A time-sorted id begins alike for all of an hour: its end is what tells them apart.
        facts["id"] = str(facts["id"])[-SHORT_CHARS:]
    facts["group_hash"] = str(facts["group_hash"])[:SHORT_CHARS]
    return facts


def _print_top(found: Found, by: TopBy, output: OutputFormat) -> None:
    rows = [msgspec.structs.asdict(one) for one in found]
    if by is TopBy.CAUSE:
        records = [shortened(row, output) for row in rows]
        print_records(records, TOP_COLUMNS, output, empty="No errors match.")
        return
    named = [{by.value: row.pop("value"), **row} for row in rows]
    print_records(named, (by.value, *VALUE_COLUMNS), output, empty="No errors match.")

"""`turnfleet turns`: send a prompt as a person would, list turns, look at one, run it again.

Comes in: text and ids from the command line. Goes out: prompts into the local channel; what the
channel shows; the records of turns.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
import typer

from ops.cli.conversation import Exchange, Waiting, converse, fresh_channel
from ops.cli.exits import Exit, NotFound
from ops.cli.filters import Cause, Channel, Guild, Model, Provider, Since, User, given
from ops.cli.narrowing import failed_by, narrowed
from ops.cli.output import (
    Output,
    OutputFormat,
    print_record,
    print_records,
    progress,
    say,
    say_block,
    say_title,
)
from ops.cli.recorded import export_
from ops.cli.session import Fleet, fleet
from ops.cli.turn_continue import continue_
from ops.cli.turn_replay import replay, replays_of
from ops.replay.turns import Change, FailedFilter, Replays
from shared.edges.overview import Overview, Place
from shared.edges.records import TimelineEntry, TurnRecord
from shared.edges.stories import story
from shared.failures import FailureCategory
from shared.segments import TurnFailed
from shared.turns import Target, TurnState

app = typer.Typer(help="Send prompts, list turns, look at one, replay.", no_args_is_help=True)
app.command()(replay)
app.command("continue")(continue_)
app.command("export")(export_)

LIST_COLUMNS: Final = (
    "at",
    "turn_id",
    "state",
    "cause",
    "provider",
    "model",
    "guild_id",
    "attempt",
    "segments",
)
TIMELINE_COLUMNS: Final = ("after_ms", "what", "attempt", "who")
WAIT_S: Final = 120.0
"""What `send` waits for a reply: two of the slowest usual ones."""


@app.command()
def send(
    text: Annotated[str, typer.Argument(help="The prompt; - reads it from stdin.")],
    channel: Annotated[int | None, typer.Option(help="A channel; else a new one.")] = None,
    guild: Annotated[int | None, typer.Option(help="A guild; else a direct message.")] = None,
    user: Annotated[int, typer.Option(help="Who asks.")] = 1,
    provider: Annotated[str | None, typer.Option(help="Another provider than set.")] = None,
    model: Annotated[str | None, typer.Option(help="Another model than set.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for the reply.")] = WAIT_S,
    wait: Annotated[bool, typer.Option(help="Wait for the reply and print it.")] = True,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Posts a prompt into the local channel and prints what the channel then shows.

    Ends with 1 when the turn failed or nothing came in time.
    """
    prompt = sys.stdin.read() if text == "-" else text

    async def run() -> Exchange:
        async with fleet() as link:
            exchange = await _say(
                link,
                prompt,
                channel=channel,
                guild=guild,
                user=user,
                provider=provider,
                model=model,
            )
            if not wait:
                return exchange
            with progress("sent") as update:
                return await converse(link, exchange, timeout_s=timeout, update=update)

    exchange = asyncio.run(run())
    _print_exchange(exchange, output)
    if wait and exchange.waiting is not Waiting.OVER:
        say(_unanswered(exchange, timeout))
    if wait and not exchange.is_good:
        raise typer.Exit(Exit.FAILED)


@app.command("list")
def list_(
    failed: Annotated[bool, typer.Option("--failed", help="Failed turns instead.")] = False,
    waiting: Annotated[
        bool, typer.Option("--waiting", help="Turns that wait instead, the oldest first.")
    ] = False,
    replayable: Annotated[
        bool, typer.Option("--replayable", help="Failed turns that can be replayed.")
    ] = False,
    since: Since = "24h",
    cause: Cause = None,
    category: Annotated[FailureCategory | None, typer.Option(help="Only this category.")] = None,
    guild: Guild = None,
    channel: Channel = None,
    user: User = None,
    provider: Provider = None,
    model: Model = None,
    text: Annotated[
        str | None,
        typer.Option(
            help="Only failures that said this: cause, headline, details.", callback=given
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many at most.")] = 50,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Lists the turns that run now, those that wait, or those that failed: expected ones too."""
    if waiting and (failed or replayable):
        raise typer.BadParameter("a turn that waits has not failed: give one of both")
    wanted = failed_by(
        since=since,
        cause=cause,
        category=category,
        guild=guild,
        channel=channel,
        user=user,
        provider=provider,
        model=model,
        text=text,
    )

    async def ask() -> list[TurnRecord]:
        async with fleet() as link:
            if waiting:
                return await _first(link.records.waiting(), wanted, limit)
            if not failed and not replayable:
                return [one for one in await link.records.running() if wanted.matches(one)][:limit]
            replays, narrow = replays_of(link), await narrowed(wanted)
            found = []
            async for record in replays.latest(narrow):
                if not replayable or await _can_be_replayed(replays, record):
                    found.append(record)
                if len(found) == limit:
                    break
            return found

    rows = [_listed(record) for record in asyncio.run(ask())]
    empty = "No failed turns match." if failed or replayable else "No turn runs now; see --waiting."
    empty = "No turn waits." if waiting else empty
    print_records(rows, LIST_COLUMNS, output, empty=empty)


async def _first(
    records: AsyncIterator[TurnRecord], wanted: FailedFilter, limit: int
) -> list[TurnRecord]:
    found: list[TurnRecord] = []
    async for record in records:
        if wanted.matches(record):
            found.append(record)
        if len(found) == limit:
            break
    return found


async def _can_be_replayed(replays: Replays, record: TurnRecord) -> bool:
    return (await replays.examine(record.turn_id, Change())).reason is None


@app.command()
def show(
    turn_id: Annotated[str, typer.Argument(help="A turn's id, such as l1234 or m1187001234.")],
    output: Output = OutputFormat.TABLE,
) -> None:
    """Shows a turn: where it stands, and what happened to it, attempt by attempt."""

    async def ask() -> tuple[TurnRecord | None, list[TimelineEntry], Place]:
        async with fleet() as link:
            record = await link.records.turn(turn_id)
            entries = await link.records.timeline(turn_id)
            return record, entries, await Overview(link.queue).place(turn_id)

    record, entries, place = asyncio.run(ask())
    if record is None:
        raise NotFound(
            f"nothing is known of turn {turn_id}: records of finished turns live for 15 minutes, "
            "of failed ones for 72 hours"
        )
    lines = timeline(record, entries)
    if output is not OutputFormat.TABLE:
        print_record({**msgspec.to_builtins(record), **_waiting(place), "timeline": lines}, output)
        return
    print_record({**_facts(record), **_waiting(place)}, output)
    say_title("Timeline")
    print_records(lines, TIMELINE_COLUMNS, output, empty="")


def _waiting(place: Place) -> dict[str, object]:
    """What a turn that waits is waiting for, and how many are before it."""
    if place.state is not TurnState.QUEUED:
        return {}
    return {"waits_for": place.why.value, "ahead": place.ahead}


def timeline(record: TurnRecord, entries: list[TimelineEntry]) -> list[dict[str, object]]:
    """What happened to a turn, in order, as rows."""
    return [
        {
            "at": _moment(moment.at_ms),
            "after_ms": moment.after_ms,
            "what": moment.word,
            "attempt": moment.attempt or None,
            "who": moment.who,
        }
        for moment in story(record, entries)
    ]


async def _say(
    link: Fleet,
    text: str,
    *,
    channel: int | None,
    guild: int | None,
    user: int,
    provider: str | None,
    model: str | None,
) -> Exchange:
    settings = link.settings
    target = None
    if provider is not None or model is not None:
        target = Target(provider=provider or settings.provider, model=model or settings.model)
    channel_id = fresh_channel() if channel is None else channel
    try:
        message_id = await link.channel.say(
            channel_id, text, user_id=user, guild_id=guild, target=target
        )
    except ValueError as exc:
        raise typer.BadParameter(str(exc)) from exc
    return Exchange.begun(channel_id, message_id)


def _print_exchange(exchange: Exchange, output: OutputFormat) -> None:
    if output is not OutputFormat.TABLE:
        print_record(exchange.as_record(), output)
        return
    for message in exchange.messages:
        say_block(message.text if not message.files else f"{message.text} {message.files}")
    say(f"turn {exchange.turn_id} in channel {exchange.channel_id}: {exchange.state or 'sent'}")


def _unanswered(exchange: Exchange, timeout_s: float) -> str:
    if exchange.waiting is Waiting.UNADMITTED:
        return (
            f"no gateway took the prompt within {timeout_s:g} s; it waits in the channel. "
            "Start one: turnfleet up, or turnfleet gateway"
        )
    return (
        f"no whole reply within {timeout_s:g} s; look at it: turnfleet turns show "
        f"{exchange.turn_id}"
    )


def _listed(record: TurnRecord) -> dict[str, object]:
    ended = record.event if isinstance(record.event, TurnFailed) else None
    return {
        "at": _moment(record.finished_ms or record.claimed_ms or record.enqueued_ms),
        "turn_id": record.turn_id,
        "state": record.state.value,
        "cause": ended.cause if ended else None,
        "category": ended.category if ended else None,
        "provider": record.facts.provider,
        "model": record.facts.model,
        "credential_source": record.facts.credential_source.value,
        "guild_id": record.route.guild_id,
        "channel_id": record.route.channel_id,
        "user_id": record.route.user_id,
        "attempt": record.attempt,
        "crashes": record.crashes,
        "segments": record.seq,
        "worker_id": record.worker_id,
        "report_id": ended.report_id if ended else None,
        "replay_of": record.facts.replay_of,
    }


def _facts(record: TurnRecord) -> dict[str, object]:
    outcome = msgspec.to_builtins(record.outcome) if record.outcome else {}
    outcome.pop("attempts", None)  # the timeline shows them; the other formats have their tokens
    facts = _listed(record) | {"is_stopping": record.is_stopping or None}
    details = {f"outcome.{name}": value for name, value in outcome.items()}
    if record.state is TurnState.FAILED and isinstance(record.event, TurnFailed):
        details["headline"] = record.event.headline
    return facts | details


def _moment(at_ms: int) -> str:
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

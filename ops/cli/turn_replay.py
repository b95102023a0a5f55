"""`turnfleet turns replay`: failed turns once more, as new turns that are linked to the old ones.

Comes in: ids or filters, and what shall be different. Goes out: what would be replayed and why the
rest is not; or new turns, one by one, and what became of each.
"""

import asyncio
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
import typer

from ops.cli.exits import Exit, NotFound
from ops.cli.filters import Cause, Channel, Guild, Model, Provider, User, given
from ops.cli.narrowing import failed_by, narrowed
from ops.cli.output import Output, OutputFormat, print_records, progress_bar, say
from ops.cli.recorded import print_recorded
from ops.cli.session import Fleet, database, fleet
from ops.replay.attachments import refresher
from ops.replay.evidence import Evidence, evidence
from ops.replay.turns import Candidate, Change, FailedFilter, Reason, Replays, admitted
from shared.edges.credentials import CredentialStore
from shared.edges.records import TurnRecord
from shared.errors import StoreError
from shared.failures import FailureCategory
from shared.segments import TurnFailed
from shared.turns import TAKEN, TRANSITIONS, Admission, TurnState

COLUMNS: Final = ("turn_id", "cause", "provider", "model", "guild_id", "result", "why", "new_id")
MAX_TURNS: Final = 10_000
"""As many as failed turns are kept."""
RATE_PER_S: Final = 5.0
"""A provider that has just come back is not met by everything at once."""
MAX_RATE_PER_S: Final = 1_000.0
LOOK_S: Final = 0.1
WAIT_S: Final = 120.0
_RATE: Final = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)(?:/([smh]))?")
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0, None: 1.0}
_WITH: Final = ("provider", "model")

Ids = Annotated[
    list[str] | None, typer.Argument(help="Failed turns.", metavar="[ID]...", callback=given)
]
Replace = Annotated[
    list[str] | None,
    typer.Option("--with", help="model=... or provider=..., for this time.", metavar="NAME=VALUE"),
]
Partial = Annotated[
    bool, typer.Option(help="Also turns whose channel has seen the beginning of a reply.")
]
Anyway = Annotated[
    bool, typer.Option(help="Also turns whose cause still fails, or whose person moved on.")
]
Dry = Annotated[
    bool, typer.Option("--dry-run/--yes", help="Only show what would be done, or do it.")
]
Recorded = Annotated[
    bool, typer.Option(help="Offline: the recorded bytes of a failed attempt through the rooms.")
]
Diff = Annotated[bool, typer.Option(help="With --recorded: against what the channel shows.")]
AttemptNumber = Annotated[
    int | None, typer.Option(min=1, help="With --recorded: this attempt, else the last.")
]


def replay(
    ids: Ids = None,
    cause: Cause = None,
    category: Annotated[FailureCategory | None, typer.Option(help="Of this category.")] = None,
    guild: Guild = None,
    channel: Channel = None,
    user: User = None,
    provider: Provider = None,
    model: Model = None,
    text: Annotated[
        str | None, typer.Option(help="That said this as they failed.", callback=given)
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="SPAN", help="Failed in the last.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_TURNS, help="How many at most.")] = 100,
    replace: Replace = None,
    allow_partial: Partial = False,
    anyway: Anyway = False,
    rate: Annotated[str, typer.Option(help="How fast: 5/s, 30/m.")] = f"{RATE_PER_S:g}/s",
    dry_run: Dry = True,
    wait: Annotated[bool, typer.Option(help="Wait until the new turns have ended.")] = False,
    recorded: Recorded = False,
    diff: Diff = False,
    attempt: AttemptNumber = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Runs failed turns again; each is delivered as a reply to its prompt, once.

    Without --yes it only shows what it would do.
    Give ids, or filters that choose among the failed turns of the last three days: the oldest that
    were not run again. Running the command again does nothing twice: a turn that is named and was
    replayed says as which. What filters choose is left out while its cause still fails, and where
    its person was answered since. A replay that fails is a failed turn of its own (l7.2), with its
    own error. Ends with 1 when a turn that was named cannot be replayed or finds no room,
    or, with --wait, when a replay failed again.
    """
    if recorded:
        print_recorded(_only(ids), attempt, _change(replace), diff, output)
        return
    if diff or attempt is not None:
        raise typer.BadParameter("--diff and --attempt belong to --recorded")
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
    if not ids and wanted == FailedFilter():
        raise typer.BadParameter("name turns, or choose some: --cause, --guild, --since, ...")
    pace_s = _pace_s(rate)
    change = _change(replace, allow_partial=allow_partial, anyway=anyway)
    again = _again(ids, wanted, change, limit, pace_s=None if dry_run else pace_s, waits=wait)
    rows = asyncio.run(again)
    print_records(rows, COLUMNS, output, empty="No failed turns match.")
    _conclude(rows, bool(ids), dry_run)


def replays_of(link: Fleet) -> Replays:
    """The failed turns of the fleet, and the way to run them again."""
    return Replays(
        link.records,
        link.queue,
        _now_ms,
        CredentialStore(link.redis, link.keys),
        refresher(link.settings),
    )


async def _again(
    ids: list[str] | None,
    wanted: FailedFilter,
    change: Change,
    limit: int,
    *,
    pace_s: float | None,
    waits: bool,
) -> list[dict[str, object]]:
    """Runs again what was named, or what filters choose; without a pace it only says what."""
    async with fleet() as link:
        replays, names = replays_of(link), list(dict.fromkeys(ids or ()))
        chosen = [] if names else await _owed(replays, wanted, limit)
        # Whoever names a turn has looked at it.
        doubts = None if names or change.anyway else _Doubts()
        names = names or [one.turn_id for one in chosen]
        if pace_s is None:
            known = await doubts.about(chosen) if doubts else None
            return [
                _row(await replays.examine(name, change, known), "would be replayed")
                for name in names
            ]
        rows = await _replayed(replays, names, change, doubts, pace_s)
        return await _ended(link, rows) if waits else rows


async def _owed(replays: Replays, wanted: FailedFilter, limit: int) -> list[TurnRecord]:
    """The oldest failed turns that filters choose; says what is left out of them."""
    found, replayed = await replays.owed(await narrowed(wanted))
    if replayed:
        say(f"Run again before: {replayed}.")
    if len(found) > limit:
        say(f"More match: {len(found) - limit}. --limit takes more at once.")
    return found[:limit]


class _Doubts:
    """What speaks against replays; without a database, nothing that we know of."""

    def __init__(self) -> None:
        self._is_told = False

    async def about(self, records: Sequence[TurnRecord]) -> Evidence | None:
        """What the database knows now; where it does not answer, that is said once."""
        try:
            async with database() as opened:
                return await evidence(opened, records, datetime.now(UTC))
        except StoreError as exc:
            if not self._is_told:
                say(f"not looked up whether causes still fail: {exc}")
            self._is_told = True
            return None


async def _replayed(
    replays: Replays, names: Sequence[str], change: Change, doubts: _Doubts | None, pace_s: float
) -> list[dict[str, object]]:
    """Admits what can be replayed, one after another at the given pace.

    Each is looked at when it is its time: meanwhile its person may be forgotten or answered, its
    key revoked, and ten thousand requests would be gigabytes.
    """
    rows = []
    due_s = time.monotonic()
    with progress_bar("replaying", len(names)) as advance:
        for name in names:
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            record = await replays.record(name) if doubts else None
            known = await doubts.about([record]) if doubts and record else None
            candidate, result = await replays.examine(name, change, known), ""
            if candidate.reason is None:
                due_s = max(due_s, time.monotonic()) + pace_s
                result = await admitted(replays, candidate)
            rows.append(_row(candidate, result))
            advance()
    return rows


async def _ended(link: Fleet, rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Waits until the admitted turns have ended; says how, with the new cause of a failure."""
    deadline_s = time.monotonic() + WAIT_S
    ended = []
    with progress_bar("waiting for replies", len(rows)) as advance:
        for row in rows:
            if row["result"] in TAKEN:
                row = row | await end_of(link, str(row["new_id"]), deadline_s)
            ended.append(row)
            advance()
    return ended


async def end_of(link: Fleet, turn_id: str, deadline_s: float) -> dict[str, object]:
    """How a turn ended, as far as that was seen until the deadline: a result, and why."""
    while True:
        record = await link.records.turn(turn_id)
        if record is not None and not TRANSITIONS[record.state]:
            why = record.event.cause if isinstance(record.event, TurnFailed) else ""
            return {"result": record.state.value, "why": why}
        if record is None or time.monotonic() > deadline_s:
            return {"why": "its end was not seen"}
        await asyncio.sleep(LOOK_S)


def _row(candidate: Candidate, result: str) -> dict[str, object]:
    record = candidate.record
    event = record.event if record and isinstance(record.event, TurnFailed) else None
    is_ready = candidate.reason is None
    return {
        "turn_id": candidate.turn_id,
        "cause": event.cause if event else None,
        "provider": record.facts.provider if record else None,
        "model": record.facts.model if record else None,
        "guild_id": record.route.guild_id if record else None,
        "channel_id": record.route.channel_id if record else None,
        "result": result if candidate.reason is None else candidate.reason.value,
        "why": candidate.why,
        "eligible": is_ready,
        "new_id": candidate.new_id if is_ready or candidate.reason is Reason.REPLAYED else None,
    }


def _conclude(rows: list[dict[str, object]], is_named: bool, is_dry: bool) -> None:
    """Sums up on stderr, and ends with a code of its own where something is not as asked."""
    ready = sum(1 for row in rows if row["eligible"])
    doubted = sum(1 for row in rows if row["result"] in {Reason.OPEN, Reason.SUPERSEDED})
    if doubted:
        say(f"{doubted} are left out: resolve their cause when it is mended, or give --anyway.")
    if is_dry:
        say(f"{ready} of {len(rows)} would be replayed; --yes does it.")
    elif rows:
        taken = sum(1 for row in rows if row["result"] not in _not_taken())
        say(f"{taken} of {len(rows)} were replayed.")
    if is_named and any(row["result"] == Reason.UNKNOWN for row in rows):
        unknown = ", ".join(str(r["turn_id"]) for r in rows if r["result"] == Reason.UNKNOWN)
        raise NotFound(f"nothing is known of turn {unknown}")
    failed = {TurnState.FAILED.value, TurnState.DEAD.value}
    is_left = is_named and any(row["result"] in _not_taken() for row in rows)
    if is_left or any(row["result"] in failed for row in rows):
        raise typer.Exit(Exit.FAILED)


def _not_taken() -> set[str]:
    busy = {Admission.FULL.value, Admission.GUILD_FULL.value, "too_large"}
    return busy | {reason.value for reason in Reason}


def _only(ids: list[str] | None) -> str:
    if not ids or len(ids) != 1:
        raise typer.BadParameter("--recorded takes one turn's id, or the folder of an export")
    return ids[0]


def _change(pairs: list[str] | None, **accepts: bool) -> Change:
    values: dict[str, str] = {}
    for pair in pairs or ():
        name, _, value = pair.partition("=")
        if name not in _WITH or not value:
            raise typer.BadParameter(f"{pair!r}: write model=... or provider=...")
        values[name] = value
    return msgspec.convert(values | accepts, Change)


def _pace_s(rate: str) -> float:
    match = _RATE.fullmatch(rate.strip().lower())
    per_s = float(match[1]) / _UNITS[match[2]] if match else 0.0
    if not 0.0 < per_s <= MAX_RATE_PER_S:
        raise typer.BadParameter(f"{rate!r} is no pace; write 5/s or 30/m, 1000/s at most")
    return 1.0 / per_s


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

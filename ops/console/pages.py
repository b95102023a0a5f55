"""The pages that show: Now, Causes, Cause, Errors, Turns, Turn, Workers.

Comes in: addresses; every filter is in them. Goes out: pages, each with a `.json` twin. What cannot
be read now (no database yet) is said on the page, and the rest of it stands.
"""

from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import msgspec
import regex
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ops.console.desk import Desk, desk_of
from ops.console.drawing import timeline
from ops.console.render import page
from ops.replay.turns import Candidate, Change, FailedFilter, next_generation
from ops.triage.causes import cause_of, facets, hourly, spikes, top_causes
from ops.triage.errors import ErrorFilter, list_errors
from ops.triage.rates import RateBy, rates
from shared.edges.records import TurnRecord, story
from shared.errors import StoreError
from shared.segments import TurnFailed

ROWS: Final = 50
SPAN: Final = "24h"
_SPAN: Final = regex.compile(r"(\d{1,4})([mhdw])")
_UNITS: Final = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
REPLAYABLE_ROWS: Final = 50
"""Failed turns of a cause that a dry run looks at: the page must be quick."""

T = TypeVar("T")


async def now(request: Request) -> Response:
    """How the fleet is, on one page."""
    return page(request, "now.html", await now_facts(desk_of(request)))


async def now_facts(desk: Desk) -> dict[str, Any]:
    """What the first page shows."""
    moment = datetime.now(UTC)
    trouble: list[str] = []
    hour_ago = moment - timedelta(hours=1)
    window = timedelta(minutes=10)
    found = await _or(spikes(desk.database, now=moment, window=window, factor=3), [], trouble)
    model_rates = await _or(rates(desk.database, RateBy.MODEL, since=hour_ago), [], trouble)
    failed = await desk.replays.failed(FailedFilter(), 10)
    return {
        "load": await desk.records.load(),
        "processes": await desk.records.processes(),
        "running": [turn_row(record) for record in (await desk.records.running())[:ROWS]],
        "failed": [turn_row(record) for record in reversed(failed)],
        "spikes": found,
        "rates": [msgspec.structs.asdict(one) | {"per_1000": one.per_1000} for one in model_rates],
        "trouble": trouble[:1],
    }


async def causes(request: Request) -> Response:
    """The causes of a time, the most frequent first."""
    desk, wanted, trouble = desk_of(request), _wanted(request), list[str]()
    found = await _or(top_causes(desk.database, wanted), [], trouble)
    names = [one.group_hash for one in found]
    hours = await _or(hourly(desk.database, names, datetime.now(UTC)), {}, trouble)
    rows = [msgspec.structs.asdict(one) | {"hours": hours.get(one.group_hash, [])} for one in found]
    return page(request, "causes.html", {"causes": rows, "trouble": trouble[:1]})


async def cause(request: Request) -> Response:
    """One cause: where it strikes, its last errors, what can be done."""
    desk, name = desk_of(request), request.path_params["name"]
    found = await cause_of(desk.database, name)
    if found is None:
        raise HTTPException(404, f"There is no cause {name}.")
    since = datetime.now(UTC) - _span(request)
    errors = await list_errors(desk.database, ErrorFilter(since=since, cause=name, limit=20))
    failed = await desk.replays.failed(FailedFilter(cause=found.error_type), REPLAYABLE_ROWS)
    seen = [await desk.replays.examine(one.turn_id, Change()) for one in failed]
    facts = {
        "cause": found,
        "hours": (await hourly(desk.database, [name], datetime.now(UTC)))[name],
        "facets": await facets(desk.database, name, since),
        "errors": errors,
        "replay": _counted(seen),
        "replayable": [one.turn_id for one in seen if one.reason is None],
    }
    return page(request, "cause.html", facts)


async def errors(request: Request) -> Response:
    """Errors that need somebody, by any filter."""
    trouble: list[str] = []
    found = await _or(list_errors(desk_of(request).database, _wanted(request)), [], trouble)
    return page(request, "errors.html", {"errors": found, "trouble": trouble[:1]})


async def turns(request: Request) -> Response:
    """Failed turns, expected failures too."""
    values = request.query_params
    since = datetime.now(UTC) - _span(request)
    wanted = FailedFilter(
        since_ms=int(since.timestamp() * 1000),
        cause=values.get("cause") or None,
        guild_id=_number(values.get("guild")),
        provider=values.get("provider") or None,
        model=values.get("model") or None,
    )
    found = await desk_of(request).replays.failed(wanted, ROWS)
    rows = [turn_row(record) for record in reversed(found)]
    return page(request, "turns.html", {"turns": rows})


async def turn(request: Request) -> Response:
    """One turn: its timeline, its failures, its replays."""
    desk, turn_id = desk_of(request), request.path_params["turn_id"]
    record = await desk.records.turn(turn_id)
    if record is None:
        raise HTTPException(404, f"Nothing is known of turn {turn_id} (any more).")
    trouble: list[str] = []
    since = datetime.now(UTC) - timedelta(days=4)
    wanted = ErrorFilter(since=since, turn_id=turn_id, limit=ROWS)
    marks = story(record, await desk.records.timeline(turn_id))
    candidate = await desk.replays.examine(turn_id, Change())
    follower = next_generation(turn_id)
    facts = {
        "turn": turn_row(record) | {"outcome": record.outcome, "event": record.event},
        "marks": marks,
        "errors": (await _or(list_errors(desk.database, wanted), [], trouble))[::-1],
        "reason": candidate.reason,
        "why": candidate.why,
        "replayed_as": follower if await desk.records.state(follower) else None,
        "trouble": trouble,
    }
    is_json = request.url.path.endswith(".json")
    return page(request, "turn.html", facts if is_json else facts | {"drawing": timeline(marks)})


async def workers(request: Request) -> Response:
    """The processes of the fleet."""
    desk = desk_of(request)
    found = sorted(await desk.records.processes(), key=lambda one: (one.role, one.started_ms))
    rows = [
        msgspec.structs.asdict(one)
        | {
            "up_s": (one.seen_ms - one.started_ms) // 1000,
            "seen_ago_ms": desk.now_ms() - one.seen_ms,
        }
        for one in found
    ]
    return page(request, "workers.html", {"processes": rows})


def turn_row(record: TurnRecord) -> dict[str, Any]:
    """A turn in a list."""
    event = record.event if isinstance(record.event, TurnFailed) else None
    return {
        "turn_id": record.turn_id,
        "state": record.state.value,
        "cause": event.cause if event else None,
        "report_id": event.report_id if event else None,
        "at_ms": record.finished_ms or record.claimed_ms or record.enqueued_ms,
        "provider": record.facts.provider,
        "model": record.facts.model,
        "guild_id": record.route.guild_id,
        "channel_id": record.route.channel_id,
        "is_local": record.route.front == "local",
        "user_id": record.route.user_id,
        "attempt": record.attempt,
        "segments": record.seq,
        "worker_id": record.worker_id,
        "replay_of": record.facts.replay_of,
    }


async def _or(asked: Awaitable[T], otherwise: T, trouble: list[str]) -> T:
    """The answer of the database; without one, a sentence for the page."""
    try:
        return await asked
    except StoreError as exc:
        trouble.append(str(exc))
        return otherwise


def _counted(seen: list[Candidate]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in seen:
        word = one.reason.value if one.reason else "can be replayed"
        counts[word] = counts.get(word, 0) + 1
    return counts


def _wanted(request: Request) -> ErrorFilter:
    values = request.query_params
    return ErrorFilter(
        since=datetime.now(UTC) - _span(request),
        guild_id=_number(values.get("guild")),
        cause=values.get("cause") or None,
        provider=values.get("provider") or None,
        model=values.get("model") or None,
        text=values.get("text") or None,
        limit=ROWS,
    )


def _span(request: Request) -> timedelta:
    text = request.query_params.get("since") or SPAN
    match = _SPAN.fullmatch(text)
    if match is None:
        raise HTTPException(400, "since: write 15m, 24h or 7d.")
    return timedelta(seconds=int(match[1]) * _UNITS[match[2]])


def _number(text: str | None) -> int | None:
    if not text:
        return None
    if not text.isdecimal() or not 0 < int(text[:20]) < 2**63:
        raise HTTPException(400, "An id is a number.")
    return int(text)

"""The pages about the whole: Now, Workers, and the field that finds things.

Comes in: addresses. Goes out: pages, each with a `.json` twin. What cannot be read now (no database
yet) is said on the page, and the rest of it stands.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ops.console.asking import ROWS, number_in, otherwise
from ops.console.desk import Desk, desk_of
from ops.console.render import page, span
from ops.console.turns import turn_row
from ops.replay.turns import FailedFilter
from ops.triage.causes import Spike, hourly, spikes, top_causes
from ops.triage.errors import ErrorFilter, find_error
from ops.triage.rates import RateBy, rates
from ops.triage.repairs import quoted
from shared.causes import Cause
from shared.edges.backlog import Partition, Standstill, Waiting
from shared.edges.records import ProcessRecord
from shared.errors import StoreError

WINDOW: Final = timedelta(minutes=10)
FACTOR: Final = 3
SLOW_DELIVERY_MS: Final = 10_000
"""A finished segment that waits longer is a channel that sees nothing: the silence bound."""
SLOW_START_MS: Final = 30_000
"""A prompt that nobody takes for so long: the alert for Prometheus says the same."""
SLOW_REPORTS_MS: Final = 60_000
"""A recorder writes each second; a report that waits longer waits for it, or for the database."""
TOP_ROWS: Final = 8

_ROLES: Final = (
    ("worker", "No worker runs: prompts wait and nobody answers.", "turnfleet worker"),
    ("gateway", "No gateway runs: prompts are not heard, replies not shown.", "turnfleet gateway"),
    (
        "recorder",
        "No recorder runs: failures wait in Redis and are counted later.",
        "turnfleet recorder",
    ),
)
"""What each role's absence means, and what starts it."""


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    """Something that somebody should look at now, with where to look, or what to run."""

    what: str
    link: str = ""
    command: str = ""


async def now(request: Request) -> Response:
    """How the fleet is, on one page."""
    return page(request, "now.html", await now_facts(desk_of(request)))


async def now_facts(desk: Desk) -> dict[str, Any]:
    """What the first page shows: first of all what is wrong."""
    moment = datetime.now(UTC)
    hour_ago = moment - timedelta(hours=1)
    trouble: list[str] = []
    database = desk.database
    found = await otherwise(spikes(database, now=moment, window=WINDOW, factor=FACTOR), [], trouble)
    wanted = ErrorFilter(since=hour_ago, limit=TOP_ROWS)
    top = await otherwise(top_causes(database, wanted, with_expected=True), [], trouble)
    hours = await otherwise(hourly(database, [c.group_hash for c in top], moment), {}, trouble)
    by_model = await otherwise(rates(database, RateBy.MODEL, since=hour_ago), [], trouble)
    failed = await desk.replays.failed(FailedFilter(), 10)
    processes = await desk.records.processes()
    partitions, reports = await desk.backlog.delivery(), await desk.backlog.reports()
    buried, still = await desk.backlog.buried(), await desk.backlog.standstill()
    rows = alarms(processes, partitions, reports, buried, found, trouble)
    return {
        "alarms": [*rows, *standing(still)],
        "load": await desk.records.load(),
        "processes": processes,
        "waiting": {
            "segments": sum(one.entries for one in partitions),
            "delivery_ms": max((one.oldest_ms for one in partitions), default=0),
            "reports": reports.entries,
            "start_ms": still.oldest_ms,
        },
        "causes": [
            msgspec.structs.asdict(one) | {"hours": hours.get(one.group_hash, [])} for one in top
        ],
        "running": [turn_row(record) for record in (await desk.records.running())[:ROWS]],
        "failed": [turn_row(record) for record in reversed(failed)],
        "spikes": found,
        "rates": [msgspec.structs.asdict(one) | {"per_1000": one.per_1000} for one in by_model],
        "trouble": trouble[:1],
    }


def alarms(
    processes: Sequence[ProcessRecord],
    partitions: Sequence[Partition],
    reports: Waiting,
    buried: int,
    found: Sequence[Spike],
    trouble: Sequence[str],
) -> list[Alarm]:
    """What is wrong now, the worst first."""
    roles = {one.role for one in processes}
    rows = [Alarm(what=what, command=run) for role, what, run in _ROLES if role not in roles]
    rows += [
        Alarm(what=f"{one.role}: {what}", link="/workers")
        for one in processes
        for what in (one.trouble, one.config_error)
        if what
    ]
    rows += [Alarm(what=one, command="turnfleet doctor") for one in trouble[:1]]
    late_ms = max((one.oldest_ms for one in partitions), default=0)
    if late_ms > SLOW_DELIVERY_MS:
        what = f"A finished part of a reply has waited for {late_ms // 1000} s to be shown."
        rows.append(Alarm(what=what, link="/workers"))
    if reports.oldest_ms > SLOW_REPORTS_MS and "recorder" in roles:
        what = f"{reports.entries} reports wait, the oldest for {reports.oldest_ms // 1000} s."
        rows.append(Alarm(what=what, link="/workers"))
    for one in found:
        what = f"{one.error_type}: {one.errors} in 10 minutes, usually {_usual(one.usual)}."
        rows.append(Alarm(what=what, link=f"/causes/{quote(one.group_hash)}"))
    if buried:
        what = f"{buried} entries could not be read and were put aside."
        rows.append(Alarm(what=what, command="turnfleet errors buried"))
    return rows


def standing(still: Standstill) -> list[Alarm]:
    """What does not start: prompts that nobody takes, and what somebody has paused."""
    rows = []
    if still.oldest_ms > SLOW_START_MS:
        what = f"A prompt has waited for {still.oldest_ms // 1000} s, and no worker takes it."
        rows.append(Alarm(what=what, command="turnfleet fleet status"))
    for name, left_ms in still.pauses.items():
        length = "until somebody ends it" if left_ms is None else f"for {span(left_ms // 1000)}"
        what = f"{name} is paused {length}: its turns wait."
        rows.append(Alarm(what=what, command=f"turnfleet fleet resume {quoted(name)}"))
    return rows


def _usual(count: float) -> str:
    return f"{count:.1f}" if count >= 0.1 else "none"


async def workers(request: Request) -> Response:
    """The processes of the fleet, and what waits between them."""
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
    facts = {
        "processes": rows,
        "partitions": await desk.backlog.delivery(),
        "reports": await desk.backlog.reports(),
        "buried": await desk.backlog.buried(),
    }
    return page(request, "workers.html", facts)


async def find(request: Request) -> Response:
    """From a turn, an error, a guild, a cause, or words of a message to its page."""
    return RedirectResponse(await _place(desk_of(request), request.query_params.get("q", "")), 303)


async def _place(desk: Desk, typed: str) -> str:
    text = typed.strip()
    if not text:
        return "/"
    if await desk.records.state(text) is not None:
        return f"/turns/{quote(text)}"
    if text in set(Cause):
        return f"/causes?{urlencode({'all': 1, 'cause': text})}"
    if (number := number_in(text)) is not None:
        return f"/turns?{urlencode({'since': '3d', await _kind_of(desk, number): text})}"
    try:
        error = await find_error(desk.database, text)
        if len(error) == 1:
            return f"/errors/{quote(error[0].id)}"
        wanted = ErrorFilter(cause=text, limit=2)
        cause = await top_causes(desk.database, wanted, with_expected=True) if len(text) > 7 else []
        if len(cause) == 1:
            return f"/causes/{quote(cause[0].group_hash)}"
        wanted = ErrorFilter(text=text, since=datetime.now(UTC) - timedelta(days=7), limit=1)
        if await top_causes(desk.database, wanted):
            return f"/errors?{urlencode({'since': '7d', 'text': text})}"
    except StoreError:
        pass  # without the database there are still the turns
    return f"/turns?{urlencode({'since': '3d', 'text': text})}"


async def _kind_of(desk: Desk, number: int) -> str:
    """Whose number it is, as failed turns know it; a guild's where none does."""
    wanted = {
        "guild": FailedFilter(guild_id=number),
        "channel": FailedFilter(channel_id=number),
        "user": FailedFilter(user_id=number),
    }
    for name, one in wanted.items():
        if await desk.replays.failed(one, 1):
            return name
    return "guild"

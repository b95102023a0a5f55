"""The pages about failures: causes, one cause, errors, one error.

Comes in: addresses; every filter is in them. Goes out: pages, each with a `.json` twin.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ops.console.asking import ROWS, errors_wanted, otherwise, since_of
from ops.console.desk import Desk, desk_of
from ops.console.render import page
from ops.console.turns import turn_row
from ops.replay.evidence import Evidence, evidence
from ops.replay.turns import Candidate, Change, FailedFilter
from ops.triage.attempts import turns_of
from ops.triage.causes import Bar, cause_of, facets, hourly, top_causes
from ops.triage.errors import CauseRecord, ErrorFilter, error_detail, find_error, list_errors
from ops.triage.repairs import Common, steps_for
from shared.edges.sentry import event_id
from shared.lifetimes import FAILED_TTL_MS

KEPT: Final = timedelta(milliseconds=FAILED_TTL_MS)
REPLAYABLE_ROWS: Final = 50
"""Failed turns of a cause that a dry run looks at: the page must be quick."""


async def causes(request: Request) -> Response:
    """The causes of a time, the most frequent first; with `all`, the expected ones too."""
    desk, wanted, trouble = desk_of(request), errors_wanted(request), list[str]()
    with_expected = bool(request.query_params.get("all"))
    if with_expected and (wanted.text or wanted.worker_id):
        with_expected = False
        trouble.append("Expected failures keep neither text nor worker: these need somebody.")
    asked = top_causes(desk.database, wanted, with_expected=with_expected)
    found = await otherwise(asked, [], trouble)
    names = [one.group_hash for one in found]
    hours = await otherwise(hourly(desk.database, names, datetime.now(UTC)), {}, trouble)
    rows = [msgspec.structs.asdict(one) | {"hours": hours.get(one.group_hash, [])} for one in found]
    facts = {"causes": rows, "with_expected": with_expected, "trouble": trouble[:1]}
    return page(request, "causes.html", facts)


async def cause(request: Request) -> Response:
    """One cause: what mends it, whom it strikes, its errors, its failed turns."""
    desk, name = desk_of(request), request.path_params["name"]
    found = await cause_of(desk.database, name)
    if found is None:
        raise HTTPException(404, f"There is no cause {name}.")
    return page(request, "cause.html", await cause_facts(desk, found, since_of(request)))


async def cause_facts(desk: Desk, found: CauseRecord, since: datetime) -> dict[str, Any]:
    """What the page of a cause shows."""
    name, moment = found.group_hash, datetime.now(UTC)
    where = await facets(desk.database, name, since)
    errors = await list_errors(desk.database, ErrorFilter(since=since, cause=name, limit=20))
    seen = await examined(desk, found, Change())
    replayable = [one.turn_id for one in seen if one.reason is None]
    common = Common(
        group_hash=name,
        provider=_only(where["provider"]),
        model=_only(where["model"]),
        key_id=_only(where["key_id"]),
        guild_id=int(_only(where["guild_id"]) or 0) or None,
    )
    turn_id = next((one.turn_id for one in reversed(seen)), None)
    return {
        "cause": found,
        "hours": (await hourly(desk.database, [name], moment))[name],
        "facets": where,
        "steps": steps_for(found.error_type, common, turn_id),
        "errors": errors,
        "turns": [turn_row(one.record) for one in reversed(seen) if one.record][:10],
        "replay": _counted(seen),
        "replayable": replayable,
    }


async def examined(desk: Desk, found: CauseRecord, change: Change) -> list[Candidate]:
    """The failed turns of a cause, the oldest first, and whether they can be replayed."""
    moment = datetime.now(UTC)
    group = await turns_of(desk.database, found.group_hash, moment - KEPT)
    wanted = FailedFilter(among=group)
    records = await desk.replays.failed(wanted, REPLAYABLE_ROWS)
    known = await evidence(desk.database, records, moment) if records else Evidence()
    return [await desk.replays.examine(one.turn_id, change, known) for one in records]


async def errors(request: Request) -> Response:
    """Errors that need somebody, by any filter."""
    trouble: list[str] = []
    asked = list_errors(desk_of(request).database, errors_wanted(request))
    found = await otherwise(asked, [], trouble)
    facts = {"errors": found, "is_cut": len(found) == ROWS, "trouble": trouble[:1]}
    return page(request, "errors.html", facts)


async def error(request: Request) -> Response:
    """One error with everything that is kept of it."""
    desk, name = desk_of(request), request.path_params["name"]
    found = await find_error(desk.database, name)
    if len(found) != 1:
        raise HTTPException(404, f"There is no error {name}, or there are several.")
    detail = await error_detail(desk.database, found[0])
    one = detail.error
    common = Common(
        group_hash=one.group_hash,
        provider=one.provider,
        model=one.model,
        key_id=one.key_id,
        guild_id=one.guild_id,
    )
    sentry = None
    if desk.sentry_url is not None:
        sentry = f"{desk.sentry_url}/issues/?query={event_id(one.id)}"
    facts = {
        "error": one,
        "cause": detail.cause,
        "turn": detail.turn,
        "steps": steps_for(one.error_type, common, one.turn_id),
        "sentry": sentry,
    }
    return page(request, "error.html", facts)


def _only(bars: Sequence[Bar]) -> str | None:
    """The value that all have in common."""
    return bars[0].value if len(bars) == 1 and bars[0].value != "none" else None


def _counted(seen: Sequence[Candidate]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in seen:
        word = one.reason.value if one.reason else "can be replayed"
        counts[word] = counts.get(word, 0) + 1
    return counts

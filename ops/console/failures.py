"""The pages about failures: causes, one cause, errors, one error.

Comes in: addresses; every filter is in them. Goes out: pages, each with a `.json` twin.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ops.console.asking import ROWS, errors_wanted, otherwise, since_of
from ops.console.desk import Desk, desk_of
from ops.console.render import page
from ops.console.turns import turn_row
from ops.replay.evidence import evidence
from ops.replay.groups import narrowed
from ops.replay.turns import Candidate, Change, FailedFilter, Reason
from ops.triage.causes import (
    FACET_ROWS,
    Bar,
    TopBy,
    cause_of,
    facets,
    hourly,
    top_causes,
    top_values,
)
from ops.triage.errors import CauseRecord, ErrorFilter, error_detail, find_error, list_errors
from ops.triage.repairs import Common, steps_for
from shared.edges.sentry import event_id

REPLAYABLE_ROWS: Final = 50
"""Failed turns of a cause that a dry run looks at: the page must be quick."""
LOOKED_AT: Final = 1_000
"""As many at most before some are replayed, where the others cannot be: a few seconds."""
SHOWN_TURNS: Final = 10
NARROWED_BY: Final = (TopBy.PROVIDER, TopBy.MODEL, TopBy.GUILD, TopBy.KEY)
"""What the page of all causes tells apart: each is a filter of it by the same name."""


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
    facts = {"causes": rows, "with_expected": with_expected}
    facts["where"] = await _where(request, wanted, trouble, with_expected=with_expected)
    return page(request, "causes.html", facts | {"trouble": trouble[:1]})


async def _where(
    request: Request, wanted: ErrorFilter, trouble: list[str], *, with_expected: bool
) -> dict[str, list[dict[str, object]]]:
    """Where the failures of a page strike, each value with the address that narrows to it."""
    database, asked = desk_of(request).database, dict(request.query_params)
    few = msgspec.structs.replace(wanted, limit=FACET_ROWS)
    found = {}
    for by in NARROWED_BY:
        question = top_values(database, few, by, with_expected=with_expected)
        values = await otherwise(question, [], trouble)
        found[by.value] = [
            {
                "value": one.value,
                "errors": one.errors,
                "query": urlencode(asked | {by.value: one.value}) if one.value else "",
            }
            for one in values
        ]
    return found


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
    group = await group_of(desk, found)
    owed = await examined(desk, group, Change())
    latest = (await desk.replays.failed(group, SHOWN_TURNS))[::-1]
    common = Common(
        group_hash=name,
        provider=_only(where["provider"]),
        model=_only(where["model"]),
        key_id=_only(where["key_id"]),
        guild_id=int(_only(where["guild_id"]) or 0) or None,
    )
    turn_id = next((one.turn_id for one in latest), None)
    return {
        "cause": found,
        "hours": (await hourly(desk.database, [name], moment))[name],
        "facets": where,
        "steps": steps_for(found.error_type, common, turn_id),
        "errors": errors,
        "turns": [turn_row(one) for one in latest],
        "replay": _counted(owed),
        "replayable": [one.turn_id for one in owed.ready],
    }


class Owed(msgspec.Struct, frozen=True, kw_only=True):
    """The failed turns of a cause: those that were looked at, and how many others there are.

    `seen` are the oldest that were not run again; `more` of these were not looked at; `replayed`
    were run again before.
    """

    seen: list[Candidate]
    more: int
    replayed: int

    @property
    def ready(self) -> list[Candidate]:
        """Those that can be replayed."""
        return [one for one in self.seen if one.reason is None]


async def group_of(desk: Desk, found: CauseRecord) -> FailedFilter:
    """The failed turns of a cause, as a filter."""
    return await narrowed(desk.database, FailedFilter(cause=found.group_hash))


async def examined(desk: Desk, group: FailedFilter, change: Change, *, enough: int = 0) -> Owed:
    """Looks at the failed turns of a cause, until `enough` that can be replayed are found."""
    moment = datetime.now(UTC)
    records, replayed = await desk.replays.owed(group)
    seen: list[Candidate] = []
    ready = 0
    for start in range(0, min(len(records), LOOKED_AT), REPLAYABLE_ROWS):
        part = records[start : start + REPLAYABLE_ROWS]
        known = await evidence(desk.database, part, moment)
        looked = [await desk.replays.examine(one.turn_id, change, known) for one in part]
        seen += looked
        ready += sum(one.reason is None for one in looked)
        if ready >= enough:
            break
    return Owed(seen=seen, more=len(records) - len(seen), replayed=replayed)


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


def _counted(owed: Owed) -> dict[str, int]:
    """How many turns there are of each kind, for a person."""
    counts: dict[str, int] = {}
    for one in owed.seen:
        word = one.reason.value if one.reason else "can be replayed"
        counts[word] = counts.get(word, 0) + 1
    more = {"younger ones": owed.more, Reason.REPLAYED.value: owed.replayed}
    return counts | {word: count for word, count in more.items() if count}

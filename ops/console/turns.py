"""The pages about turns: those that failed, and one with its whole story.

Comes in: addresses. Goes out: pages, each with a `.json` twin.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ops.console.asking import ROWS, otherwise, turns_wanted
from ops.console.desk import desk_of
from ops.console.drawing import timeline
from ops.console.render import page
from ops.replay.evidence import Evidence, evidence
from ops.replay.groups import narrowed
from ops.replay.turns import Change
from ops.triage.attempts import attempts_of
from ops.triage.errors import ErrorFilter, list_errors
from ops.triage.repairs import Common, steps_for
from shared.edges.records import TurnRecord
from shared.edges.stories import story
from shared.segments import TurnFailed
from shared.turns import next_generation

KEPT: Final = timedelta(days=30)
"""How long errors of a turn are kept: its page may be looked at as long."""


async def turns(request: Request) -> Response:
    """Failed turns, expected failures too."""
    desk = desk_of(request)
    wanted = await narrowed(desk.database, turns_wanted(request))
    found = await desk.replays.failed(wanted, ROWS)
    rows = [turn_row(record) for record in reversed(found)]
    return page(
        request,
        "turns.html",
        {"turns": rows, "is_cut": len(rows) == ROWS, "unread": desk.records.unread},
    )


async def turn(request: Request) -> Response:
    """One turn: its timeline, its attempts, what was said, its replays."""
    desk, turn_id = desk_of(request), request.path_params["turn_id"]
    record = await desk.records.turn(turn_id)
    if record is None:
        raise HTTPException(404, f"Nothing is known of turn {turn_id} (any more).")
    trouble: list[str] = []
    moment = datetime.now(UTC)
    wanted = ErrorFilter(since=moment - KEPT, turn_id=turn_id, limit=ROWS)
    marks = story(record, await desk.records.timeline(turn_id))
    known = await otherwise(evidence(desk.database, [record], moment), Evidence(), trouble)
    candidate = await desk.replays.examine(turn_id, Change())
    doubt = await desk.replays.examine(turn_id, Change(), known)
    follower = next_generation(turn_id)
    row = turn_row(record)
    facts = {
        "turn": row | {"outcome": record.outcome, "event": record.event},
        "marks": marks,
        "attempts": await otherwise(attempts_of(desk.database, turn_id), [], trouble),
        "errors": (await otherwise(list_errors(desk.database, wanted), [], trouble))[::-1],
        "said": await desk.replays.said(record),
        "reason": candidate.reason,
        "why": candidate.why,
        "doubt": doubt.why if candidate.reason is None else "",
        "steps": steps_for(row["cause"], _common(record), turn_id) if row["cause"] else [],
        "replayed_as": follower if await desk.records.state(follower) else None,
        "trouble": trouble[:1],
    }
    is_json = request.url.path.endswith(".json")
    return page(request, "turn.html", facts if is_json else facts | {"drawing": timeline(marks)})


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


def _common(record: TurnRecord) -> Common:
    return Common(
        group_hash="",
        provider=record.facts.provider,
        model=record.facts.model,
        guild_id=record.route.guild_id,
    )

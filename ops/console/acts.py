"""What the console does: decide about a cause, replay a turn, talk in a local channel, log in.

Comes in: forms of our own pages. Goes out: a redirect to where one sees what came of it. Everything
but logging in is refused where the console only shows.
"""

from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ops.console.access import Access, is_own_form, let_in
from ops.console.desk import Desk, desk_of
from ops.console.failures import examined, group_of
from ops.console.render import page
from ops.replay.turns import Candidate, Change, Reason, admitted
from ops.store.causes import Verdict, decide
from ops.triage.causes import cause_of
from shared.turns import TAKEN, Target

AT_ONCE: Final = 20
PACE_S: Final = 0.2
"""Five a second, as the command does."""
MUTE: timedelta = timedelta(hours=24)
"""What the button mutes for; `turnfleet errors mute --for` has any span."""
_VERDICTS = ("open", "muted", "resolved")


async def judge(request: Request) -> Response:
    """Mutes, resolves or reopens a cause."""
    desk, name = await _allowed(request), request.path_params["name"]
    form = await request.form()
    status = str(form.get("status"))
    if status not in _VERDICTS:
        raise HTTPException(400, "A cause is open, muted or resolved.")
    now = datetime.now(UTC)
    until = now + MUTE if status == "muted" else None
    note = str(form.get("note") or "") or None
    if desk.writable is not None:
        await decide(desk.writable, name, Verdict(status=status, muted_until=until, note=note), now)
    return RedirectResponse(f"/causes/{quote(name)}", 303)


async def replay_cause(request: Request) -> Response:
    """Replays failed turns of a cause, the oldest first, and shows what became of each.

    Some at a time and at a pace: a provider that has just come back is not met by everything at
    once. Pressed again it goes on; nothing is replayed twice.
    """
    desk, name = await _allowed(request), request.path_params["name"]
    form = await request.form()
    found = await cause_of(desk.database, name)
    if found is None:
        raise HTTPException(404, f"There is no cause {name}.")
    change = Change(model=str(form.get("model") or "") or None, anyway=bool(form.get("anyway")))
    owed = await examined(desk, await group_of(desk, found), change, enough=AT_ONCE)
    rows = []
    for number, seen in enumerate(owed.ready[:AT_ONCE]):
        # Discord may have been slow about the files of those before: it is looked at once more.
        candidate, result = await desk.replays.examine(seen.turn_id, change), ""
        if candidate.reason is None:
            # The queue keeps the pace: the page need not wait for it.
            result = await admitted(desk.replays, candidate, wait_s=number * PACE_S)
        rows.append(_outcome(candidate, result or str(candidate.reason)))
    taken = sum(1 for row in rows if row["new_id"])
    rows += [_outcome(one, one.reason.value) for one in owed.seen if one.reason is not None]
    left = max(0, len(owed.ready) - AT_ONCE) + owed.more
    facts = {"cause": found, "results": rows, "taken": taken, "left": left}
    facts |= {"replayed": owed.replayed}
    return page(request, "replayed.html", facts)


def _outcome(candidate: Candidate, result: str) -> dict[str, str]:
    return {
        "turn_id": candidate.turn_id,
        "new_id": candidate.new_id if result in TAKEN else "",
        "result": result,
        "why": candidate.why,
    }


async def replay(request: Request) -> Response:
    """Replays a turn, once, however often the button is pressed."""
    desk, turn_id = await _allowed(request), request.path_params["turn_id"]
    form = await request.form()
    change = Change(model=str(form.get("model") or "") or None)
    candidate = await desk.replays.examine(turn_id, change)
    is_taken = candidate.reason is None and await admitted(desk.replays, candidate) in TAKEN
    if is_taken or candidate.reason is Reason.REPLAYED:
        # Of two clicks the second one may find the replay: it leads there as the first would have.
        return RedirectResponse(f"/turns/{quote(candidate.new_id)}", 303)
    return RedirectResponse(f"/turns/{quote(turn_id)}", 303)


async def say(request: Request) -> Response:
    """Posts a prompt into a local channel."""
    desk, channel_id = await _allowed(request), request.path_params["channel_id"]
    form = await request.form()
    provider, model = str(form.get("provider") or ""), str(form.get("model") or "")
    target = Target(provider=provider, model=model) if provider and model else None
    try:
        await desk.channel.say(channel_id, str(form.get("text") or ""), target=target)
    except ValueError as exc:
        raise HTTPException(400, f"{exc}.") from exc
    return RedirectResponse(f"/channels/{channel_id}", 303)


async def login(request: Request) -> Response:
    """Asks for the token, and lets in whoever has it."""
    access: Access = request.state.access
    if request.method == "GET":
        return page(request, "login.html", {"is_wrong": False})
    form = await request.form()
    if not await is_own_form(request) or not access.is_token(str(form.get("token") or "")):
        return page(request, "login.html", {"is_wrong": True}, 403)
    response = RedirectResponse("/", 303)
    let_in(request, response)
    return response


async def _allowed(request: Request) -> Desk:
    """The desk, where this form may change something."""
    desk = desk_of(request)
    if not desk.may_write:
        raise HTTPException(403, "This console only shows; start it with --write to act.")
    if not await is_own_form(request):
        raise HTTPException(403, "The form is too old or not ours; load the page again.")
    return desk

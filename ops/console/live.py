"""Pages that change while one looks: the first page, and local channels.

Comes in: watchers. Goes out: server-sent events, each the new inside of a part of the page, made by
the same template as the page itself, so that the browser decides nothing.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from ops.console.asking import number_in
from ops.console.desk import Desk, desk_of
from ops.console.pages import now_facts
from ops.console.render import html, page
from ops.console.turns import turn_row
from ops.replay.turns import FailedFilter
from shared.edges.local_channel import local_turn_id
from shared.errors import StoreError

EVERY_S: Final = 2.0
"""How often the first page is drawn again: as often as processes report themselves."""
QUIET_S: Final = 0.25
"""How often a channel is looked at: a reply seems to flow, and Redis hardly notices."""
MAX_WATCHERS: Final = 32
"""Each holds a connection and asks Redis; more people look at a dashboard of their own."""
MESSAGES: Final = 100
CHANNEL_BITS: Final = 53


class Watchers:
    """How many watch now, at most `MAX_WATCHERS`."""

    def __init__(self) -> None:
        self.room = asyncio.Semaphore(MAX_WATCHERS)


async def watch_now(request: Request) -> Response:
    """The first page, again and again."""

    async def draw() -> str:
        return html(request, "now_part.html", await now_facts(desk_of(request)))

    return _events(request, draw, EVERY_S)


async def watch_channel(request: Request) -> Response:
    """A channel, whenever it changes."""

    async def draw() -> str:
        return html(request, "channel_part.html", await _channel_facts(request))

    return _events(request, draw, QUIET_S)


async def channels(request: Request) -> Response:
    """Local channels that have turns, and a new one."""
    desk = desk_of(request)
    records = [*await desk.records.running(), *await desk.replays.failed(FailedFilter(), 50)]
    rows = [turn_row(record) for record in records]
    local = {row["channel_id"]: row for row in rows if row["is_local"]}
    fresh = secrets.randbits(CHANNEL_BITS - 1) | 1 << (CHANNEL_BITS - 1)
    return page(request, "channels.html", {"channels": list(local.values()), "fresh": fresh})


async def channel(request: Request) -> Response:
    """A local channel, where one talks to the bot."""
    return page(request, "channel.html", await _channel_facts(request))


async def open_channel(request: Request) -> Response:
    """From the form with a channel's number to the channel."""
    number = number_in(request.query_params.get("id", ""))
    if number is None:
        raise HTTPException(400, "A channel is a number.")
    return RedirectResponse(f"/channels/{number}", 303)


async def _channel_facts(request: Request) -> dict[str, Any]:
    desk: Desk = desk_of(request)
    channel_id = request.path_params["channel_id"]
    if channel_id >= 2**63:
        raise HTTPException(404, "There is no such channel.")
    messages = (await desk.channel.messages(channel_id))[-MESSAGES:]
    rows = [
        msgspec.to_builtins(one)
        | {"turn_id": None if one.is_bot else local_turn_id(one.id), "is_bot": one.is_bot}
        | {"is_notice": one.is_notice, "edits": one.edits, "files": one.files}
        for one in messages
    ]
    is_typing = await desk.channel.is_typing(channel_id)
    return {"channel_id": channel_id, "messages": rows, "is_typing": is_typing}


def _events(
    request: Request, draw: Callable[[], Coroutine[Any, Any, str]], every_s: float
) -> Response:
    watchers: Watchers = request.app.state.watchers
    if watchers.room.locked():
        raise HTTPException(503, "Too many people watch; reload by hand.")

    async def stream() -> AsyncIterator[str]:
        async with watchers.room:
            last = ""
            while not await request.is_disconnected():
                try:
                    shown = await draw()
                except StoreError:
                    shown = last  # the page keeps what it shows until somebody answers again
                if shown != last:
                    last = shown
                    lines = "".join(f"data: {line}\n" for line in shown.splitlines())
                    yield f"{lines}\n"
                await asyncio.sleep(every_s)

    return StreamingResponse(stream(), media_type="text/event-stream")

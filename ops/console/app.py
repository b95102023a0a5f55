"""The console as a web application: pages of the fleet for operators, rendered on the server.

Comes in: a desk (open connections) and the rules of access. Goes out: an ASGI application. The
command `turnfleet console` serves it.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ops.console import acts, failures, live, pages, turns
from ops.console.access import Access, Gate
from ops.console.desk import Desk
from ops.console.render import page
from shared.errors import StoreError, WireError
from shared.redaction import redact


class _Id(IntegerConvertor):
    """A number of 64 bits at most: of thousands of digits Python makes none."""

    regex = "[0-9]{1,20}"


register_url_convertor("id", _Id())
Handler = Callable[[Request], Awaitable[Response]]
STATIC = Path(__file__).parent / "static"


def console_app(desk: Desk, access: Access) -> Starlette:
    """The console for one fleet."""
    app = Starlette(
        routes=[
            *_with_twin("/", pages.now, twin="/now.json"),
            Route("/now.live", live.watch_now),
            Route("/find", pages.find),
            *_with_twin("/causes", failures.causes),
            Route("/causes/{name:str}/replay", acts.replay_cause, methods=["POST"]),
            *_with_twin("/causes/{name:str}", failures.cause, twin="/causes/{name:str}.json"),
            Route("/causes/{name:str}", acts.judge, methods=["POST"]),
            *_with_twin("/errors", failures.errors),
            *_with_twin("/errors/{name:str}", failures.error, twin="/errors/{name:str}.json"),
            *_with_twin("/turns", turns.turns),
            *_with_twin("/turns/{turn_id:str}", turns.turn, twin="/turns/{turn_id:str}.json"),
            Route("/turns/{turn_id:str}", acts.replay, methods=["POST"]),
            *_with_twin("/workers", pages.workers),
            *_with_twin("/channels", live.channels),
            Route("/channels/open", live.open_channel),
            Route("/channels/{channel_id:id}.live", live.watch_channel),
            *_with_twin(
                "/channels/{channel_id:id}",
                live.channel,
                twin="/channels/{channel_id:id}.json",
            ),
            Route("/channels/{channel_id:id}", acts.say, methods=["POST"]),
            Route("/login", acts.login, methods=["GET", "POST"]),
            Route("/healthz", _healthy),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
        middleware=[Middleware(Gate, access=access)],
        exception_handlers={HTTPException: _refused, StoreError: _away, WireError: _unreadable},
    )
    app.state.desk = desk
    app.state.watchers = live.Watchers()
    return app


def _with_twin(path: str, handler: Handler, twin: str | None = None) -> list[Route]:
    """A page and its JSON twin, which is asked first: a name may contain dots."""
    return [Route(twin or f"{path}.json", handler), Route(path, handler)]


async def _healthy(_request: Request) -> Response:
    return PlainTextResponse("ok")


async def _refused(request: Request, exc: Exception) -> Response:
    status = exc.status_code if isinstance(exc, HTTPException) else 500
    detail = exc.detail if isinstance(exc, HTTPException) else "Something is wrong here."
    return page(request, "refused.html", {"status": status, "why": detail}, status)


async def _away(request: Request, exc: Exception) -> Response:
    return page(request, "refused.html", {"status": 503, "why": redact(str(exc))}, 503)


async def _unreadable(request: Request, exc: Exception) -> Response:
    return page(request, "refused.html", {"status": 501, "why": redact(str(exc))}, 501)

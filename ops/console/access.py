"""Who may look, and that a form was sent from our own page.

Comes in: requests. Goes out: refusals and the headers that every answer has. On loopback whoever
can connect may look; elsewhere a token is asked for. The name in `Host` is checked, so that no
foreign page reaches a console on loopback through a name of its own (DNS rebinding).
"""

import hashlib
import hmac
import secrets
from typing import Final
from urllib.parse import urlsplit

import msgspec
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ops.console.asking import number_in

COOKIE: Final = "turnfleet"
MIN_TOKEN_CHARS: Final = 16
"""A token on a network is guessed by machines."""
MAX_FORM_BYTES: Final = 64 * 1024
OPEN_PATHS: Final = ("/login", "/static/", "/healthz")
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one console. `hosts` are the names that it answers to; empty is any."""

    token: str | None = None
    hosts: frozenset[str] = frozenset()
    secret: bytes = msgspec.field(default_factory=lambda: secrets.token_bytes(32))

    def sign(self, purpose: str, session: str) -> str:
        """A mark that only this process can make for a session."""
        text = f"{purpose}:{session}".encode()
        return hmac.new(self.secret, text, hashlib.sha256).hexdigest()

    def is_token(self, text: str) -> bool:
        """Whether this is the token."""
        return self.token is not None and hmac.compare_digest(self.token.encode(), text.encode())


class Gate:
    """The middleware in front of every page."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets a request in, or answers it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        session = _session_of(connection) or secrets.token_urlsafe(24)
        scope["state"] = scope.get("state", {}) | {"session": session, "access": self._access}

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(k.lower().encode(), v.encode()) for k, v in HEADERS.items()]
                if _session_of(connection) is None:
                    extra.append((b"set-cookie", _cookie(session).encode()))
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        refusal = self._refusal(connection, session)
        await (refusal or self._app)(scope, receive, with_headers)

    def _refusal(self, connection: HTTPConnection, session: str) -> Response | None:
        access, path = self._access, connection.url.path
        name = (urlsplit(f"//{connection.headers.get('host', '')}").hostname or "").lower()
        if access.hosts and name not in access.hosts:
            return PlainTextResponse("This console does not answer to that name.", 421)
        is_form = connection.scope["method"] == "POST"
        length = number_in(connection.headers.get("content-length", "" if is_form else "0"))
        if length is None or length > MAX_FORM_BYTES:
            return PlainTextResponse("Too large.", 413)
        if path.startswith(OPEN_PATHS) or _is_known(access, connection, session):
            return None
        if path.endswith(".json"):
            return PlainTextResponse("Give the token: Authorization: Bearer ...", 401)
        return RedirectResponse("/login", 303)


def is_known(request: Request) -> bool:
    """Whether this visitor may look."""
    access: Access = request.state.access
    return _is_known(access, request, request.state.session)


def csrf_of(request: Request) -> str:
    """The mark that a form of this visitor's pages carries."""
    access: Access = request.state.access
    return access.sign("form", request.state.session)


async def is_own_form(request: Request) -> bool:
    """Whether a form comes from our own page, by the same visitor."""
    form = await request.form()
    return hmac.compare_digest(csrf_of(request).encode(), str(form.get("csrf", "")).encode())


def let_in(request: Request, response: Response) -> None:
    """Remembers that this visitor gave the token."""
    access: Access = request.state.access
    mark = access.sign("known", request.state.session)
    response.headers.append("set-cookie", _cookie(mark, f"{COOKIE}_known"))


def _session_of(connection: HTTPConnection) -> str | None:
    return connection.cookies.get(COOKIE) or None


def _is_known(access: Access, connection: HTTPConnection, session: str) -> bool:
    if access.token is None:
        return True
    kind, _, given = connection.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and access.is_token(given):
        return True
    mark = connection.cookies.get(f"{COOKIE}_known", "")
    return hmac.compare_digest(mark.encode(), access.sign("known", session).encode())


def _cookie(value: str, name: str = COOKIE) -> str:
    return f"{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age=86400"

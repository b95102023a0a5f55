"""The guard before Discord's API: who is refused too often is let in no more.

Comes in: requests and how they were answered. Goes out: the same answers, or Cloudflare's page of
HTML. 10,000 answers 401, 403 and 429 in ten minutes to one address close the door, 429 of the scope
`shared` not counted (developer docs, topics/rate-limits, invalid request limit). `server` owns it.
"""

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

INVALID_LIMIT: Final = 10_000
INVALID_WINDOW_S: Final = 600.0
BAN_S: Final = 3_600.0
"""Discord says "temporarily"; people tell of an hour."""


class Doorman:
    """Refused requests by address.

    Args:
        now_s: seconds since the epoch.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self.limit = INVALID_LIMIT
        self._refused_s: dict[str, deque[float]] = defaultdict(deque)
        self._banned_s: dict[str, float] = {}

    @property
    def guard(self) -> Middleware:
        """The middleware."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            address = request.remote or ""
            if not request.path.startswith("/api"):
                return await handler(request)
            if self.is_banned(address):
                page = "<html><title>Access denied</title>error code: 1015</html>"
                return web.Response(status=429, text=page, content_type="text/html")
            response = await handler(request)
            if is_invalid(response.status, response.headers.get("X-RateLimit-Scope", "")):
                self._note(address)
            return response

        return guard

    def refused(self, address: str = "127.0.0.1") -> int:
        """How many requests of an address were refused lately."""
        times, now_s = self._refused_s[address], self._now_s()
        while times and times[0] <= now_s - INVALID_WINDOW_S:
            times.popleft()
        return len(times)

    def is_banned(self, address: str = "127.0.0.1") -> bool:
        """Whether an address is let in no more."""
        return self._banned_s.get(address, 0.0) > self._now_s()

    def _note(self, address: str) -> None:
        self._refused_s[address].append(self._now_s())
        if self.refused(address) >= self.limit:
            self._banned_s[address] = self._now_s() + BAN_S


def is_invalid(status: int, scope: str) -> bool:
    """Whether Discord counts an answer as an invalid request.

    >>> is_invalid(403, ""), is_invalid(429, "user"), is_invalid(429, "shared")
    (True, True, False)
    """
    return status in (401, 403) or (status == 429 and scope != "shared")

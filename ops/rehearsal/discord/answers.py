"""What the fake Discord answers beside what was asked for: rate limits, and faults that strike.

Comes in: planned faults, payloads. Goes out: HTTP responses. `rest` and `interactions` import it.
"""

import asyncio
import json
from typing import Final

from aiohttp import web

from ops.rehearsal.discord.faults import Fault

CODE: Final = web.ResponseKey("code", int)


class Cut(Exception):
    """The connection is to be cut instead of an answer."""


def json_answer(status: int, payload: object) -> web.Response:
    """An answer without a charset in its type: discord.py compares the type exactly."""
    if payload is None:
        return web.Response(status=204)
    response = web.Response(status=status, body=json.dumps(payload).encode())
    response.headers["Content-Type"] = "application/json"
    response.headers["Via"] = "1.1 google"
    if isinstance(payload, dict) and status >= 400:
        response[CODE] = int(payload.get("code", 0))  # for the call log, not for the client
    return response


def too_many(retry_after_s: float, scope: str) -> web.Response:
    """The answer to a request too many."""
    retry_after_s = round(retry_after_s + 0.0005, 3)  # never less than what the bucket needs
    response = json_answer(
        429,
        {
            "message": "You are being rate limited.",
            "retry_after": retry_after_s,
            "global": scope == "global",
        },
    )
    response.headers["Retry-After"] = str(retry_after_s)
    response.headers["X-RateLimit-Scope"] = scope
    if scope == "global":
        response.headers["X-RateLimit-Global"] = "true"
    return response


async def strike(fault: Fault) -> web.Response | None:
    """Waits as long as a fault does; the answer in its place, if it has one. Raises `Cut`."""
    await asyncio.sleep(fault.delay_s)
    if fault.drop:
        raise Cut
    if fault.is_html:
        return web.Response(
            status=fault.status or 429,
            text="<html>error code: 1015</html>",
            content_type="text/html",
        )
    if fault.retry_after_s is not None:
        return too_many(fault.retry_after_s, fault.scope)
    if fault.status:
        return json_answer(fault.status, {"message": "planned fault", "code": fault.code})
    return None

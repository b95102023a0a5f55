"""What the address of a page asks for, and answers that may fail.

Comes in: query parameters. Goes out: filters; what cannot be read is a 400 that says what to write.
Only `ops.console` imports it.
"""

from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

import regex
from starlette.exceptions import HTTPException
from starlette.requests import Request

from ops.replay.turns import FailedFilter
from ops.triage.errors import ErrorFilter
from shared.errors import StoreError

ROWS: Final = 50
SPAN: Final = "24h"
_DIGITS: Final = 20
"""Of 64 bits, at most: of thousands Python makes no number."""
_SPAN: Final = regex.compile(r"(\d{1,4})([mhdw])")
_UNITS: Final = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}

T = TypeVar("T")


async def otherwise(asked: Awaitable[T], instead: T, trouble: list[str]) -> T:
    """The answer of the database; without one, `instead`, and a sentence for the page."""
    try:
        return await asked
    except StoreError as exc:
        trouble.append(str(exc))
        return instead


def errors_wanted(request: Request) -> ErrorFilter:
    """The errors or causes that the address asks for."""
    values = request.query_params
    return ErrorFilter(
        since=since_of(request),
        guild_id=number(values.get("guild")),
        user_id=number(values.get("user")),
        cause=values.get("cause") or None,
        category=values.get("category") or None,
        provider=values.get("provider") or None,
        model=values.get("model") or None,
        key_id=values.get("key") or None,
        worker_id=values.get("worker") or None,
        text=values.get("text") or None,
        limit=ROWS,
    )


def turns_wanted(request: Request) -> FailedFilter:
    """The failed turns that the address asks for."""
    values = request.query_params
    return FailedFilter(
        since_ms=int(since_of(request).timestamp() * 1000),
        cause=values.get("cause") or None,
        category=values.get("category") or None,
        guild_id=number(values.get("guild")),
        channel_id=number(values.get("channel")),
        user_id=number(values.get("user")),
        provider=values.get("provider") or None,
        model=values.get("model") or None,
        text=values.get("text") or None,
    )


def since_of(request: Request) -> datetime:
    """The beginning of the time that is looked at."""
    text = request.query_params.get("since") or SPAN
    match = _SPAN.fullmatch(text)
    if match is None:
        raise HTTPException(400, "since: write 15m, 24h or 7d.")
    return datetime.now(UTC) - timedelta(seconds=int(match[1]) * _UNITS[match[2]])


def number(text: str | None) -> int | None:
    """An id."""
    if not text:
        return None
    found = number_in(text)
    if not found:
        raise HTTPException(400, "An id is a number.")
    return found


def number_in(text: str) -> int | None:
    """The number of 63 bits that a text is; None where it is none."""
    if not text.isdecimal() or len(text) > _DIGITS or int(text) >= 2**63:
        return None
    return int(text)

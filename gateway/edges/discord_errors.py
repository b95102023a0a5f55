"""Discord's answers as outcomes.

Comes in: exceptions of hikari. Goes out: `Refused` or `Unavailable`. The modules beside it that
make requests import it. Codes: Discord's developer docs, topics/opcodes-and-status-codes, JSON
error codes.
"""

import asyncio
from collections.abc import Awaitable, Callable
from types import MappingProxyType
from typing import Final, TypeVar

import hikari

from gateway.front import Refusal, Refused, Unavailable

CLOUDFLARE_WAIT_S: Final = 600.0
"""What is no JSON comes from Cloudflare: asking on prolongs the ban, ten minutes end most."""
CLOUDFLARE_CODE: Final = 40333
"""A request that Cloudflare did not let through (developer docs, user agent)."""
INVALID_FORM: Final = 50035
BUSY_WAIT_S: Final = 5.0
"""For refusals that mean "too fast" without saying how long."""
MAX_READ_WAIT_S: Final = 30.0
"""A longer rate limit is told also to who asks for nothing that could be old by then."""

T = TypeVar("T")

REFUSALS: Final = MappingProxyType(
    {
        10003: Refusal.CHANNEL,  # unknown channel
        10004: Refusal.CHANNEL,  # unknown guild
        10008: Refusal.GONE,  # unknown message; on a create with a nonce: sent before, then deleted
        30046: Refusal.FROZEN,  # too many edits of a message older than an hour
        40005: Refusal.FILES,  # request entity too large
        40058: Refusal.CHANNEL,  # a forum's root takes no messages
        50001: Refusal.CHANNEL,  # missing access
        50005: Refusal.FROZEN,  # a message of somebody else
        50006: Refusal.CONTENT,  # empty message
        50007: Refusal.PERSON,  # the person takes no direct messages
        50008: Refusal.CHANNEL,  # not a text channel
        50013: Refusal.CHANNEL,  # missing permissions
        50021: Refusal.FROZEN,  # system message
        50027: Refusal.GONE,  # invalid webhook token: the webhook is gone, whatever the bot may do
        50035: Refusal.CONTENT,  # invalid form body
        50045: Refusal.FILES,  # file too large
        50083: Refusal.CHANNEL,  # thread is archived and locked
        50278: Refusal.PERSON,  # no shared guild
        160002: Refusal.REFERENCE,  # no reply without the right to read history
        160005: Refusal.CHANNEL,  # thread is locked
        200000: Refusal.MODERATED,  # AutoMod
        220001: Refusal.CHANNEL,  # a forum's root takes no messages of webhooks
        240000: Refusal.MODERATED,  # harmful link
    }
)
"""What a code means for delivery. Codes that are not here are judged by the HTTP status."""

BUSY: Final = frozenset({20016, 20022, 20028, 20029, 30007, 40003, 40062, 130000})
"""Write limits and overload that come as 4xx: to be asked again."""

_BY_STATUS: Final = MappingProxyType(
    {
        400: Refusal.CONTENT,
        401: Refusal.TOKEN,
        403: Refusal.CHANNEL,
        404: Refusal.GONE,
        413: Refusal.FILES,
    }
)


def outcome_of(error: Exception) -> Refused | Unavailable:
    """The outcome that an exception of a REST call stands for.

    What is not known is `Unavailable`: a nonce makes asking again harmless.
    """
    match error:
        case hikari.RateLimitTooLongError():
            return Unavailable(
                reason="rate_limited", retry_after_s=error.retry_after, status=429, is_limited=True
            )
        case hikari.HTTPResponseError():
            return _of_response(error)
        case TimeoutError():
            return Unavailable(reason="timeout")
        case hikari.ComponentStateConflictError():
            return Unavailable(reason="not_started")
        case _:
            return Unavailable(reason="connection")


async def in_time(call: Callable[[], Awaitable[T]]) -> T:
    """Makes a call, and makes it again when a rate limit lets it: until then nothing has happened.

    Not for steps of delivery, of which somebody else may have taken care meanwhile.
    """
    while True:
        try:
            return await call()
        except hikari.RateLimitTooLongError as exc:
            if exc.retry_after > MAX_READ_WAIT_S:
                raise
            await asyncio.sleep(exc.retry_after)


def _of_response(error: hikari.HTTPResponseError) -> Refused | Unavailable:
    status, code = int(error.status), int(error.code)
    if status == 429 or code == CLOUDFLARE_CODE or _is_foreign(error):
        return Unavailable(reason="cloudflare", retry_after_s=CLOUDFLARE_WAIT_S, status=status)
    if status >= 500:
        return Unavailable(reason="server_error", status=status)
    if code in BUSY:
        return Unavailable(reason="write_limit", retry_after_s=BUSY_WAIT_S, status=status)
    refusal = REFUSALS.get(code) or _BY_STATUS.get(status)
    if code == INVALID_FORM and "message_reference" in (getattr(error, "errors", None) or ()):
        refusal = Refusal.REFERENCE  # a system message, for one, takes no reply
    if refusal is None:
        return Unavailable(reason="unknown_answer", status=status)
    return Refused(refusal=refusal, status=status, code=code)


def _is_foreign(error: hikari.HTTPResponseError) -> bool:
    """Whether a refusal is not Discord's own: it says nothing of the bot, the channel, the text."""
    is_json = "json" in str(error.headers.get("Content-Type", "json"))
    return not is_json and int(error.status) in (400, 401, 403, 404)

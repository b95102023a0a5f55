"""Whose attempt failed: the facts that the report of an attempt carries, and what a channel hears.

Comes in: the turn and its attempt. Goes out: an `AttemptIdentity`, diagnostics, which hold counts
and roles, never what anybody said, and the public `TurnFailed`. Pure.
"""

from collections.abc import Callable
from urllib.parse import urlsplit

from shared import __version__
from shared.causes import Cause, notice_of
from shared.failures import ProviderError
from shared.segments import TurnFailed
from shared.turns import TurnRequest
from worker.failures.diagnostics import empty_reply_diagnostics, request_diagnostics
from worker.failures.reports import AttemptIdentity
from worker.providers.requests import ModelRequest
from worker.turn.attempt import Attempt


def identity_of(
    request: TurnRequest, attempt: Attempt, *, number: int, elapsed_ms: int, worker_id: str
) -> AttemptIdentity:
    """The identity of an attempt, with how far it had come."""
    endpoint, end = attempt.endpoint, attempt.pipeline.end
    return AttemptIdentity(
        turn_id=request.turn_id,
        attempt=number,
        channel_id=request.route.channel_id,
        user_id=request.route.user_id,
        guild_id=request.route.guild_id,
        provider=attempt.target.provider,
        model=attempt.target.model,
        serving_provider=end.serving_provider if end is not None else None,
        endpoint_host=urlsplit(endpoint.base_url).hostname if endpoint is not None else None,
        credential_source=request.credential_source,
        key_id=attempt.key_id,
        worker_id=worker_id,
        worker_version=__version__,
        elapsed_ms=elapsed_ms,
        chunks=attempt.pipeline.events_seen,
        segments_sent=attempt.sent,
    )


def diagnostics_of(
    attempt: Attempt, error: ProviderError, asked: ModelRequest, *, elapsed_ms: int
) -> dict[str, object]:
    """What explains a failure: the shape of the request, and of a reply without text."""
    found = request_diagnostics(
        asked.messages,
        model=attempt.target.model,
        received_chunks=attempt.pipeline.events_seen,
        elapsed_ms=elapsed_ms,
    )
    found["round"] = attempt.rounds
    if error.cause == Cause.EMPTY_STREAM:
        meta = attempt.pipeline.normalizer.meta
        end = attempt.pipeline.end
        found |= empty_reply_diagnostics(
            meta.usage,
            finish_reason=meta.raw_stop_reason,
            reasoning_present=bool((end.metadata or {}).get("reasoning_present")) if end else False,
            output_limit=asked.sampling.max_tokens,
            request_id=meta.response_id,
        )
    return found


def failed_event(
    request: TurnRequest,
    error: ProviderError,
    say: Callable[[str, str], str],
    *,
    count: int,
    report_id: str,
) -> TurnFailed:
    """The end of a turn as the channel hears it: classified sentences, in the person's language."""
    notice = notice_of(error.cause, request.credential_source)
    locale = request.route.locale
    return TurnFailed(
        cause=error.cause,
        category=error.category,
        count=count,
        headline=say(notice.headline, locale),
        tips=tuple(say(tip, locale) for tip in notice.tips),
        fault=notice.footer,
        report_id=report_id,
        retryable=error.retryable,
        credential_source=request.credential_source,
    )

"""Whose attempt failed: the facts that the report of an attempt carries.

Comes in: the turn and its attempt. Goes out: an `AttemptIdentity`. Pure.
"""

from urllib.parse import urlsplit

from shared import __version__
from shared.turns import TurnRequest
from worker.failures.reports import AttemptIdentity
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
        worker_id=worker_id,
        worker_version=__version__,
        elapsed_ms=elapsed_ms,
        chunks=attempt.pipeline.events_seen,
        segments_sent=attempt.sent,
    )

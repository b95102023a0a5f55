"""The report of a failed attempt: what an operator needs to find, group and replay it.

Comes in: the attempt and its error. Goes out: an `ErrorReport`; redaction is the reporter's. Pure.
"""

from urllib.parse import urlsplit

from shared import __version__
from shared.causes import fault_of, needs_operator
from shared.failures import ErrorReport, ProviderError, ReportCategory, Severity
from shared.turns import TurnRequest
from worker.turn.attempt import Attempt


def report_of_attempt(
    *,
    request: TurnRequest,
    attempt: Attempt,
    number: int,
    error: ProviderError,
    report_id: str,
    now_ms: int,
    elapsed_ms: int,
    worker_id: str,
) -> ErrorReport:
    """The one report of a failed attempt, the same whether its notice is shown or not."""
    source = request.credential_source
    is_row = needs_operator(error.cause, source)
    endpoint = attempt.endpoint
    end = attempt.pipeline.end
    return ErrorReport(
        id=report_id,
        created_ms=now_ms,
        severity=Severity.ERROR if is_row else Severity.WARNING,
        category=ReportCategory(error.category),
        error_type=error.cause,
        stage="stream" if attempt.first_byte_s is not None else "request",
        fault=fault_of(error.cause, source),
        message=error.message,
        http_status=error.status,
        provider_code=error.code,
        retryable=error.retryable,
        turn_id=request.turn_id,
        attempt=number,
        guild_id=request.route.guild_id,
        channel_id=request.route.channel_id,
        user_id=request.route.user_id,
        provider=attempt.target.provider,
        model=attempt.target.model,
        serving_provider=error.serving_provider or (end.serving_provider if end else None),
        endpoint_host=urlsplit(endpoint.base_url).hostname if endpoint is not None else None,
        credential_source=source,
        worker_id=worker_id,
        worker_version=__version__,
        elapsed_ms=elapsed_ms,
        chunks=attempt.pipeline.events_seen,
        segments_sent=attempt.sent,
    )

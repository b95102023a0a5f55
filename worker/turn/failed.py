"""A failed attempt: its one report for the operators, and what a channel hears of it.

Comes in: the turn, its attempt and the classified failure. Goes out: an `ErrorReport`, which is
with the reporter then, and the public `TurnFailed`. Diagnostics hold counts and roles, never what
anybody said. It waits for the reporter only, which never raises.
"""

from collections.abc import Callable
from urllib.parse import urlsplit

from shared import __version__
from shared.causes import Cause, notice_of
from shared.failures import ErrorReport, ProviderError
from shared.segments import TurnFailed
from shared.turns import TurnRequest
from worker.failures.diagnostics import empty_reply_diagnostics, request_diagnostics
from worker.failures.reports import AttemptIdentity, report_of
from worker.providers.requests import ModelRequest
from worker.turn.attempt import Attempt
from worker.turn.outcomes import milliseconds
from worker.turn.ports import Clock, ReporterPort


class AttemptReports:
    """Reports the failed attempts of one turn.

    Args:
        request: the turn.
        reporter: where reports go.
        clock: the time.
        worker_id: who reports.
        new_report_id: ids of reports.
    """

    __slots__ = ("_clock", "_new_report_id", "_reporter", "_request", "_worker_id")

    def __init__(
        self,
        request: TurnRequest,
        *,
        reporter: ReporterPort,
        clock: Clock,
        worker_id: str,
        new_report_id: Callable[[], str],
    ) -> None:
        self._request = request
        self._reporter = reporter
        self._clock = clock
        self._worker_id = worker_id
        self._new_report_id = new_report_id

    async def report(
        self,
        attempt: Attempt,
        error: ProviderError,
        asked: ModelRequest,
        *,
        number: int,
        shown: bool,
    ) -> ErrorReport:
        """Reports a failure, before anybody hears of it in a channel.

        Args:
            attempt: that failed.
            error: with what.
            asked: the question that it had.
            number: the attempt's number.
            shown: whether a notice is shown for it.
        """
        elapsed_ms = milliseconds(self._clock.monotonic_s() - attempt.started_s)
        report = report_of(
            error,
            _identity_of(
                self._request,
                attempt,
                number=number,
                elapsed_ms=elapsed_ms,
                worker_id=self._worker_id,
            ),
            report_id=self._new_report_id(),
            created_ms=self._clock.epoch_ms(),
            stage="request" if attempt.first_byte_s is None else "stream",
            shown=shown,
            metadata=_diagnostics_of(attempt, error, asked, elapsed_ms=elapsed_ms),
            secrets=attempt.secrets,
        )
        await self._reporter.report(report, attempt.secrets)
        return report


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


def _identity_of(
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


def _diagnostics_of(
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

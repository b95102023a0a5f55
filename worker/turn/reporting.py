"""The one report of each failed attempt, on its way to the operators.

Comes in: an attempt and its classified failure. Goes out: an `ErrorReport`, which is with the
reporter then. It waits for the reporter only, which never raises.
"""

from collections.abc import Callable

from shared.failures import ErrorReport, ProviderError
from shared.turns import TurnRequest
from worker.failures.reports import report_of
from worker.providers.requests import ModelRequest
from worker.turn.attempt import Attempt
from worker.turn.outcomes import milliseconds
from worker.turn.ports import Clock, ReporterPort
from worker.turn.reports import diagnostics_of, identity_of


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
            identity_of(
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
            metadata=diagnostics_of(attempt, error, asked, elapsed_ms=elapsed_ms),
            secrets=attempt.secrets,
        )
        await self._reporter.report(report, attempt.secrets)
        return report

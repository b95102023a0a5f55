"""What goes wrong around a turn, outside of the turn's own code, as reports.

Comes in: facts. Goes out: `ErrorReport`. `FleetWorker` uses it.
"""

import msgspec

from shared import __version__
from shared.causes import Cause
from shared.edges.records import TurnRecord
from shared.failures import ErrorReport, Fault, ReportCategory, Severity

_CATEGORIES = {Cause.REQUEST_TIMEOUT: ReportCategory.QUEUE}
"""A turn that waited too long is the queue's failure; nobody asked a provider."""


class Mishap(msgspec.Struct, frozen=True, kw_only=True):
    """A job that ended without its terminal event, a worker that died, a turn nobody took.

    `cause` is `internal_error`, `worker_lost`, or `request_timeout` for a turn that no worker took
    in time. `reason` is for the log and the record, never for
    a channel. `became` is what the turn is now.
    """

    cause: Cause
    turn_id: str
    reason: str
    became: str


def report_of(
    mishap: Mishap, record: TurnRecord | None, *, report_id: str, now_ms: int, worker_id: str
) -> ErrorReport:
    """The report of a mishap, with what Redis still knows of the turn."""
    report = ErrorReport(
        id=report_id,
        created_ms=now_ms,
        severity=Severity.ERROR,
        category=_CATEGORIES.get(mishap.cause, ReportCategory.INTERNAL),
        error_type=mishap.cause,
        stage="fleet",
        fault=Fault.TURNFLEET,
        message=mishap.reason,
        retryable=mishap.cause is not Cause.INTERNAL_ERROR,
        turn_id=mishap.turn_id,
        worker_id=worker_id,
        worker_version=__version__,
        metadata={"became": mishap.became},
    )
    if record is None:
        return report
    return msgspec.structs.replace(
        report,
        attempt=record.attempt,
        guild_id=record.route.guild_id,
        channel_id=record.route.channel_id,
        user_id=record.route.user_id,
        provider=record.facts.provider,
        model=record.facts.model,
        credential_source=record.facts.credential_source,
        segments_sent=record.seq,
        metadata={**report.metadata, "crashes": record.crashes, "held_by": record.worker_id},
    )

"""Failures of delivery as reports that an operator can query.

Comes in: what was being delivered, and what became of it. Goes out: an `ErrorReport`. Nothing that
a person or a model wrote is in it.
"""

from shared.failures import ErrorReport, Fault, ReportCategory, Severity
from shared.segments import Envelope

STAGE = "delivery"


def delivery_failure(
    cause: str,
    envelope: Envelope,
    *,
    report_id: str,
    now_s: float,
    message: str,
    status: int = 0,
    code: int = 0,
    fault: Fault = Fault.DISCORD,
) -> ErrorReport:
    """A report about one envelope.

    Args:
        cause: one of the words below; it is what operators group by.
            `channel_refused` (no access), `content_refused`, `delivery_expired`, `delivery_gap`
            (segments are missing between worker and gateway), `delivery_crashed` (our bug).
        envelope: what could not be shown.
        report_id: a fresh id.
        now_s: the time.
        message: one sentence of ours.
        status: the front's HTTP status, 0 for none.
        code: the front's own code, 0 for none.
        fault: whose fault it is.
    """
    return ErrorReport(
        id=report_id,
        created_ms=int(now_s * 1000),
        severity=Severity.ERROR,
        category=ReportCategory.DELIVERY,
        error_type=cause,
        stage=STAGE,
        fault=fault,
        message=message,
        http_status=status or None,
        provider_code=str(code) if code else None,
        turn_id=envelope.turn_id,
        attempt=envelope.attempt,
        guild_id=envelope.route.guild_id,
        channel_id=envelope.route.channel_id,
        user_id=envelope.route.user_id,
        metadata={"seq": envelope.seq, "front": envelope.route.front.value},
    )

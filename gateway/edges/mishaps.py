"""What goes wrong in a gateway beside its deliveries, as reports: it goes on with the rest.

Comes in: an exception, and what could not be done for it. Goes out: an `ErrorReport`. Edges of the
gateway use it.
"""

import re
import time
import traceback
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from gateway.front import FrontEvent, Prompt, PromptEdited
from shared import __version__
from shared.causes import Cause
from shared.edges.reporter import new_report_id
from shared.failures import ErrorReport, Fault, ReportCategory, Severity
from shared.quotes import without_quotes
from shared.redaction import redact

_ID_IN_ADDRESS: Final = re.compile(r"(?<=/)\d{15,20}(?!\w)")

Tell = Callable[[ErrorReport], Awaitable[None]]
"""Takes a report; never raises."""


async def to_nobody(report: ErrorReport) -> None:
    """Where nobody reads reports: the line in the log is what is left."""
    del report


def mishap(
    stage: str,
    error: Exception,
    *,
    category: ReportCategory = ReportCategory.INTERNAL,
    turn_id: str | None = None,
    **facts: object,
) -> ErrorReport:
    """A report of what could not be done.

    Args:
        stage: the part of the gateway.
        error: why.
        category: what kind of failure it is.
        turn_id: whose it was, where it was a turn's.
        facts: words and numbers for the operator.
    """
    return ErrorReport(
        id=new_report_id(),
        created_ms=time.time_ns() // 1_000_000,
        severity=Severity.ERROR,
        category=category,
        error_type=Cause.INTERNAL_ERROR,
        stage=stage,
        fault=Fault.TURNFLEET,
        message=_placeless(f"{type(error).__qualname__}: {error}"),
        stack_trace=_placeless("".join(traceback.format_exception(error))),
        turn_id=turn_id,
        worker_version=__version__,
        metadata=facts,
    )


def _placeless(text: str) -> str:
    """A text without the ids in Discord's addresses: whose they are is told by the report's fields.

    Secrets go first: a webhook's token is known by the id before it.
    """
    return _ID_IN_ADDRESS.sub("ID", redact(text))


def event_mishap(error: Exception, event: FrontEvent) -> ErrorReport:
    """A report of an event of a front that tripped over a bug, without what a person wrote."""
    report = mishap("intake", error, event=type(event).__name__)
    said = [event.text] if isinstance(event, Prompt | PromptEdited) else []
    report = msgspec.structs.replace(
        report,
        message=without_quotes(report.message, said),
        stack_trace=without_quotes(report.stack_trace or "", said),
        channel_id=event.channel_id,
    )
    if not isinstance(event, Prompt):
        return report
    return msgspec.structs.replace(report, guild_id=event.guild_id, user_id=event.user_id)

"""The worker's job: one turn, from its lease to its terminal event.

Comes in: arq's context and a turn id. Goes out: the turn's canonical log line. It never raises but
to be cancelled or fenced; `FleetWorker` ends whatever it leaves open.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from shared import __version__
from shared.causes import Cause
from shared.errors import StoreUnavailable, WireError
from shared.failures import ErrorReport, FailureCategory, Fault, ReportCategory, Severity
from shared.logs import bound, fields
from shared.segments import TurnFailed
from shared.summaries import TurnSummary
from shared.turns import TurnOutcome, TurnRequest, TurnState
from shared.wire import decode_turn_request
from worker.edges.fleet.lease import Lease
from worker.edges.outbox import Outbox
from worker.turn.outcomes import TurnResult
from worker.turn.runner import TurnRunner

log = logging.getLogger(__name__)


async def run_turn(ctx: dict[Any, Any], turn_id: str) -> None:
    """Answers a turn.

    Args:
        ctx: `leases` by turn id, the `runner`, `outbox_of`, which opens a lease's way back, and
            `count`, which takes the summary of the turn for the statistics, where there is one.
        turn_id: the turn; its request lies in the lease.
    """
    lease: Lease = ctx["leases"][turn_id]
    runner: TurnRunner = ctx["runner"]
    outbox: Outbox = ctx["outbox_of"](lease)
    try:
        request = decode_turn_request(lease.request)
    except WireError as exc:
        await _refuse(runner, outbox, lease, exc)
        return
    with bound(
        turn_id=turn_id,
        guild_id=request.route.guild_id,
        provider=request.target.provider,
        model=request.target.model,
    ):
        result = await runner.run(request, outbox, lease.stopped)
        _log_turn(request, result, lease)
        await _count_turn(ctx, request, result.outcome, lease)


async def _refuse(runner: TurnRunner, outbox: Outbox, lease: Lease, exc: WireError) -> None:
    """Ends a turn whose request nobody here can read. Nothing of it is run."""
    report = ErrorReport(
        id=runner.new_report_id(),
        created_ms=runner.clock.epoch_ms(),
        severity=Severity.ERROR,
        category=ReportCategory.DECODE,
        error_type=Cause.INTERNAL_ERROR,
        stage="worker",
        fault=Fault.TURNFLEET,
        message=str(exc),
        turn_id=lease.turn_id,
        attempt=lease.token.attempt,
        worker_id=runner.worker_id,
        metadata={"bytes": len(lease.request)},
    )
    await runner.reporter.report(report)
    event = TurnFailed(
        cause=Cause.INTERNAL_ERROR,
        category=FailureCategory.INTERNAL,
        headline=runner.say(f"failure.{Cause.INTERNAL_ERROR}", "en"),
        fault=f"fault.{Fault.TURNFLEET}",
        report_id=report.id,
    )
    outcome = TurnOutcome(state=TurnState.FAILED, segments=0, cause=Cause.INTERNAL_ERROR)
    await outbox.finish(event, outcome)


async def _count_turn(
    ctx: dict[Any, Any], request: TurnRequest, outcome: TurnOutcome, lease: Lease
) -> None:
    """Sends the numbers of the canonical line to the recorder. The turn is over: nothing waits."""
    count: Callable[[TurnSummary], Awaitable[None]] | None = ctx.get("count")
    if count is None:
        return
    route, claimed = request.route, lease.claimed
    last = outcome.attempts[-1] if outcome.attempts else None
    target = request.target if last is None else last.target
    summary = TurnSummary(
        turn_id=request.turn_id,
        attempt=lease.token.attempt,
        ended_ms=ctx["runner"].clock.epoch_ms(),
        state=outcome.state,
        user_id=route.user_id,
        channel_id=route.channel_id,
        guild_id=route.guild_id,
        provider=target.provider,
        model=target.model,
        key_id=None if last is None else last.key_id,
        serving_provider=outcome.serving_provider,
        credential_source=request.credential_source,
        worker_version=__version__,
        cause=outcome.cause,
        segments=outcome.segments,
        usage=outcome.usage,
        queued_ms=claimed.claimed_ms - claimed.enqueued_ms,
        first_byte_ms=outcome.first_byte_ms,
        first_segment_ms=outcome.first_segment_ms,
        elapsed_ms=outcome.elapsed_ms,
        attempts=outcome.attempts,
    )
    try:
        await count(summary)
    except StoreUnavailable as exc:
        log.warning("turn.uncounted", extra=fields(reason=str(exc)))


def _log_turn(request: TurnRequest, result: TurnResult, lease: Lease) -> None:
    outcome = result.outcome
    log.info(
        "turn.finished",
        extra=fields(
            state=outcome.state,
            cause=outcome.cause,
            attempt=lease.token.attempt,
            segments=outcome.segments,
            rounds=outcome.rounds,
            tool_calls=outcome.tool_calls,
            stop_reason=outcome.stop_reason,
            serving_provider=outcome.serving_provider,
            usage=outcome.usage,
            thought_chars=result.thought_chars,
            queued_ms=lease.claimed.claimed_ms - lease.claimed.enqueued_ms,
            first_byte_ms=outcome.first_byte_ms,
            first_segment_ms=outcome.first_segment_ms,
            elapsed_ms=outcome.elapsed_ms,
            credential_source=request.credential_source,
            channel_id=request.route.channel_id,
            user_id=request.route.user_id,
        ),
    )

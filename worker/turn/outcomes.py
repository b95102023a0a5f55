"""How a turn ended, as the canonical log line, the record and the statistics have it.

Comes in: the last attempt, and the driver's clock. Goes out: a `TurnOutcome`. Pure; the runner
imports it.
"""

from shared.turns import AttemptUsage, TurnOutcome, TurnState
from worker.turn.attempt import Attempt


def outcome_of(
    attempt: Attempt,
    state: TurnState,
    *,
    started_s: float,
    now_s: float,
    tool_calls: int,
    attempts: tuple[AttemptUsage, ...],
) -> TurnOutcome:
    """The outcome of a turn whose last attempt this was.

    Args:
        attempt: the last attempt.
        state: how the turn ended.
        started_s: the driver's clock when the turn was claimed.
        now_s: and now.
        tool_calls: that ran in the whole turn.
        attempts: what each cost.
    """

    def since_start(moment_s: float | None) -> int | None:
        return None if moment_s is None else milliseconds(moment_s - started_s)

    end = attempt.pipeline.end
    return TurnOutcome(
        state=state,
        segments=attempt.sent,
        stop_reason=attempt.pipeline.stop_reason,
        usage=attempt.usage,
        serving_provider=end.serving_provider if end is not None else None,
        details=tuple(attempt.pipeline.buffer.details),
        first_byte_ms=since_start(attempt.first_byte_s),
        first_segment_ms=since_start(attempt.first_segment_s),
        elapsed_ms=milliseconds(now_s - started_s),
        rounds=attempt.rounds,
        tool_calls=tool_calls,
        attempts=attempts,
    )


def milliseconds(seconds: float) -> int:
    """Seconds as whole milliseconds."""
    return round(seconds * 1000)

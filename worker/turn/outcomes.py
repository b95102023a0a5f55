"""How a turn ended, as the canonical log line, the record and the statistics have it.

Comes in: the last attempt, and the driver's clock. Goes out: a `TurnOutcome`, and a `TurnResult`
that has the thoughts beside it. Pure; the runner imports it.
"""

from shared.turns import AttemptUsage, TurnOutcome, TurnState
from worker.turn.attempt import Attempt
from worker.turn.remarks import thought_chars_of, thoughts_of


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


class TurnResult:
    """How a turn ended, as its own process knows it: the outcome, and what the model thought.

    The outcome travels: into the turn's record, statistics, exports. Thoughts are private and stay:
    this is no wire type, nothing encodes it, and no `repr` or log shows more than their size. The
    one way out is `worker.turn.remarks`, into a key of their own, where the guild keeps them.

    Args:
        outcome: what travels.
        attempt: the last attempt, whose thoughts these are.
    """

    __slots__ = ("_attempt", "outcome")

    def __init__(self, outcome: TurnOutcome, attempt: Attempt) -> None:
        self.outcome = outcome
        self._attempt = attempt

    @property
    def thoughts(self) -> str:
        """What the model thought, over all rounds, redacted and bounded; made when it is asked."""
        return thoughts_of(self._attempt)

    @property
    def thought_chars(self) -> int:
        """How much that is, as it came."""
        return thought_chars_of(self._attempt)


def milliseconds(seconds: float) -> int:
    """Seconds as whole milliseconds."""
    return round(seconds * 1000)

"""What is kept of a reply that reached its length, so that it can go on.

Comes in: a turn that ended there, its completed rounds, its last attempt. Goes out: a value that
Redis keeps for a day. The runner imports it.
"""

from collections.abc import Sequence

from shared.continuing import Continuation, dump
from shared.turns import StopReason, TurnRequest
from worker.turn.attempt import Attempt
from worker.turn.ports import OutboxPort
from worker.turn.rounds import Round


async def keep_if_cut_off(
    request: TurnRequest, rounds: Sequence[Round], attempt: Attempt, outbox: OutboxPort
) -> None:
    """Keeps a reply that says something and was cut off; without it there is nothing to go on from.

    Args:
        request: as the front made it.
        rounds: the completed rounds.
        attempt: the last one, whose stream has ended.
        outbox: the turn's way back.
    """
    pipeline = attempt.pipeline
    if pipeline.stop_reason is not StopReason.LENGTH or not pipeline.said.strip():
        return
    kept = Continuation(
        request=request,
        target=attempt.target,
        said=pipeline.said,
        rounds=[message for one in rounds for message in one.messages],
    )
    await outbox.keep_continuation(dump(kept))

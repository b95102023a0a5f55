"""The end of a lease: what is written for a turn whose job is over.

Comes in: a lease after its job. Goes out: a terminal event, a hand-back, or nothing, because the
job wrote its own or somebody else has the turn. `FleetWorker` uses it.
"""

from shared.causes import Cause
from shared.edges.queue import Finished, TurnQueue
from shared.failures import FailureCategory, Fault
from shared.segments import TurnFailed
from worker.edges.fleet.lease import Lease

FAILED = TurnFailed(
    cause=Cause.INTERNAL_ERROR,
    category=FailureCategory.INTERNAL,
    count=-1,
    headline=f"failure.{Cause.INTERNAL_ERROR}",  # a key, which the gateway says
    fault=Fault.TURNFLEET,
)
"""What a channel hears of a job that ended in an unforeseen way; -1 counts what was accepted."""


async def settle(queue: TurnQueue, lease: Lease) -> str | None:
    """Ends a turn or hands it back, once; answers why, when it had to end it.

    Raises:
        StoreUnavailable: nobody answers; call it again.
    """
    if lease.lost.is_set() or lease.is_finished:
        return None
    if lease.is_given_back and lease.error is None:
        await queue.release(lease.token)
        return None
    if await queue.finish(lease.token, FAILED) is not Finished.OK:
        return None
    lease.is_finished = True
    return lease.error or "the job ended in an unknown way"

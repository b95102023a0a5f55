"""Whether a worker is well: what probes are told.

Comes in: a `FleetWorker`. Goes out: problems by name, none where it is well. The composition root
gives them to the health server.

A worker is alive while its loop runs and it hears the queue. An outage of Redis kills no worker:
it waits, and is only not ready. Deaf but connected is the failure that nothing else finds: Redis
answers, slots are free, and yet no look at the queue got through. So is a queue that has lost keys:
turns wait, slots are free, and nothing is claimed.
"""

import time
from typing import Final

from redis.asyncio import Redis

from shared.edges.policy import LEASE_MS
from shared.edges.redis import within
from shared.errors import StoreError
from worker.edges.fleet.stalls import Stalls
from worker.edges.fleet.worker import FleetWorker

MAX_LAG_S: Final = LEASE_MS / 1000
"""A loop that is late by a lease has lost its leases."""
DEAF_S: Final = 30.0
"""Sixty polls. An outage of half this length is over for everybody else by then."""


async def living(
    worker: FleetWorker, redis: Redis, stalls: Stalls | None = None, *, deaf_s: float = DEAF_S
) -> dict[str, str]:
    """What only a restart would mend, or a person."""
    problems = _lag(worker)
    if stalls is not None and stalls.problem is not None:
        problems["stall"] = stalls.problem
    silent_s = time.monotonic() - worker.looked_s
    if silent_s > deaf_s and not worker.is_draining and await _answers(redis) is None:
        problems["queue"] = f"no look at the queue got through for {silent_s:.0f} s"
    return problems


async def readiness(worker: FleetWorker, redis: Redis) -> dict[str, str]:
    """What keeps it from taking turns now."""
    problems = _lag(worker)
    if (reason := await _answers(redis)) is not None:
        problems["redis"] = reason
    if worker.is_draining:
        problems["drain"] = "it takes nothing new and ends"
    elif worker.is_cordoned:
        problems["cordon"] = "an operator lets it take nothing new"
    return problems


def _lag(worker: FleetWorker) -> dict[str, str]:
    if worker.loop_lag_s <= MAX_LAG_S:
        return {}
    return {"loop": f"it was {worker.loop_lag_s:.1f} s late"}


async def _answers(redis: Redis) -> str | None:
    """None while Redis answers, else why not."""
    try:
        await within(redis.ping())
    except StoreError as exc:
        return str(exc)
    return None

"""A `FleetWorker` in the test's own process, with jobs that the test controls."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from redis.asyncio import Redis

from shared.config import Settings
from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords
from shared.segments import TurnDone
from shared.turns import TurnOutcome, TurnState
from worker.edges.fleet.lease import Lease
from worker.edges.fleet.mishaps import Mishap
from worker.edges.fleet.worker import FleetWorker
from worker.edges.outbox import Outbox

DONE = TurnDone(count=0)
OUTCOME = TurnOutcome(state=TurnState.DONE, segments=0)

Job = Callable[[Lease, Outbox], Any]


class Fleet:
    """A worker under test and what it said."""

    def __init__(self, worker: FleetWorker, mishaps: list[Mishap]) -> None:
        self.worker = worker
        self.mishaps = mishaps


Start = Callable[..., AbstractAsyncContextManager[Fleet]]


def starter(queue: TurnQueue, records: TurnRecords, blocking: Redis) -> Start:
    """What starts a worker on these, and drains it at the end."""

    @asynccontextmanager
    async def run(job: Job, *, name: str = "w1", **options: Any) -> AsyncIterator[Fleet]:
        used = options.pop("queue", queue)

        async def run_turn(ctx: dict[str, Any], turn_id: str) -> None:
            lease = ctx["leases"][turn_id]
            await job(lease, Outbox(used, records, lease))

        mishaps: list[Mishap] = []

        async def on_mishap(mishap: Mishap) -> None:
            mishaps.append(mishap)

        settings = Settings(slots=options.pop("slots", 8), drain_s=options.pop("drain_s", 5.0))
        worker = FleetWorker(
            [run_turn],
            queue=used,
            blocking=blocking,
            settings=settings,
            worker_id=name,
            on_mishap=on_mishap,
            **options,
        )
        task = asyncio.create_task(worker.serve(handle_signals=False))
        try:
            yield Fleet(worker, mishaps)
        finally:
            if not worker.is_draining:  # a second call means: in a hurry
                worker.drain()
            await task

    return run


async def finished(records: TurnRecords, turn_id: str) -> TurnState:
    """Waits until a turn has ended, and says how."""
    async with asyncio.timeout(10):
        while True:
            state = await records.state(turn_id)
            if state not in (None, TurnState.QUEUED, TurnState.RUNNING):
                assert state is not None
                return state
            await asyncio.sleep(0.005)


async def answer(lease: Lease, outbox: Outbox) -> None:
    await outbox.finish(DONE, OUTCOME)

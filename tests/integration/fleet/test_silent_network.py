"""Connections that die without a word: open, and nothing comes through any more."""

import asyncio
from typing import Any

import pytest

from shared.config import Settings
from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords
from shared.edges.redis import connect
from shared.keys import Keys
from shared.segments import TurnDone
from shared.turns import TurnOutcome, TurnState
from tests.support.proxy import Proxy
from tests.support.servers import RedisServer
from tests.support.turns import turn
from worker.edges.fleet.worker import FleetWorker

pytestmark = pytest.mark.slow

RECOVERY_S = 10.0
"""Two socket timeouts."""


async def test_a_worker_survives_the_silence_of_all_its_connections(
    server: RedisServer, queue: TurnQueue, records: TurnRecords, keys: Keys
):
    """Its running turn keeps its lease, and the next turn and a stop come through soon."""
    running = asyncio.Event()

    async with Proxy(server.port) as proxy:
        url = f"redis://127.0.0.1:{proxy.port}"
        redis, blocking = connect(url), connect(url, blocking=True)
        own = TurnQueue(redis, keys, Settings(), policy=queue.policy)

        async def run_turn(ctx: dict[str, Any], turn_id: str) -> None:
            lease = ctx["leases"][turn_id]
            running.set()
            if turn_id == "long":
                await lease.stopped.wait()
            event = TurnDone(count=0)
            outcome = TurnOutcome(state=TurnState.DONE, segments=0)
            if await own.finish(lease.token, event, outcome) == "ok":
                lease.is_finished = True

        worker = FleetWorker(
            [run_turn], queue=own, blocking=blocking, settings=Settings(), worker_id="w1"
        )
        serving = asyncio.create_task(worker.serve(handle_signals=False))
        reaping = asyncio.create_task(reap_for_ever(queue))
        try:
            await queue.admit(turn("long", channel=1))
            await running.wait()
            proxy.freeze()
            await queue.admit(turn("next", channel=2))
            async with asyncio.timeout(RECOVERY_S + 1):
                while await records.state("next") is not TurnState.DONE:
                    await asyncio.sleep(0.05)
            record = await records.turn("long")
            assert record is not None
            assert (record.state, record.attempt, record.crashes) == (TurnState.RUNNING, 1, 0)
            await queue.cancel("long")
            async with asyncio.timeout(RECOVERY_S):
                while await records.state("long") is not TurnState.DONE:
                    await asyncio.sleep(0.05)
        finally:
            reaping.cancel()
            worker.drain()
            worker.drain()
            await serving
            await blocking.aclose()
            await redis.aclose()


async def reap_for_ever(queue: TurnQueue) -> None:
    """Another worker, whose connections are good."""
    while True:
        assert [became for _, became in await queue.reap() if became != "queued"] == []
        await asyncio.sleep(0.3)

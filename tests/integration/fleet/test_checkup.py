"""What probes are told of a worker."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from redis.asyncio import Redis

from shared.edges.orders import Order, give_order
from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords
from shared.edges.redis import connect
from shared.keys import Keys
from shared.turns import TurnState
from tests.support.in_process import Start, answer, finished
from tests.support.servers import RedisServer
from tests.support.turns import turn
from worker.edges.fleet.checkup import living, readiness
from worker.edges.fleet.lease import Lease
from worker.edges.outbox import Outbox


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not is_so():
            await asyncio.sleep(0.005)


@pytest.fixture
async def dead_end() -> AsyncIterator[Redis]:
    redis = connect("redis://127.0.0.1:9")
    yield redis
    await redis.aclose(close_connection_pool=True)


async def test_a_worker_is_well(start: Start, client: Redis):
    async with start(answer) as fleet:
        assert await living(fleet.worker, client) == {}
        assert await readiness(fleet.worker, client) == {}


async def test_a_full_worker_is_no_deaf_one(start: Start, queue: TurnQueue, client: Redis):
    gate = asyncio.Event()

    async def wait(lease: Lease, outbox: Outbox) -> None:
        await gate.wait()
        await answer(lease, outbox)

    async with start(wait, slots=1) as fleet:
        fleet.worker.poll_delay_s = 0.01
        await queue.admit(turn("l1"))
        await until(lambda: not fleet.worker.has_free_slot)
        await asyncio.sleep(0.3)
        assert await living(fleet.worker, client, deaf_s=0.25) == {}
        gate.set()


async def test_a_deaf_worker_is_not_alive(
    start: Start, client: Redis, dead_end: Redis, monkeypatch: pytest.MonkeyPatch
):
    async with start(answer) as fleet:
        fleet.worker.looked_s -= 31.0
        async with fleet.worker._claiming:  # nothing gets through meanwhile
            assert list(await living(fleet.worker, client)) == ["queue"]
            # An outage of Redis is no fault of the worker's.
            assert await living(fleet.worker, dead_end) == {}
            assert list(await readiness(fleet.worker, dead_end)) == ["redis"]


async def test_a_full_server_makes_no_worker_deaf(start: Start, client: Redis):
    """It answers, if with a refusal; a restart of the worker would mend nothing."""
    async with start(answer) as fleet:
        await client.config_set("maxmemory", "1")
        try:
            before_s = fleet.worker.looked_s = fleet.worker.looked_s - 100.0
            await until(lambda: fleet.worker.looked_s > before_s + 99.0)
            assert await living(fleet.worker, client) == {}
        finally:
            await client.config_set("maxmemory", "0")


async def test_a_late_loop_is_not_alive(start: Start, client: Redis):
    async with start(answer, beat_s=3600) as fleet:
        fleet.worker.loop_lag_s = 7.0
        assert await living(fleet.worker, client) == {"loop": "it was 7.0 s late"}


async def test_a_cordoned_worker_takes_nothing_until_it_is_told(
    start: Start, queue: TurnQueue, records: TurnRecords, client: Redis, keys: Keys
):
    async with start(answer) as fleet:
        await give_order(client, keys, "w1", Order.CORDON)
        await until(lambda: fleet.worker.is_cordoned)
        assert list(await readiness(fleet.worker, client)) == ["cordon"]
        assert await living(fleet.worker, client) == {}
        await queue.admit(turn("l1"))
        await asyncio.sleep(0.6)  # longer than a poll
        assert await records.state("l1") is TurnState.QUEUED
        await give_order(client, keys, "w1", Order.UNCORDON)
        assert await finished(records, "l1") is TurnState.DONE


async def test_an_ordered_drain_ends_the_worker_and_a_second_one_does_not_hurry_it(
    start: Start, queue: TurnQueue, records: TurnRecords, client: Redis, keys: Keys
):
    begun, gate = asyncio.Event(), asyncio.Event()

    async def wait(lease: Lease, outbox: Outbox) -> None:
        begun.set()
        await gate.wait()
        await answer(lease, outbox)

    async with start(wait) as fleet:
        await queue.admit(turn("l1"))
        await begun.wait()
        await give_order(client, keys, "w1", Order.DRAIN)
        await give_order(client, keys, "w1", Order.DRAIN)
        await until(lambda: fleet.worker.is_draining)
        assert list(await readiness(fleet.worker, client)) == ["drain"]
        await asyncio.sleep(0.05)
        gate.set()
    assert await records.state("l1") is TurnState.DONE


async def test_a_hook_that_is_cancelled_from_inside_ends_no_loop(
    start: Start, server: RedisServer, client: Redis
):
    beats = 0

    async def hook(_: object) -> None:
        nonlocal beats
        beats += 1
        raise asyncio.CancelledError

    async with start(answer, on_beat=hook, beat_s=0.01):
        await until(lambda: beats > 3)

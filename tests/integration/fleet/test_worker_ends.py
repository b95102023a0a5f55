"""How a `FleetWorker` ends, loses turns, and outlasts its server."""

import asyncio

from redis.asyncio import Redis

from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords
from shared.keys import Keys
from shared.turns import TurnState
from tests.support.in_process import Start, answer, finished
from tests.support.servers import RedisServer
from tests.support.turns import out_entries, turn, with_policy
from worker.edges.fleet.lease import Lease
from worker.edges.fleet.worker import FleetWorker
from worker.edges.outbox import Outbox


async def test_a_drain_lets_turns_end(start: Start, queue: TurnQueue, records: TurnRecords):
    begun = asyncio.Event()

    async def slow(lease: Lease, outbox: Outbox) -> None:
        begun.set()
        await asyncio.sleep(0.05)
        await answer(lease, outbox)

    async with start(slow) as fleet:
        await queue.admit(turn("l1"))
        await begun.wait()
        fleet.worker.drain()
        async with fleet.worker._claiming:  # a claim may be under way
            await queue.admit(turn("l2", channel=2))
    assert await records.state("l1") is TurnState.DONE
    assert await records.state("l2") is TurnState.QUEUED


async def test_a_drain_hands_back_what_does_not_end(
    start: Start, queue: TurnQueue, records: TurnRecords
):
    begun = asyncio.Event()

    async def endless(lease: Lease, outbox: Outbox) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with start(endless, drain_s=0.01):
        await queue.admit(turn("l1"))
        await begun.wait()
    record = await records.turn("l1")
    assert record is not None
    assert (record.state, record.attempt, record.crashes) == (TurnState.QUEUED, 1, 0)
    async with start(answer, name="w2"):
        assert await finished(records, "l1") is TurnState.DONE


async def test_a_second_signal_hurries(start: Start, queue: TurnQueue, records: TurnRecords):
    begun = asyncio.Event()

    async def endless(lease: Lease, outbox: Outbox) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(5), start(endless, drain_s=3600) as fleet:
        await queue.admit(turn("l1"))
        await begun.wait()
        fleet.worker.drain()
        fleet.worker.drain()
    assert await records.state("l1") is TurnState.QUEUED


async def test_a_worker_that_lost_its_lease_stops_in_silence(
    start: Start, queue: TurnQueue, records: TurnRecords, client: Redis, keys: Keys
):
    """A stalled worker: its lease ends, it may even claim the same turn again itself."""
    stalled = with_policy(queue, lease_ms=300, reap_gap_ms=3_600_000)
    attempts: list[Lease] = []
    cancelled: list[int] = []

    async def run(lease: Lease, outbox: Outbox) -> None:
        attempts.append(lease)
        if len(attempts) > 1:
            await answer(lease, outbox)
            return
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(lease.token.attempt)
            raise

    # Beats only long after the lease: a blocked loop looks the same to the server.
    async with start(run, queue=stalled, beat_s=3600, reap_s=0.01) as fleet:
        await queue.admit(turn("l1"))
        assert await finished(records, "l1") is TurnState.DONE
    assert cancelled == [1]
    assert [envelope.attempt for envelope in await out_entries(client, keys)] == [2]
    assert [(m.cause, m.became) for m in fleet.mishaps] == [("worker_lost", "queued")]


async def test_turns_wait_for_memory(
    start: Start, queue: TurnQueue, records: TurnRecords, client: Redis
):
    await queue.admit(turn("l1"))
    await client.config_set("maxmemory", "1")
    try:
        async with start(answer):
            await asyncio.sleep(0.1)
            await client.config_set("maxmemory", "0")
            assert await finished(records, "l1") is TurnState.DONE
    finally:
        await client.config_set("maxmemory", "0")
    record = await records.turn("l1")
    assert record is not None
    assert record.attempt == 1


async def test_a_worker_outlasts_its_server(
    start: Start, queue: TurnQueue, records: TurnRecords, server: RedisServer
):
    beats = 0

    async def on_beat(worker: FleetWorker) -> None:
        nonlocal beats
        beats += 1

    async with start(answer, beat_s=0.05, reap_s=0.05, on_beat=on_beat):
        await queue.admit(turn("l1"))
        assert await finished(records, "l1") is TurnState.DONE
        server.kill()
        await asyncio.sleep(0.3)
        server.start()
        before = beats
        await queue.admit(turn("l2"))
        assert await finished(records, "l2") is TurnState.DONE
        async with asyncio.timeout(5):
            while beats == before:
                await asyncio.sleep(0.01)


async def test_a_worker_waits_for_a_server_that_is_not_there_yet(
    start: Start, queue: TurnQueue, records: TurnRecords, server: RedisServer
):
    server.kill()
    async with start(answer):
        await asyncio.sleep(0.1)
        server.start()
        await queue.admit(turn("l1"))
        assert await finished(records, "l1") is TurnState.DONE


async def test_a_turn_without_a_server_ends_when_it_is_back(
    start: Start, queue: TurnQueue, records: TurnRecords, server: RedisServer
):
    async def fail_alone(lease: Lease, outbox: Outbox) -> None:
        server.kill()
        raise ValueError

    async with start(fail_alone, beat_s=0.1) as fleet:
        await queue.admit(turn("l1"))
        async with asyncio.timeout(5):
            while server.process is not None:
                await asyncio.sleep(0.01)
        server.start()
        assert await finished(records, "l1") is TurnState.FAILED
        async with asyncio.timeout(5):
            while not fleet.mishaps:
                await asyncio.sleep(0.01)


async def test_a_beat_tells_a_worker_that_its_turn_is_gone(
    start: Start, queue: TurnQueue, client: Redis, keys: Keys
):
    ended = asyncio.Event()

    async def wait(lease: Lease, outbox: Outbox) -> None:
        try:
            await client.delete(keys.turn("l1"))
            await asyncio.Event().wait()
        finally:
            assert lease.lost.is_set()
            ended.set()

    async with start(wait, beat_s=0.01):
        await queue.admit(turn("l1"))
        async with asyncio.timeout(5):
            await ended.wait()
    assert await out_entries(client, keys) == []

"""A server without memory, and one that forgets its scripts: what was begun is completed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from shared.edges.overview import Overview
from shared.edges.queue import Admission, Appended, Cancelled, Finished, GivenBack, TurnQueue
from shared.edges.records import TurnRecords
from shared.errors import StoreFull
from shared.keys import Keys
from shared.segments import TurnDone
from shared.turns import TurnOutcome, TurnState
from tests.support.in_process import Start, finished
from tests.support.servers import RedisServer
from tests.support.turns import admit_and_claim, lease_ended, out_entries, segment, turn
from worker.edges.fleet.lease import Lease
from worker.edges.outbox import Outbox


@contextlib.asynccontextmanager
async def full(client: Redis) -> AsyncIterator[None]:
    await client.config_set("maxmemory", "1")
    try:
        yield
    finally:
        await client.config_set("maxmemory", "0")


async def test_a_full_server_begins_nothing(queue: TurnQueue, client: Redis):
    token = (await admit_and_claim(queue, "l1")).token
    async with full(client):
        assert await queue.admit(turn("l2", channel=2)) is Admission.FULL
        assert await queue.append(token, 1, segment(token, 1)) is Appended.BACKPRESSURE
        with pytest.raises(StoreFull):
            await queue.claim("w1", 1)
    assert await queue.append(token, 1, segment(token, 1)) is Appended.OK
    assert await queue.admit(turn("l2", channel=2)) is Admission.ACCEPTED


async def test_a_full_server_completes_what_runs(queue: TurnQueue, client: Redis):
    token = (await admit_and_claim(queue, "l1")).token
    await queue.admit(turn("l2", channel=2))
    async with full(client):
        assert await queue.beat([token]) == ([], [])
        following = await queue.next_attempt(token)
        assert following is not None
        assert await queue.note_tool(following)
        assert await queue.cancel("l2") is Cancelled.CANCELLED
        assert await queue.cancel("l1") is Cancelled.STOPPING
        await queue.pause("fleet")
        await queue.resume("fleet")
        assert await queue.finish(following, TurnDone(count=0)) is Finished.OK
        assert await Overview(queue).audit(repair=True) == []


async def test_a_full_server_takes_turns_back(brief_leases: TurnQueue, client: Redis):
    queue = brief_leases
    released = (await admit_and_claim(queue, "l1", channel=1)).token
    await admit_and_claim(queue, "l2", channel=2)
    async with full(client):
        assert await queue.release(released) is GivenBack.QUEUED
        await lease_ended(queue)
        assert await queue.reap() == [("l2", GivenBack.QUEUED)]


async def test_scripts_that_are_forgotten_all_the_time_are_sent_again(
    start: Start, queue: TurnQueue, records: TurnRecords, client: Redis, keys: Keys
):
    async def reply(lease: Lease, outbox: Outbox) -> None:
        for seq in range(1, 6):
            await outbox.send(segment(outbox.token, seq).segment)
            await asyncio.sleep(0.002)
        await outbox.finish(TurnDone(count=5), TurnOutcome(state=TurnState.DONE, segments=5))

    async def forget() -> None:
        while True:
            await client.script_flush()
            await asyncio.sleep(0.001)

    forgetting = asyncio.create_task(forget())
    async with start(reply, beat_s=0.01, reap_s=0.01) as fleet:
        for n in range(10):
            await queue.admit(turn(f"l{n}", channel=n, guild=n))
        for n in range(10):
            assert await finished(records, f"l{n}") is TurnState.DONE
    forgetting.cancel()
    by_turn: dict[str, list[int]] = {}
    for envelope in await out_entries(client, keys):
        by_turn.setdefault(envelope.turn_id, []).append(envelope.seq)
    assert list(by_turn.values()) == [[1, 2, 3, 4, 5, 6]] * 10
    assert fleet.mishaps == []


async def test_a_restarted_server_gets_its_scripts_while_turns_run(
    start: Start, queue: TurnQueue, records: TurnRecords, server: RedisServer
):
    begun, gate = asyncio.Event(), asyncio.Event()

    async def reply(lease: Lease, outbox: Outbox) -> None:
        await outbox.send(segment(outbox.token, 1).segment)
        begun.set()
        await gate.wait()
        await outbox.send(segment(outbox.token, 2).segment)
        await outbox.finish(TurnDone(count=2), TurnOutcome(state=TurnState.DONE, segments=2))

    async with start(reply, beat_s=0.05):
        await queue.admit(turn("l1"))
        await begun.wait()
        server.kill()
        server.start()
        gate.set()
        assert await finished(records, "l1") is TurnState.DONE
    record = await records.turn("l1")
    assert record is not None
    assert (record.attempt, record.crashes, record.seq) == (1, 0, 2)

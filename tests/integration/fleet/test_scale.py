"""The scaling signal is the true backlog, and what a process shows of the cell is what is there."""

import random

import pytest
from redis.asyncio import Redis

from shared.edges.health import Answer
from shared.edges.metering import CellGauges, metrics_path, scale_path
from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords, this_process
from shared.edges.redis import connect
from shared.keys import Keys
from shared.metrics import Metrics
from shared.segments import TurnDone
from tests.support.servers import free_port
from tests.support.turns import turn

LAST = TurnDone(count=-1)


async def signal(records: TurnRecords) -> str:
    answer: Answer = await scale_path(records)()
    assert answer.status == 200
    return answer.body.decode()


def said(queued: int, running: int) -> str:
    return f'{{"backlog":{queued + running},"queued":{queued},"running":{running}}}'


async def test_without_any_key_there_is_nothing_to_do(records: TurnRecords):
    assert await signal(records) == said(0, 0)


async def test_one_message_counts(queue: TurnQueue, records: TurnRecords):
    await queue.admit(turn())
    assert await signal(records) == said(1, 0)


@pytest.mark.parametrize("seed", range(3))
async def test_it_is_exact_whatever_the_order_of_the_ends(
    queue: TurnQueue, records: TurnRecords, seed: int
):
    chance = random.Random(seed)
    for number in range(8):
        await queue.admit(turn(f"l{number}", channel=number, guild=number + 1))
    running = [one.token for one in await queue.claim("w", 5)]
    assert await signal(records) == said(8 - len(running), len(running))
    waiting = 8 - len(running)
    chance.shuffle(running)
    while running:
        token = running.pop()
        if chance.random() < 0.5:
            await queue.finish(token, LAST)
        else:
            await queue.release(token)
            waiting += 1
        assert await signal(records) == said(waiting, len(running))


async def test_segments_and_acknowledgements_change_nothing(
    queue: TurnQueue, records: TurnRecords, client: Redis, keys: Keys
):
    """The out stream is not the backlog: not its length, nor the lag of a group."""
    await queue.admit(turn())
    before = await signal(records)
    stream = keys.out(0)
    ids = [await client.xadd(stream, {"data": "x"}) for _ in range(4)]
    await client.xdel(stream, ids[2], ids[0])
    assert await signal(records) == before
    await client.delete(stream)
    assert await signal(records) == before


async def test_while_redis_is_away_there_is_no_signal():
    nobody = connect(f"redis://127.0.0.1:{free_port()}/0")
    try:
        answer = await scale_path(TurnRecords(nobody, Keys()))()
    finally:
        await nobody.aclose()
    assert answer.status == 503


async def test_a_gateway_shows_the_cell(
    queue: TurnQueue, records: TurnRecords, client: Redis, keys: Keys
):
    metrics = Metrics("gateway")
    gauges = CellGauges(metrics, client, keys, queue.policy.wait_ms)
    show = metrics_path(metrics, gauges.look)
    await queue.admit(turn())
    await queue.admit(turn("l2", channel=2))
    await queue.claim("w", 1)
    await client.xadd(keys.errors, {"v": "x"})
    await records.report_process(this_process("worker-1", "worker", started_ms=0, now_ms=10**13))
    text = (await show()).body.decode()
    for line in (
        'turnfleet_queue_depth{state="waiting"} 1.0',
        'turnfleet_queue_depth{state="running"} 1.0',
        'turnfleet_stream_entries{stream="errors"} 1.0',
        'turnfleet_stream_entries{stream="dead"} 0.0',
        'turnfleet_processes{role="worker"',
    ):
        assert line in text, line


async def test_the_oldest_turn_has_its_age(queue: TurnQueue, client: Redis, keys: Keys):
    metrics = Metrics("gateway")
    await queue.admit(turn())
    # As if it had been admitted half a minute earlier.
    ((tid, score),) = await client.zrange(keys.waiting, 0, 0, withscores=True)
    await client.zadd(keys.waiting, {tid: score - 30_000})
    await CellGauges(metrics, client, keys, queue.policy.wait_ms).look()
    age = next(
        float(line.split(" ")[1])
        for line in metrics.text().decode().splitlines()
        if line.startswith("turnfleet_queue_oldest_age_seconds ")
    )
    assert 29 < age < 60

import asyncio
from contextlib import aclosing

import pytest
from redis.asyncio import Redis

from shared.edges.queue import TurnQueue
from shared.edges.streams import Entry, GroupReader, TailReader, envelope_of
from shared.errors import WireError
from shared.keys import RECORDER_GROUP, Keys
from tests.support.turns import admit_and_claim, segment, turn


@pytest.fixture
def stream(keys: Keys) -> str:
    return keys.out(0)


@pytest.fixture
def reader(client: Redis, blocking: Redis, stream: str) -> GroupReader:
    return make_reader(client, blocking, stream)


def make_reader(
    client: Redis, blocking: Redis, stream: str, consumer: str = "recorder-1"
) -> GroupReader:
    return GroupReader(client, blocking, stream=stream, group=RECORDER_GROUP, consumer=consumer)


async def add(client: Redis, stream: str, *names: str) -> None:
    for name in names:
        await client.xadd(stream, {"n": name})


def names(entries: list[Entry]) -> list[str]:
    return [entry.fields[b"n"].decode() for entry in entries]


async def test_entries_from_before_the_group_are_read(
    reader: GroupReader, client: Redis, stream: str
):
    await add(client, stream, "a", "b")
    assert names(await reader.read()) == ["a", "b"]


async def test_nothing_is_read_after_the_wait(reader: GroupReader):
    assert await reader.read(block_s=0.01) == []


async def test_an_entry_wakes_a_waiting_reader(reader: GroupReader, client: Redis, stream: str):
    waiting = asyncio.create_task(reader.read(block_s=5))
    await asyncio.sleep(0.05)
    await add(client, stream, "a")
    assert names(await waiting) == ["a"]


async def test_a_successor_begins_with_what_the_dead_one_had_in_hand(
    reader: GroupReader, client: Redis, blocking: Redis, stream: str
):
    await add(client, stream, "a", "b", "c")
    first = await reader.read(count=2)
    await reader.ack([first[0].id])
    successor = make_reader(client, blocking, stream)
    assert names(await successor.read()) == ["b"]
    assert names(await successor.read()) == ["c"]


async def test_acknowledged_entries_are_gone(reader: GroupReader, client: Redis, stream: str):
    await add(client, stream, "a", "b")
    entries = await reader.read()
    assert await reader.length() == 2
    assert await reader.ack([entry.id for entry in entries]) == 2
    assert await reader.ack([entry.id for entry in entries]) == 0
    assert await reader.ack([]) == 0
    assert await reader.length() == 0
    reader.rewind()
    assert await reader.read(block_s=0.01) == []


async def test_rewinding_gives_pending_entries_again(
    reader: GroupReader, client: Redis, stream: str
):
    await add(client, stream, "a")
    await reader.read()
    reader.rewind()
    assert names(await reader.read()) == ["a"]


async def test_a_cancelled_read_takes_nothing_for_good(
    reader: GroupReader, client: Redis, stream: str
):
    await reader.read(block_s=0.01)
    for steps in range(20):
        task = asyncio.create_task(reader.read(block_s=1))
        await asyncio.sleep(0.002)
        await add(client, stream, str(steps))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait({task})
        (ended,) = done
        entries = [] if ended.cancelled() else ended.result()
        if not entries:
            entries = await reader.read()
        assert names(entries) == [str(steps)]
        await reader.ack([entry.id for entry in entries])


async def test_deleted_entries_of_a_group_are_passed_over(
    reader: GroupReader, client: Redis, blocking: Redis, stream: str
):
    await add(client, stream, "a", "b")
    first, _ = await reader.read()
    await client.xdel(stream, first.id)
    assert names(await make_reader(client, blocking, stream).read()) == ["b"]


@pytest.mark.parametrize("loss", ["group", "everything"])
async def test_a_lost_group_is_made_again(
    reader: GroupReader, client: Redis, stream: str, loss: str
):
    await add(client, stream, "a")
    await reader.read()
    if loss == "group":
        await client.xgroup_destroy(stream, RECORDER_GROUP)
    else:
        await client.flushall()
        await add(client, stream, "a")
    assert await reader.read(block_s=0.01) == []
    assert reader.remade == 1
    assert names(await reader.read()) == ["a"]


async def test_a_group_lost_while_waiting_is_made_again(
    reader: GroupReader, client: Redis, stream: str
):
    await reader.read(block_s=0.01)
    waiting = asyncio.create_task(reader.read(block_s=5))
    await asyncio.sleep(0.05)
    await client.delete(stream)
    assert await waiting == []
    await add(client, stream, "a")
    assert names(await reader.read()) == ["a"]


async def test_entries_of_a_silent_consumer_can_be_taken_over(
    reader: GroupReader, client: Redis, blocking: Redis, stream: str
):
    await add(client, stream, "a")
    await reader.read()
    other = make_reader(client, blocking, stream, consumer="other")
    assert await other.take_over(idle_ms=60_000) == []
    assert names(await other.take_over(idle_ms=0)) == ["a"]


async def test_an_unreadable_entry_is_buried(
    reader: GroupReader, client: Redis, stream: str, keys: Keys
):
    await add(client, stream, "a")
    (entry,) = await reader.read()
    with pytest.raises(WireError, match="is no envelope"):
        envelope_of(entry)
    await reader.bury(entry, "no envelope", keys.buried)
    ((_, fields),) = await client.xrange(keys.buried)
    assert (fields[b"n"], fields[b"reason"], fields[b"entry"].decode()) == (
        b"a",
        b"no envelope",
        entry.id,
    )
    assert await reader.length() == 0


async def test_trimming_is_by_age(reader: GroupReader, client: Redis, stream: str):
    await add(client, stream, "a", "b")
    _, second = await reader.read()
    assert await reader.trim(second.id) == 1
    assert await reader.length() == 1


async def test_the_entries_of_a_turn_are_envelopes(
    queue: TurnQueue, client: Redis, blocking: Redis, keys: Keys
):
    token = (await admit_and_claim(queue)).token
    await queue.append(token, 1, segment(token, 1))
    reader = make_reader(client, blocking, keys.out_of(turn().route.channel_id))
    (entry,) = await reader.read()
    envelope = envelope_of(entry)
    assert (envelope.entry_id, envelope.event) == (entry.id, segment(token, 1))
    assert envelope.route == turn().route


async def test_iterating_reads_for_ever(reader: GroupReader, client: Redis, stream: str):
    await add(client, stream, "a", "b")
    seen = []
    async with aclosing(reader.entries()) as entries:
        async for entry in entries:
            seen.append(entry)
            if len(seen) == 2:
                break
    assert names(seen) == ["a", "b"]


async def test_a_tail_gives_entries_in_order_until_they_are_acknowledged(
    client: Redis, blocking: Redis, stream: str
):
    tail = TailReader(client, blocking, stream=stream)
    await add(client, stream, "a", "b", "c")
    first = await tail.read(count=2)
    assert names(first + await tail.read(block_s=0.01)) == ["a", "b", "c"]
    assert await tail.read(block_s=0.01) == []
    assert await tail.ack([first[0].id]) == 1
    assert await tail.ack([first[0].id]) == 0
    assert await tail.ack([]) == 0
    tail.rewind()
    assert names(await tail.read()) == ["b", "c"]


async def test_a_tail_begins_again_after_a_read_that_was_cancelled(
    client: Redis, blocking: Redis, stream: str
):
    tail = TailReader(client, blocking, stream=stream)
    await add(client, stream, "a")
    assert names(await tail.read()) == ["a"]
    waiting = asyncio.create_task(tail.read(block_s=5))
    await asyncio.sleep(0.05)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert names(await tail.read()) == ["a"]


async def test_a_tail_survives_a_server_that_forgot_its_stream(
    client: Redis, blocking: Redis, stream: str
):
    tail = TailReader(client, blocking, stream=stream)
    await add(client, stream, "a")
    await tail.read()
    await client.delete(stream)
    assert await tail.read(block_s=0.01) == []
    await add(client, stream, "b")
    assert names(await tail.read()) == ["b"]

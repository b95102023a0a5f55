"""Commands that travel together, on a real server: each has its own answer, and its own error."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import redis.exceptions as errors
from redis.asyncio import Redis

from shared.edges.redis import connect, within
from shared.edges.scripting import Script
from shared.errors import StoreUnavailable
from tests.support.servers import RedisServer, running_server

MANY = 400
LIMIT_S = 30.0


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with running_server("redis") as running:
        yield running


@pytest.fixture
async def client(server: RedisServer) -> AsyncIterator[Redis]:
    made = connect(server.url, batching=True)
    yield made
    await made.aclose()


async def reads(client: Redis) -> int:
    return int((await client.info("stats"))["total_reads_processed"])


async def test_each_command_has_its_own_answer_and_many_go_in_few_writes(client: Redis):
    begun = await reads(client)
    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
        asked = [group.create_task(within(client.incrby(f"k{n}", n))) for n in range(MANY)]
    assert [task.result() for task in asked] == list(range(MANY))
    assert await reads(client) - begun < MANY / 10


async def test_answers_are_read_as_with_any_client(client: Redis):
    await client.hset("h", mapping={"a": "1"})  # type: ignore[misc]  # redis-py
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(within(client.hgetall("h"))) for _ in range(20)]
        asked.append(group.create_task(within(client.time())))
        asked.append(group.create_task(within(client.set("x", "1", nx=True, px=1000))))
    assert asked[0].result() == asked[19].result() == {b"a": b"1"}
    assert isinstance(asked[20].result(), tuple)
    assert asked[21].result() is True


async def test_an_error_is_that_of_its_command_alone(client: Redis):
    await client.set("word", "no number")
    async with asyncio.timeout(LIMIT_S):
        found = await asyncio.gather(
            *(client.incr("word" if n % 7 == 0 else f"n{n}") for n in range(50)),
            return_exceptions=True,
        )
    for number, answer in enumerate(found):
        assert isinstance(answer, errors.ResponseError) if number % 7 == 0 else answer == 1


@pytest.mark.parametrize("unsendable", ["\ud800", None], ids=["half a surrogate", "nothing"])
async def test_a_command_that_cannot_be_written_fails_alone(client: Redis, unsendable: Any):
    async with asyncio.timeout(LIMIT_S):
        found = await asyncio.gather(
            *(client.set(f"w{n}", unsendable if n == 7 else "x") for n in range(20)),
            return_exceptions=True,
        )
    assert [n for n, answer in enumerate(found) if answer is not True] == [7]
    assert isinstance(found[7], (UnicodeEncodeError, errors.DataError))


async def test_a_script_that_the_server_does_not_know_is_sent(client: Redis):
    lead = Script(client, "lead")
    await client.script_flush()
    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
        asked = [
            group.create_task(lead([f"l{n}", f"last{n}"], ["me", "take", 1000, 1000, 5000]))
            for n in range(20)
        ]
    assert all(task.exception() is None for task in asked)


async def test_who_is_cancelled_takes_nobody_along(client: Redis):
    async with asyncio.timeout(LIMIT_S):
        asked = [asyncio.ensure_future(client.incr(f"c{n}")) for n in range(100)]
        await asyncio.sleep(0)
        for task in asked[::2]:
            task.cancel()
        found = await asyncio.gather(*asked, return_exceptions=True)
    assert found[1::2] == [1] * 50
    assert all(isinstance(one, asyncio.CancelledError) for one in found[::2])
    assert await client.incr("after") == 1


async def test_a_server_that_goes_and_comes_back(client: Redis, server: RedisServer):
    await client.set("here", "1")
    server.kill()
    async with asyncio.timeout(LIMIT_S):
        found = await asyncio.gather(
            *(within(client.get("here")) for _ in range(30)), return_exceptions=True
        )
    assert all(isinstance(one, StoreUnavailable) for one in found)
    await asyncio.to_thread(server.start)
    async with asyncio.timeout(LIMIT_S):
        found = await asyncio.gather(*(within(client.get("none")) for _ in range(30)))
    assert found == [None] * 30


async def test_closing_leaves_nobody_waiting(server: RedisServer):
    client = connect(server.url, batching=True)
    asked = [asyncio.ensure_future(client.incr(f"z{n}")) for n in range(50)]
    await asyncio.sleep(0)
    await client.aclose()
    async with asyncio.timeout(LIMIT_S):
        await asyncio.wait(asked)
    await client.aclose()  # what was under way came back, with its connection

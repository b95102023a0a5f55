"""One line for all commands: answers find who asked, and troubles stay with whom they meet."""

import asyncio
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
from redis import exceptions as errors
from redis.asyncio import Redis

from shared.edges.batching import LARGE_BYTES
from shared.edges.redis import connect, within
from shared.errors import ConfigError, StoreError, StoreUnavailable
from tests.support.proxy import Proxy
from tests.support.servers import RedisServer


def port_of(server: RedisServer) -> int:
    return urlsplit(server.url).port or 0


@pytest.fixture
async def lined(server: RedisServer):
    redis = connect(server.url, batching=True)
    yield redis
    await redis.aclose(close_connection_pool=True)


async def test_every_answer_finds_who_asked(lined: Any):
    async def ask(number: int) -> None:
        assert await within(lined.echo(f"{number}")) == b"%d" % number
        assert await within(lined.set(f"key:{number % 7}", number))

    await asyncio.gather(*(ask(number) for number in range(500)))
    assert len(lined.connection_pool._in_use_connections) == 1


async def test_a_refused_command_fails_alone(lined: Any):
    await lined.set("text", "x")
    async with asyncio.timeout(5):
        found = await asyncio.gather(
            within(lined.echo("a")),
            within(lined.incr("text")),
            within(lined.set("key", object())),
            within(lined.set("key", "half a pair: \ud83d")),
            within(lined.echo("b")),
            return_exceptions=True,
        )
    assert found[0] == b"a"
    assert isinstance(found[1], StoreError)
    assert isinstance(found[2], StoreError)  # no value of redis-py's
    assert isinstance(found[3], UnicodeEncodeError)
    assert found[4] == b"b"


async def test_who_is_cancelled_takes_no_answer_along(lined: Any):
    for steps in range(1, 14):
        cancelled = [asyncio.create_task(within(lined.echo(f"no {n}"))) for n in range(3)]
        kept = [asyncio.create_task(within(lined.echo(f"yes {n}"))) for n in range(3)]
        for _ in range(steps):
            await asyncio.sleep(0)
        for task in cancelled:
            task.cancel()
        assert await asyncio.gather(*kept) == [b"yes 0", b"yes 1", b"yes 2"]
        for task in cancelled:
            with suppress(asyncio.CancelledError):
                await task


async def test_a_connection_that_the_server_closes_is_replaced(lined: Any, client: Redis):
    for _ in range(3):
        await lined.set("key", "value")
        await client.client_kill_filter(_type="normal", skipme=True)
        assert await within(lined.get("key")) == b"value"


async def test_what_may_block_or_is_large_goes_its_own_way(lined: Any):
    waiting = asyncio.create_task(lined.blpop(["list"], timeout=5))
    await asyncio.sleep(0.02)
    await lined.set("large", b"x" * (LARGE_BYTES + 1))
    async with asyncio.timeout(1):
        assert len(await within(lined.get("large"))) == LARGE_BYTES + 1
    await lined.rpush("list", "y")
    assert await waiting == (b"list", b"y")
    assert len(lined.connection_pool._available_connections) >= 1


async def test_no_task_is_left_where_nothing_is_asked(lined: Any):
    before = asyncio.all_tasks()
    await asyncio.gather(*(lined.echo("a") for _ in range(20)))
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_who_waits_when_it_is_closed_hears_of_it(server: RedisServer):
    async with Proxy(port_of(server)) as proxy:
        redis: Any = connect(f"redis://127.0.0.1:{proxy.port}", batching=True)
        await redis.echo("a")
        proxy.freeze()
        waiting = asyncio.create_task(redis.echo("b"))
        await asyncio.sleep(0.05)
        await redis.aclose(close_connection_pool=True)
        with pytest.raises(errors.ConnectionError):
            await waiting


async def test_a_silent_connection_is_left_when_somebody_gives_up_waiting(server: RedisServer):
    """A beat has two seconds, a lease six, a socket five: the next beat must get through."""
    async with Proxy(port_of(server)) as proxy:
        redis: Any = connect(f"redis://127.0.0.1:{proxy.port}", batching=True)
        await redis.echo("a")
        proxy.freeze()
        appending = asyncio.create_task(within(redis.echo("b")))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.5):
                await within(redis.echo("beat"))
        async with asyncio.timeout(1.5):
            assert await within(redis.echo("beat")) == b"beat"
            assert await appending == b"b"  # sent again by the line
        await redis.aclose(close_connection_pool=True)


async def test_a_server_that_is_away_is_said_to_be_away_to_everyone(server: RedisServer):
    async with Proxy(port_of(server)) as proxy:
        redis: Any = connect(f"redis://127.0.0.1:{proxy.port}", batching=True)
        await redis.echo("a")
        await proxy.shut()
        proxy.reset()
    async with asyncio.timeout(8):
        found = await asyncio.gather(
            *(within(redis.echo("b")) for _ in range(20)), return_exceptions=True
        )
    assert {type(one) for one in found} == {StoreUnavailable}
    await redis.aclose(close_connection_pool=True)


async def test_a_refused_password_is_told_to_everyone(server: RedisServer, client: Redis):
    await client.config_set("requirepass", "right")
    try:
        port = port_of(server)
        redis: Any = connect(f"redis://:wrong@127.0.0.1:{port}", batching=True)
        found = await asyncio.gather(
            *(within(redis.echo("a")) for _ in range(3)), return_exceptions=True
        )
        assert {type(one) for one in found} == {ConfigError}
        await redis.aclose(close_connection_pool=True)
    finally:
        await client.config_set("requirepass", "")


async def test_a_slow_server_that_answers_is_not_silent():
    """Who gives up meanwhile has nothing sent again: the server would be slower for it."""
    echoes, connections, ended = 0, 0, asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal echoes, connections
        connections += 1
        while data := await reader.read(65536):
            slow = data.count(b"ECHO")
            echoes += slow
            for _ in range(data.count(b"*")):
                await asyncio.sleep(0.4 if slow else 0.0)
                writer.write(b"+OK\r\n")
                await writer.drain()
        writer.close()
        await writer.wait_closed()
        ended.set()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        redis: Any = connect(f"redis://127.0.0.1:{port}", batching=True)
        asking = [asyncio.create_task(within(redis.echo(f"{n}"))) for n in range(5)]
        await asyncio.sleep(1.4)
        asking.pop().cancel()
        await asyncio.gather(*asking)
        await redis.aclose(close_connection_pool=True)
        await ended.wait()
    assert (echoes, connections) == (5, 1)

import asyncio
from contextlib import suppress

import pytest
from redis.asyncio import Redis

from shared.edges.redis import check_server, connect, within
from shared.errors import ConfigError, StoreError, StoreFull, StoreUnavailable, StoreUnsafe
from tests.support.servers import RedisServer, free_port


@pytest.mark.parametrize("steps", range(12))
async def test_a_cancelled_read_ends_whenever_it_was_cancelled(
    client: Redis, blocking: Redis, steps: int
):
    """redis-py's own connection swallows the cancel at some of these steps on Python 3.11."""

    async def read_for_ever() -> None:
        while True:
            await within(blocking.blpop(["list"], timeout=5))

    for _ in range(3):
        task = asyncio.create_task(read_for_ever())
        await within(client.rpush("list", "x"))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=2)
        assert done


async def test_cancelled_commands_leave_no_connection_in_use(server: RedisServer):
    redis = connect(server.url, max_connections=4)
    await redis.set("key", "value")
    for steps in range(1, 40):
        task = asyncio.create_task(within(redis.get("key")))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            assert await task == b"value"
    assert not redis.connection_pool._in_use_connections
    assert await redis.get("key") == b"value"
    await redis.aclose(close_connection_pool=True)


async def test_an_absent_server_is_said_to_be_absent_soon():
    redis = connect(f"redis://127.0.0.1:{free_port()}")
    async with asyncio.timeout(8):
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await within(redis.get("key"))
    await redis.aclose(close_connection_pool=True)


async def test_a_good_server_is_accepted(server: RedisServer, client: Redis):
    facts = await check_server(client, server.url)
    assert facts.flavor in server.binary
    assert facts.has_aof
    assert (facts.eviction, facts.mode, facts.role) == ("noeviction", "standalone", "master")


@pytest.mark.parametrize(
    ("name", "value", "good"),
    [("maxmemory-policy", "allkeys-lru", "noeviction"), ("appendonly", "no", "yes")],
)
async def test_a_server_that_would_lose_work_is_refused(
    server: RedisServer, client: Redis, name: str, value: str, good: str
):
    await client.config_set(name, value)
    try:
        with pytest.raises(StoreUnsafe, match=name.removeprefix("append")):
            await check_server(client, server.url)
        await check_server(client, server.url, allow_unsafe=True)
    finally:
        await client.config_set(name, good)


async def test_an_absent_server_is_refused_with_advice():
    url = f"redis://:hush@127.0.0.1:{free_port()}"
    redis = connect(url)
    with pytest.raises(StoreUnavailable, match="unset it for the embedded server") as caught:
        await check_server(redis, url)
    assert "hush" not in str(caught.value)
    assert "\n" not in str(caught.value)
    await redis.aclose(close_connection_pool=True)


async def test_refusals_are_translated(client: Redis):
    await client.set("text", "x")
    with pytest.raises(StoreError, match="WRONGTYPE"):
        await within(client.lpush("text", "y"))
    await client.config_set("maxmemory", "1")
    try:
        with pytest.raises(StoreFull):
            await within(client.set("more", "x"))
    finally:
        await client.config_set("maxmemory", "0")


async def test_a_missing_password_is_the_operators_business(server: RedisServer, client: Redis):
    await client.config_set("requirepass", "hush")
    redis = connect(server.url)
    try:
        with pytest.raises(ConfigError, match="refuses the user or password"):
            await check_server(redis, server.url)
    finally:
        await client.config_set("requirepass", "")
        await redis.aclose(close_connection_pool=True)


async def test_a_wrong_password_is_the_operators_business(server: RedisServer):
    redis = connect(f"redis://:wrong@127.0.0.1:{server.port}")
    with pytest.raises(ConfigError, match="refuses the user or password"):
        await within(redis.get("key"))
    await redis.aclose(close_connection_pool=True)

"""A server without memory for anything new: the gateway delivers what it can, and dies of nothing.

It must even start then: what it delivers is what frees the memory.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from pathlib import Path

import msgspec
import pytest
from redis.asyncio import Redis

from gateway.app import serve
from shared.config import Settings
from shared.configuration.loading import Loaded
from shared.edges.local_channel import LocalChannel
from shared.edges.queue import TurnQueue
from shared.edges.redis import connect
from shared.keys import Keys
from shared.segments import TurnDone
from shared.turns import Front, Route
from tests.support.discord import running_discord
from tests.support.gateway import segment_of
from tests.support.servers import RedisServer, running_server
from tests.support.turns import claim_one, turn

KEYS = Keys()
LIMIT_S = 30.0


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with running_server("redis") as running:
        yield running


@pytest.fixture
async def redis(server: RedisServer) -> AsyncIterator[Redis]:
    async with aclosing(connect(server.url)) as client:
        yield client


async def answered(queue: TurnQueue, route: Route) -> None:
    """Lays a whole answer on the out stream."""
    await queue.admit(msgspec.structs.replace(turn("l1"), route=route))
    token = (await claim_one(queue)).token
    await queue.append(token, 1, segment_of(token, 1, "the answer"))
    await queue.finish(token, TurnDone(count=1))


async def serve_through(
    redis: Redis, settings: Settings, shown: Callable[[], Awaitable[list[str]]]
) -> None:
    """Starts a gateway on a full server, and frees the memory once the gateway leads."""
    stop = asyncio.Event()
    await redis.config_set("maxmemory", "1")
    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
        group.create_task(serve(Loaded(settings=settings), stop))
        leaders = [KEYS.leader(number) for number in range(KEYS.partitions)]
        while await redis.exists(*leaders) < len(leaders):
            await asyncio.sleep(0.01)
        await redis.config_set("maxmemory", "0")
        while await shown() != ["the answer"]:
            await asyncio.sleep(0.01)
        stop.set()


async def test_local_replies_wait_for_memory(redis, server, tmp_path: Path):
    queue, local = TurnQueue(redis, KEYS, Settings()), LocalChannel(redis, KEYS)
    await answered(queue, Route(front=Front.LOCAL, channel_id=7, user_id=5))

    async def shown() -> list[str]:
        return [message.text for message in await local.messages(7)]

    await serve_through(redis, Settings(redis_url=server.url, data_dir=str(tmp_path)), shown)


async def test_discord_replies_do_not_wait_for_memory(redis, server, tmp_path: Path):
    queue = TurnQueue(redis, KEYS, Settings())
    async with running_discord() as discord:
        channel = discord.world.add_channel(discord.world.add_guild().id)
        await answered(queue, Route(front=Front.DISCORD, channel_id=channel.id, user_id=5))

        async def shown() -> list[str]:
            return [message.content for message in discord.replies(channel.id)]

        settings = Settings(
            redis_url=server.url,
            data_dir=str(tmp_path),
            front=Front.DISCORD,
            discord_token=discord.token,
            discord_rest_url=discord.rest_url,
        )
        await serve_through(redis, settings, shown)

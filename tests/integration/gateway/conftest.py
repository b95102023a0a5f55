"""A client for modules that have a server of their own: emptied before each test."""

from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from redis.asyncio import Redis

from shared.edges.redis import connect
from tests.support.servers import RedisServer


@pytest.fixture
async def redis(server: RedisServer) -> AsyncIterator[Redis]:
    async with aclosing(connect(server.url)) as client:
        await client.flushall()
        yield client

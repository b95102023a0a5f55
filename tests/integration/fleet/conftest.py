"""A server of each flavor for the whole session, an empty database and a queue for each test."""

from collections.abc import AsyncIterator, Iterator

import msgspec
import pytest
from redis.asyncio import Redis

from shared.config import Settings
from shared.edges.policy import Policy
from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords
from shared.edges.redis import connect
from shared.keys import Keys
from tests.support.in_process import Start, starter
from tests.support.servers import RedisServer, flavors, running_server


@pytest.fixture(scope="session", params=flavors())
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    with running_server(request.param) as running:
        yield running


@pytest.fixture
async def client(server: RedisServer) -> AsyncIterator[Redis]:
    redis = connect(server.url)
    await redis.flushall()
    yield redis
    await redis.aclose(close_connection_pool=True)


@pytest.fixture
async def blocking(server: RedisServer) -> AsyncIterator[Redis]:
    redis = connect(server.url, blocking=True)
    yield redis
    await redis.aclose(close_connection_pool=True)


@pytest.fixture
def keys() -> Keys:
    return Keys("test", partitions=2)


@pytest.fixture
def policy() -> Policy:
    return Policy.of(Settings(guild_depth=5, global_depth=20, slots=8))


@pytest.fixture
def queue(client: Redis, keys: Keys, policy: Policy) -> TurnQueue:
    return TurnQueue(client, keys, Settings(), policy=policy)


@pytest.fixture
def brief_leases(client: Redis, keys: Keys, policy: Policy) -> TurnQueue:
    """A queue whose leases end after a few milliseconds, and which never waits after a crash."""
    brief = msgspec.structs.replace(policy, lease_ms=5, reap_gap_ms=3_600_000, crash_delays_ms=(0,))
    return TurnQueue(client, keys, Settings(), policy=brief)


@pytest.fixture
def records(client: Redis, keys: Keys) -> TurnRecords:
    return TurnRecords(client, keys)


@pytest.fixture
def start(queue: TurnQueue, records: TurnRecords, blocking: Redis) -> Start:
    return starter(queue, records, blocking)

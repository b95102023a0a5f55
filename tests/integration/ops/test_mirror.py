"""The mirror of what Redis alone would hold: kept, not followed into nothing, and given back."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from ops.store.engine import Database, database_url
from ops.store.migrate import upgrade
from ops.store.mirror import MARK, Mirror, durable
from ops.store.tables import redis_mirror
from shared.edges.redis import connect
from shared.keys import Keys
from tests.support.cli import Command
from tests.support.servers import RedisServer, running_server

NOW = datetime.now(UTC)
RAW = bytes(range(256))


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


@pytest.fixture
async def redis(server: RedisServer) -> AsyncIterator[Any]:
    redis: Any = connect(server.url)
    yield redis
    await redis.flushall()
    await redis.aclose()


@pytest.fixture
def keys(request: pytest.FixtureRequest) -> Keys:
    return Keys(re.sub(r"\W", "", request.node.name))


async def fill(redis: Any, keys: Keys) -> None:
    await redis.hset(keys.credentials, mapping={"server:7:openai:main": RAW, "a": b"1"})
    await redis.hset(keys.choices, "guild:7", b"{}")
    await redis.rpush(keys.credential_audit, b"newest", RAW)


async def content(redis: Any, keys: Keys) -> dict[str, object]:
    found: dict[str, object] = {}
    for key in durable(keys):
        kind = await redis.type(key)
        if kind == b"hash":
            found[key] = await redis.hgetall(key)
        elif kind == b"list":
            found[key] = await redis.lrange(key, 0, -1)
    return found


async def places(database: Database) -> set[str]:
    async with database.begin() as connection:
        rows = await connection.execute(select(redis_mirror.c.field, redis_mirror.c.key))
        return {row.field for row in rows if (row.key, row.field) != MARK}


async def test_a_lost_server_gets_everything_back(redis: Any, keys: Keys, database: Database):
    await fill(redis, keys)
    before = await content(redis, keys)
    mirror = Mirror(database, redis, keys)
    assert (await mirror.follow(NOW)).changed == 4
    await redis.flushall()
    for one in (mirror, Mirror(database, redis, keys)):
        for _ in range(2):
            assert (await one.follow(NOW)).is_forgotten
    written = await Mirror(database, redis, keys).restore()
    assert sum(written.values()) == 5
    assert await content(redis, keys) == before
    assert sum((await Mirror(database, redis, keys).restore()).values()) == 0
    seen = await mirror.follow(NOW)
    assert (seen.changed, seen.removed, seen.is_forgotten) == (0, 0, False)


async def test_changes_and_removals_are_followed(redis: Any, keys: Keys, database: Database):
    await fill(redis, keys)
    first, second = Mirror(database, redis, keys), Mirror(database, redis, keys)
    for mirror in (first, second):
        await mirror.follow(NOW)
    await redis.hset(keys.credentials, "a", b"2")
    await redis.hdel(keys.choices, "guild:7")
    for mirror in (first, second):
        seen = await mirror.follow(NOW)
        assert (seen.changed, seen.removed) == (1, 1)
        assert await places(database) == {"server:7:openai:main", "a", ""}
    await redis.flushall()
    await first.restore()
    assert await redis.hget(keys.credentials, "a") == b"2"


async def test_what_is_there_is_newer_than_the_mirror(redis: Any, keys: Keys, database: Database):
    await fill(redis, keys)
    await Mirror(database, redis, keys).follow(NOW)
    await redis.flushall()
    await redis.hset(keys.credentials, "a", b"new")
    await redis.rpush(keys.credential_audit, b"new")
    await Mirror(database, redis, keys).restore()
    assert await redis.hget(keys.credentials, "a") == b"new"
    assert await redis.hget(keys.credentials, "server:7:openai:main") == RAW
    assert await redis.lrange(keys.credential_audit, 0, -1) == [b"new"]


async def test_a_new_database_becomes_the_mirror_of_a_server_that_has_one(
    redis: Any, keys: Keys, empty_database: Database, tmp_path: Path
):
    other = Database(database_url(f"sqlite:///{tmp_path}/other.db", tmp_path))
    for database in (empty_database, other):
        await upgrade(database)
        await fill(redis, keys)
        mirrors = [Mirror(database, redis, keys) for _ in range(2)]
        async with asyncio.TaskGroup() as group:
            looks = [group.create_task(one.follow(NOW)) for one in mirrors]
        assert not any(look.result().is_forgotten for look in looks)
        assert len(await places(database)) == 4
    await other.close()


def test_the_command_restores(server: RedisServer, tmp_path: Path):
    turnfleet = Command(tmp_path, {"redis_url": server.url, "cell": "cmd"})
    keys = Keys("cmd")

    async def lose() -> None:
        redis = connect(server.url)
        database = Database(database_url(None, tmp_path))
        await upgrade(database)
        await fill(redis, keys)
        await Mirror(database, redis, keys).follow(NOW)
        await redis.flushall()
        await redis.aclose()
        await database.close()

    asyncio.run(lose())
    for count in (5, 0):
        result = turnfleet("db", "restore-redis", "-o", "json")
        assert (result.exit_code, f"{count} values" in result.stderr) == (0, True), result.stderr

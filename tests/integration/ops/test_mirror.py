"""The mirror of what Redis alone would hold: kept, not followed into the past, and given back."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from ops.store.durable import Place, Value, read
from ops.store.engine import Database, database_url
from ops.store.forgotten import forget_rows
from ops.store.migrate import upgrade
from ops.store.mirror import MARK, OLD, VERSION, Mirror, Standing
from ops.store.tables import redis_mirror
from shared.config import Settings
from shared.edges.forgetting import Kind, Subject
from shared.edges.queue import TurnQueue
from shared.edges.redis import connect
from shared.keys import Keys
from tests.support.cli import Command
from tests.support.servers import RedisServer, running_server
from tests.support.turns import turn

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
    await redis.zadd(keys.pauses, {"provider:openai": float("inf"), "guild:9": 1.5e12})
    await redis.zadd(keys.forget_due, {"guild:8": 2e12})
    await redis.hset(keys.forgotten, "digest", 17)


VALUES = 8
"""What that makes, the trail as one."""


async def dump(redis: Any, keys: Keys) -> dict[str, bytes]:
    """All of a cell, as a dump has it."""
    names = [name async for name in redis.scan_iter(match=f"*{{{keys.cell}}}*")]
    return {name: await redis.dump(name) for name in names}


async def start_from(redis: Any, keys: Keys, dumped: dict[str, bytes]) -> None:
    """The server as it was, and nothing of what came since."""
    for name in await dump(redis, keys):
        await redis.delete(name)
    for name, value in dumped.items():
        await redis.restore(name, 0, value)


async def places(database: Database) -> set[str]:
    async with database.begin() as connection:
        rows = await connection.execute(select(redis_mirror.c.field, redis_mirror.c.key))
        return {row.field for row in rows if (row.key, row.field) not in {MARK, VERSION}}


async def test_a_lost_server_gets_everything_back(redis: Any, keys: Keys, database: Database):
    await fill(redis, keys)
    before = await read(redis, keys)
    mirror = Mirror(database, redis, keys)
    assert (await mirror.follow(NOW)).changed == VALUES
    await redis.flushall()
    for one in (mirror, Mirror(database, redis, keys)):
        for _ in range(2):
            assert (await one.follow(NOW)).standing is Standing.LOST
    assert len((await Mirror(database, redis, keys).restore()).values) == VALUES
    assert await read(redis, keys) == before
    assert await redis.pttl(keys.forgotten) > 0
    assert not (await Mirror(database, redis, keys).restore()).values
    seen = await mirror.follow(NOW)
    assert (seen.changed, seen.removed, seen.standing) == (0, 0, Standing.CURRENT)


async def test_changes_and_removals_are_followed(redis: Any, keys: Keys, database: Database):
    await fill(redis, keys)
    first, second = Mirror(database, redis, keys), Mirror(database, redis, keys)
    for mirror in (first, second):
        await mirror.follow(NOW)
    await redis.hset(keys.credentials, "a", b"2")
    await redis.hdel(keys.choices, "guild:7")
    for mirror, count in ((first, 1), (second, 0)):
        seen = await mirror.follow(NOW)
        assert (seen.changed, seen.removed) == (count, count)
        assert "guild:7" not in await places(database)
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
    assert await redis.lrange(keys.credential_audit, 0, -1) == [b"new", b"newest", RAW]


async def test_a_server_from_an_old_dump_gets_what_came_since(
    redis: Any, keys: Keys, database: Database
):
    await fill(redis, keys)
    mirror = Mirror(database, redis, keys)
    await mirror.follow(NOW)
    dumped = await dump(redis, keys)
    await redis.hset(keys.credentials, mapping={"a": b"2", "b": b"added"})
    await redis.hdel(keys.credentials, "server:7:openai:main")  # taken back by its owner
    await redis.lpush(keys.credential_audit, b"taken back")
    await redis.zrem(keys.pauses, "guild:9")
    await mirror.follow(NOW)
    wanted = await read(redis, keys)

    await start_from(redis, keys, dumped)
    for one in (mirror, Mirror(database, redis, keys)):
        for _ in range(2):
            assert (await one.follow(NOW)).standing is Standing.OLD
    # Meanwhile people go on, and what they do is newer than the mirror.
    await redis.hset(keys.choices, "user:5", b"chosen")
    await redis.hset(keys.credentials, "b", b"newer")
    await redis.lpush(keys.credential_audit, b"newer")
    assert (await Mirror(database, redis, keys).loss()).standing is Standing.OLD
    assert len((await Mirror(database, redis, keys).restore()).values) == 4
    wanted[keys.choices, "user:5"] = ("hash", "Y2hvc2Vu")
    wanted[keys.credentials, "b"] = ("hash", "bmV3ZXI=")
    trail = await redis.lrange(keys.credential_audit, 0, -1)
    assert trail == [b"newer", b"taken back", b"newest", RAW]
    assert _without_trail(await read(redis, keys)) == _without_trail(wanted)
    seen = await mirror.follow(NOW)
    assert (seen.changed, seen.standing) == (3, Standing.CURRENT)
    assert (await Mirror(database, redis, keys).follow(NOW)).changed == 0


def _without_trail(values: dict[Place, Value]) -> dict[Place, Value]:
    return {place: value for place, value in values.items() if value[0] != "list"}


async def test_a_second_old_dump_is_compared_with_itself(
    redis: Any, keys: Keys, database: Database
):
    """Whoever took the wrong dump takes another one, which is too old as well."""
    mirror, dumps = Mirror(database, redis, keys), []
    for number in range(3):
        await redis.hset(keys.choices, "guild:7", b"%d" % number)
        await mirror.follow(NOW)
        dumps.append(await dump(redis, keys))
    for dumped in dumps[:2]:
        await start_from(redis, keys, dumped)
        assert (await mirror.follow(NOW)).standing is Standing.OLD
    assert (await mirror.restore()).by_key() == {keys.choices: 1}
    assert await redis.hget(keys.choices, "guild:7") == b"2"
    await mirror.follow(NOW)
    async with database.begin() as connection:
        rows = await connection.execute(select(redis_mirror.c.key))
        assert not [key for key in rows.scalars() if key.startswith(OLD)]


async def test_an_old_dump_that_no_recorder_has_seen_is_brought_up_to_date(
    redis: Any, keys: Keys, database: Database
):
    await fill(redis, keys)
    await Mirror(database, redis, keys).follow(NOW)
    dumped = await dump(redis, keys)
    await redis.hset(keys.credentials, "a", b"2")
    await Mirror(database, redis, keys).follow(NOW)
    await start_from(redis, keys, dumped)
    assert (await Mirror(database, redis, keys).restore()).by_key() == {keys.credentials: 1}
    assert await redis.hget(keys.credentials, "a") == b"2"


async def test_a_server_that_lost_only_the_number_is_not_called_old(
    redis: Any, keys: Keys, database: Database
):
    """As after a crash: the last second is gone, and nothing of ours was in it but the number."""
    await fill(redis, keys)
    mirror = Mirror(database, redis, keys)
    await mirror.follow(NOW)
    await redis.delete(keys.mirror_version)
    assert (await mirror.follow(NOW)).standing is Standing.CURRENT
    assert int(await redis.get(keys.mirror_version)) == 1
    await redis.hset(keys.choices, "guild:7", b"changed")
    assert (await Mirror(database, redis, keys).follow(NOW)).changed == 1


@pytest.mark.parametrize("way", ["emptied", "old"])
async def test_a_server_that_is_meant_to_be_so_is_taken_as_it_is(
    redis: Any, keys: Keys, database: Database, way: str
):
    await redis.hset(keys.choices, "guild:7", b"of then")
    mirror = Mirror(database, redis, keys)
    await mirror.follow(NOW)
    dumped = await dump(redis, keys)
    await fill(redis, keys)
    await mirror.follow(NOW)
    await start_from(redis, keys, dumped if way == "old" else {})
    before = await read(redis, keys)
    assert (await mirror.follow(NOW)).standing is not Standing.CURRENT
    assert len((await mirror.loss()).values) == VALUES
    await Mirror(database, redis, keys).accept()
    seen = await mirror.follow(NOW)
    assert (seen.changed + seen.removed, seen.standing) == (VALUES, Standing.CURRENT)
    assert await read(redis, keys) == before
    assert not (await mirror.loss()).values


async def test_who_was_forgotten_while_the_mirror_waited_does_not_come_back(
    redis: Any, keys: Keys, database: Database
):
    await fill(redis, keys)
    await redis.hset(keys.credential_loans, "7:openai", b"supporter:77:openai:main")
    await redis.rpush(keys.credential_audit, b'{"ref": "personal:77:openai:main"}')
    await Mirror(database, redis, keys).follow(NOW)
    await redis.flushall()
    assert await forget_rows(database, Subject(Kind.GUILD, 7)) == 2
    assert await forget_rows(database, Subject(Kind.USER, 77)) == 2
    await Mirror(database, redis, keys).restore()
    assert await redis.hgetall(keys.credentials) == {b"a": b"1"}
    assert not await redis.exists(keys.choices, keys.credential_loans)
    assert await redis.lrange(keys.credential_audit, 0, -1) == [b"newest", RAW]


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
        assert {look.result().standing for look in looks} == {Standing.CURRENT}
        assert len(await places(database)) == VALUES
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
    for count in (VALUES, 0):
        result = turnfleet("db", "restore-redis", "-o", "json")
        assert (result.exit_code, f"{count} values" in result.stderr) == (0, True), result.stderr


def test_turns_that_an_old_pause_kept_are_started(server: RedisServer, tmp_path: Path):
    """An operator ended it; the dump was older, and turns were parked for it once more."""
    turnfleet = Command(tmp_path, {"redis_url": server.url, "cell": "parked"})
    keys = Keys("parked")

    async def play(deed: Callable[[TurnQueue, Mirror], Awaitable[None]]) -> None:
        redis = connect(server.url)
        database = Database(database_url(None, tmp_path))
        await upgrade(database)
        await deed(TurnQueue(redis, keys, Settings()), Mirror(database, redis, keys))
        await redis.aclose()
        await database.close()

    async def grow_old(queue: TurnQueue, mirror: Mirror) -> None:
        redis: Any = queue.redis
        await queue.pause("provider:rehearsal")
        await mirror.follow(NOW)
        dumped = await dump(redis, keys)
        await queue.resume("provider:rehearsal")
        await mirror.follow(NOW)
        await start_from(redis, keys, dumped)
        await queue.admit(turn("l1"))
        assert await queue.claim("w1", 1) == []
        assert (await mirror.follow(NOW)).standing is Standing.OLD

    async def start(queue: TurnQueue, mirror: Mirror) -> None:
        assert len(await queue.claim("w1", 1)) == 1

    asyncio.run(play(grow_old))
    assert turnfleet("db", "restore-redis").exit_code == 0
    asyncio.run(play(start))

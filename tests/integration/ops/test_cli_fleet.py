"""`turnfleet fleet` beside a worker that runs in this process."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from redis.asyncio import Redis

from ops.cli.exits import Exit
from shared.config import Settings
from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords, this_process
from shared.edges.redis import connect, within
from shared.keys import Keys
from shared.turns import Target
from tests.support.cli import Command
from tests.support.servers import RedisServer, running_server
from tests.support.turns import turn

CELL = "fleet"


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


@pytest.fixture
async def client(server: RedisServer) -> AsyncIterator[Redis]:
    redis = connect(server.url)
    await redis.flushall()
    yield redis
    await redis.aclose(close_connection_pool=True)


@pytest.fixture
def keys() -> Keys:
    return Keys(CELL)


@pytest.fixture
def queue(client: Redis, keys: Keys) -> TurnQueue:
    return TurnQueue(client, keys, Settings(slots=8))


@pytest.fixture
def command(server: RedisServer, tmp_path: Path) -> Command:
    return Command(tmp_path, {"redis_url": server.url, "cell": CELL})


async def run(command: Command, *arguments: str) -> Any:
    return await asyncio.to_thread(command, "fleet", *arguments)


async def a_worker(client: Redis, keys: Keys, name: str, **more: object) -> None:
    record = this_process(name, "worker", started_ms=1, now_ms=2)
    await TurnRecords(client, keys).report_process(msgspec.structs.replace(record, slots=8, **more))


async def test_an_empty_fleet_has_a_status(command: Command, client: Redis):
    result = await run(command, "status", "-o", "json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["queued"], found["running"], found["guilds"]) == (0, 0, [])
    assert len(found["partitions"]) == 4
    assert (await run(command, "workers")).stderr == "No worker lives.\n"


async def test_the_status_shows_guilds_workers_and_pauses(
    command: Command, client: Redis, keys: Keys, queue: TurnQueue
):
    await a_worker(client, keys, "w-one", running=1)
    await a_worker(client, keys, "w-two", is_cordoned=True)
    await queue.admit(turn("l1", channel=1))
    await queue.claim("w-one", 1)
    await queue.admit(turn("l2", channel=1))
    paused = await run(command, "pause", "provider=other", "--for", "10m")
    assert "for 10m" in paused.stderr
    await queue.admit(turn("l3", channel=2, target=Target(provider="other", model="m")))
    assert await queue.claim("w-one", 8) == []
    found = json.loads((await run(command, "status", "-o", "json")).stdout)
    totals = ("queued", "running", "parked", "delayed", "slots")
    assert [found[name] for name in totals] == [2, 1, 1, 0, 8]
    assert (found["guilds"][0]["guild"], found["guilds"][0]["parked"]) == ("7", 1)
    assert [one["state"] for one in found["workers"]] == ["taking turns", "cordoned"]
    assert (found["pauses"][0]["paused"], found["pauses"][0]["parked_lanes"]) == (
        "provider:other",
        1,
    )
    table = await run(command, "status")
    for word in ("Guilds", "Workers", "Paused", "provider:other", "w-two"):
        assert word in table.stdout


@pytest.mark.parametrize(
    ("verb", "word"), [("drain", "!drain"), ("cordon", "!cordon"), ("uncordon", "!uncordon")]
)
async def test_an_order_lies_on_the_workers_list(
    command: Command, client: Redis, keys: Keys, verb: str, word: str
):
    await a_worker(client, keys, "w-one")
    result = await run(command, verb, "w-o")
    assert result.exit_code == 0, result.output
    assert await within(client.lrange(keys.control("w-one"), 0, -1)) == [word.encode()]
    assert await client.pttl(keys.control("w-one")) > 0


async def test_orders_need_one_living_worker(command: Command, client: Redis, keys: Keys):
    assert (await run(command, "drain", "w")).exit_code == Exit.MISSING
    await a_worker(client, keys, "w-one")
    await a_worker(client, keys, "w-two")
    assert (await run(command, "drain", "w-")).exit_code == Exit.BAD_INPUT
    assert not await client.exists(keys.control("w-one"))


async def test_a_pause_and_its_end(command: Command, client: Redis, queue: TurnQueue):
    await run(command, "pause", "guild=7")
    await queue.admit(turn("l1"))
    assert await queue.claim("w", 1) == []
    # As `status` writes it, and as it was paused: both are understood.
    assert (await run(command, "resume", "guild:7")).exit_code == 0
    assert len(await queue.claim("w", 1)) == 1
    assert (await run(command, "resume", "guild=7")).exit_code == Exit.MISSING


@pytest.mark.parametrize(
    ("more", "seconds"),
    [
        (("--for", "10m"), 300),
        (("--for", "301s"), 300),
        (("--for", "5m"), None),
        ((), 300),
    ],
    ids=["longer", "a second longer", "as long", "without an end"],
)
async def test_a_pause_says_what_ends_meanwhile(
    command: Command, client: Redis, more: tuple[str, ...], seconds: int | None
):
    result = await run(command, "pause", "provider=other", *more)
    assert result.exit_code == 0
    assert ("request_timeout" in result.stderr) is (seconds is not None)
    if seconds is not None:
        for words in (f"{seconds} s", "TURNFLEET_TURN_DEADLINE_S", "turns replay"):
            assert words in result.stderr


async def test_a_pause_knows_the_deadline_of_its_deployment(
    server: RedisServer, tmp_path: Path, client: Redis
):
    patient = Command(tmp_path, {"redis_url": server.url, "cell": CELL, "turn_deadline_s": "900"})
    assert "request_timeout" not in (await run(patient, "pause", "--for", "10m")).stderr
    assert "900 s" in (await run(patient, "pause", "--for", "20m")).stderr


@pytest.mark.parametrize("what", ["guild", "guild=", "server=7", "everything"])
async def test_what_cannot_be_paused_is_refused(command: Command, what: str):
    result = await run(command, "pause", what)
    assert result.exit_code == Exit.BAD_INPUT


async def test_the_audit_finds_and_repairs(
    command: Command, client: Redis, keys: Keys, queue: TurnQueue
):
    await queue.admit(turn("l1"))
    assert (await run(command, "audit")).exit_code == 0
    await within(client.hset(keys.depth, "7", "5"))
    found = await run(command, "audit")
    assert found.exit_code == Exit.FOUND
    assert "turns of a guild" in found.stdout
    assert (await run(command, "audit", "--repair")).exit_code == 0
    assert (await run(command, "audit")).exit_code == 0


async def test_a_turn_shows_what_it_waits_for(command: Command, client: Redis, queue: TurnQueue):
    await queue.admit(turn("l1"))
    await queue.admit(turn("l2"))
    shown = await asyncio.to_thread(command, "turns", "show", "l2", "-o", "json")
    found = json.loads(shown.stdout)
    assert (found["waits_for"], found["ahead"]) == ("lane", 1)
    await queue.claim("w", 1)
    shown = await asyncio.to_thread(command, "turns", "show", "l1", "-o", "json")
    assert "waits_for" not in json.loads(shown.stdout)

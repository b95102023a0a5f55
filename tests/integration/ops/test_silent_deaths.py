"""Every way in which arq gives a job up without a word: one terminal event, and one row."""

import asyncio
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shared.config import Settings
from shared.edges.queue import TurnQueue
from shared.edges.redis import connect, within
from shared.keys import Keys
from shared.segments import TurnFailed
from tests.support.processes import Turnfleet, wait_until
from tests.support.servers import RedisServer, running_server
from tests.support.turns import out_entries, turn

CELL = "silent"
DEATHS = {
    "gone": None,
    "pickled": pickle.dumps("a job"),
    "unreadable": b"\xc1",
    "unknown": msgspec.msgpack.encode({"t": None, "f": "drop", "a": [], "k": {}, "et": 1}),
    "misfit": msgspec.msgpack.encode({"t": None, "f": "run_turn", "a": [1, 2], "k": {}, "et": 1}),
}


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


async def spoil(url: str) -> None:
    """Admits a turn for each kind of death, one that tried too often, and one that waited."""
    redis, keys = connect(url), Keys(CELL)
    queue = TurnQueue(redis, keys, Settings())
    for n, (name, payload) in enumerate(DEATHS.items()):
        await queue.admit(turn(name, channel=n))
        await redis.delete(keys.job(name))
        if payload is not None:
            await redis.set(keys.job(name), payload)
    await queue.admit(turn("tired", channel=50))
    await redis.set("arq:retry:tired", 10**7)
    await queue.admit(turn("late", channel=51, wait_ms=3_600_000))
    await redis.zadd(keys.waiting, {"late": 1})
    await within(redis.hset(keys.turn("late"), "deadline", "1"))
    await redis.aclose(close_connection_pool=True)


async def ends(url: str) -> dict[str, list[str]]:
    redis = connect(url)
    found: dict[str, list[str]] = {}
    for envelope in await out_entries(redis, Keys(CELL)):
        assert isinstance(envelope.event, TurnFailed)
        found.setdefault(envelope.turn_id, []).append(envelope.event.cause)
    await redis.aclose(close_connection_pool=True)
    return found


def test_each_has_one_terminal_event_and_one_row(server: RedisServer, tmp_path: Path):
    asyncio.run(spoil(server.url))
    fleet = Turnfleet(tmp_path, redis_url=server.url, cell=CELL)
    expected = dict.fromkeys((*DEATHS, "tired"), "internal_error")
    expected["late"] = "request_timeout"
    rows: list[dict[str, Any]] = []

    def are_recorded() -> bool:
        found: Any = fleet.json("errors", "list")
        rows[:] = found
        return len(rows) >= len(expected)

    assert fleet.run("db", "upgrade").exit_code == 0
    with (
        fleet.running("worker", ready="worker.started"),
        fleet.running("recorder", ready="recorder.started"),
    ):
        wait_until(are_recorded)
    assert {row["turn_id"]: row["error_type"] for row in rows} == expected
    assert len(rows) == len(expected)
    assert asyncio.run(ends(server.url)) == {name: [why] for name, why in expected.items()}

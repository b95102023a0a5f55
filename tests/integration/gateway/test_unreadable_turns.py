"""Buttons and commands for a turn whose record is of another version: it counts as gone."""

from collections.abc import Iterator

import pytest
from redis.asyncio import Redis

from gateway.asks import Again
from gateway.edges.people import StoredTurns
from shared.config import Settings
from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords
from shared.keys import Keys
from tests.support.servers import RedisServer, running_server
from tests.support.turns import turn

ROUTES = {
    "another version's front": '{"front":"telepathy","channel_id":7,"reply_to":1}',
    "deeper than anything": '{"x":' + "[" * 100_000,
}


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as running:
        yield running


@pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)
async def test_it_is_neither_seen_nor_asked_again_and_hides_no_other(redis: Redis, route: str):
    queue = TurnQueue(redis, Keys(), Settings())
    turns = StoredTurns(queue, TurnRecords(redis, queue.keys))
    for name in ("l1", "l2"):
        await queue.admit(turn(name))
    await redis.hset(queue.keys.turn("l1"), "route", route)  # type: ignore[misc]  # redis-py
    assert await turns.look("l1") is None
    assert await turns.retry("l1") is Again.GONE
    key = queue.keys.recent_turns(turn("l2").route.channel_id)
    await redis.lpush(key, "l1", "l2")  # type: ignore[misc]  # redis-py
    assert [seen.turn_id for seen in await turns.recent(turn("l2").route.channel_id)] == ["l2"]

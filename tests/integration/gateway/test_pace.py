"""How much one person may ask at once, over a real Redis with the real queue's records."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest_asyncio
from redis.asyncio import Redis

from gateway.context import Paced
from gateway.edges.pace import Pace
from shared.config import Settings
from shared.configuration.loading import Loaded
from shared.edges.redis import connect, within
from shared.keys import Keys
from tests.support.configurations import configuration_of
from tests.support.servers import running_server


@pytest_asyncio.fixture
async def redis() -> AsyncIterator[Redis]:
    with running_server("redis") as server:
        async with aclosing(connect(server.url)) as client:
            yield client


def pace(redis: Redis, limits: str) -> Pace:
    configuration = configuration_of(f"[limits]\n{limits}\n")
    loaded = Loaded(settings=Settings(), configuration=configuration)
    return Pace(redis, Keys(), lambda: loaded)


async def put(redis: Redis, key: str, field: str, value: str) -> None:
    await within(redis.hset(key, field, value))


async def test_a_person_has_so_many_turns_at_once_and_gets_places_back(redis: Redis):
    asked, keys = pace(redis, "user_depth = 2"), Keys()
    for turn_id in ("m1", "m2"):
        assert await asked.ask(5, turn_id, is_late=False) is Paced.TAKEN
        await put(redis, keys.turn(turn_id), "state", "queued")
    assert await asked.ask(5, "m3", is_late=False) is Paced.TOO_MANY
    assert await asked.ask(5, "m2", is_late=False) is Paced.TAKEN  # the same prompt again
    assert await asked.ask(6, "m4", is_late=False) is Paced.TAKEN  # another person
    await put(redis, keys.turn("m1"), "state", "done")
    assert await asked.ask(5, "m3", is_late=False) is Paced.TAKEN
    assert await redis.pttl(keys.person(5)) > 0
    # A turn that was refused after all, or is forgotten, holds no place.
    await redis.delete(keys.turn("m2"))
    await put(redis, keys.person(5), "m2", "1")
    assert await asked.ask(5, "m5", is_late=False) is Paced.TAKEN


async def test_a_person_waits_between_two_prompts(redis: Redis):
    asked = pace(redis, "user_cooldown_s = 0.3")
    assert await asked.ask(5, "m1", is_late=False) is Paced.TAKEN
    assert await asked.ask(5, "m2", is_late=False) is Paced.TOO_SOON
    assert await asked.ask(5, "m1", is_late=False) is Paced.TAKEN
    assert await asked.ask(5, "m2", is_late=True) is Paced.TAKEN  # written while nobody listened
    await asyncio.sleep(0.31)
    assert await asked.ask(5, "m3", is_late=False) is Paced.TAKEN


async def test_without_bounds_nothing_is_kept(redis: Redis):
    assert await pace(redis, "user_depth = 0").ask(5, "m1", is_late=False) is Paced.TAKEN
    assert await redis.exists(Keys().person(5)) == 0

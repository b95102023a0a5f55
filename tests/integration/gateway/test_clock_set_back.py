"""A server whose clock is set back: nothing that was noted ahead of it keeps anybody waiting.

The clock itself cannot be moved here, so times are planted as far ahead as they then lie.
"""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from gateway.context import Paced
from gateway.edges.budget import RequestBudget
from gateway.edges.leadership import PartitionLease
from gateway.edges.pace import Pace
from gateway.edges.shard_leases import SHARD_LEASE_MS, RedisShards
from gateway.edges.store import GatewayFleet
from gateway.front import Rank
from shared.alerts import Alert, AlertKind
from shared.config import Settings
from shared.edges.alerts import Alerts
from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords
from shared.edges.redis import within
from shared.keys import Keys
from shared.turns import Target
from tests.support.servers import RedisServer, flavors, running_server
from worker.edges.traffic import FleetTraffic
from worker.failures.traffic import Traffic

KEYS = Keys("clock", partitions=1)
HOUR_MS = 3_600_000
LIMIT = 20
TARGET = Target(provider="rehearsal", model="plain")


@pytest.fixture(scope="module", params=flavors())
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    with running_server(request.param) as running:
        yield running


async def now_ms(redis: Redis) -> int:
    seconds, micros = await within(redis.time())
    return int(seconds) * 1000 + int(micros) // 1000


async def test_requests_ahead_of_the_clock_count_as_none(redis: Redis):
    budget, key = RequestBudget(redis, KEYS, "bot", limit=LIMIT), KEYS.budget("bot")
    ahead = await now_ms(redis) + HOUR_MS
    await within(redis.lpush(key, *[ahead] * LIMIT))
    async with budget.running(), asyncio.timeout(1):
        await budget.permit(Rank.FIRST)
    kept = await within(redis.lrange(key, 0, -1))
    assert [int(one) < ahead for one in kept] == [True]


async def test_a_person_who_asked_ahead_of_the_clock_may_ask_again(redis: Redis):
    limits = SimpleNamespace(user_depth=1, user_cooldown_s=2)
    loaded = cast("Any", SimpleNamespace(configuration=SimpleNamespace(limits=limits)))
    ahead = await now_ms(redis) + HOUR_MS
    # The turn of then has no record: it was refused after all.
    await within(redis.hset(KEYS.person(1), mapping={"m1": ahead, "last": ahead}))
    assert await Pace(redis, KEYS, lambda: loaded).ask(1, "m2", is_late=False) is Paced.TAKEN


async def test_a_lease_that_lies_ahead_ends_as_soon_as_any(redis: Redis):
    await within(redis.set(KEYS.leader(0), "dead", px=HOUR_MS))
    lease = PartitionLease(redis, KEYS, 0, "living")
    assert not await lease.take()
    assert await redis.pttl(KEYS.leader(0)) <= 3_000


async def test_shards_of_who_died_ahead_of_the_clock_are_taken(redis: Redis):
    ahead = await now_ms(redis) + HOUR_MS
    gateways = {"2|dead": f"{ahead}|{ahead}", "clock": ahead, "grace": ahead}
    await within(redis.hset(KEYS.front("gateways"), mapping=gateways))
    leases = {f"{shard}/2": f"{ahead}|dead|connected|{ahead}" for shard in range(2)}
    await within(redis.hset(KEYS.front("leases"), mapping=leases))
    living = RedisShards(redis, KEYS, "living", wanted=2, lease_ms=200)
    await living.agree(2)
    assert (await living.beat({})).taken == ()
    taken: set[int] = set()
    async with asyncio.timeout(SHARD_LEASE_MS / 1000):
        while len(taken) < 2:
            await asyncio.sleep(0.05)
            taken |= {given.shard for given in (await living.beat({})).taken}


async def test_a_session_may_begin_although_the_last_one_lies_ahead(redis: Redis):
    leases = RedisShards(redis, KEYS, "living", wanted=1)
    await leases.agree(1)
    assert len((await leases.beat({})).taken) == 1
    await within(redis.set(KEYS.front("identify:0"), "dead", px=HOUR_MS))
    assert await leases.may_identify(0, 0) == 0
    assert 0 < await leases.may_identify(0, 0) < 6


async def test_a_breaker_that_is_open_ahead_of_the_clock_lets_one_try(redis: Redis):
    traffic, key = FleetTraffic(redis, KEYS), KEYS.traffic(TARGET.provider, TARGET.model)
    ahead = await now_ms(redis) + HOUR_MS
    await within(redis.hset(key, mapping={"open": ahead, "probe": ahead, "cause": "overloaded"}))
    assert (await traffic.ask(TARGET, again=False)).word is Traffic.GO
    assert (await traffic.ask(TARGET, again=False)).word is Traffic.SHUT


async def test_an_alert_is_raised_although_the_last_one_lies_ahead(redis: Redis):
    alert = Alert(kind=AlertKind.SPIKE, subject="x")
    assert await Alerts(redis, KEYS).send(alert)
    assert not await Alerts(redis, KEYS).send(alert)
    await within(redis.pexpire(KEYS.alert_mark(alert.name), 1000 * HOUR_MS))
    assert await Alerts(redis, KEYS).send(alert)
    assert not await Alerts(redis, KEYS).send(alert)


async def test_a_channel_that_refused_ahead_of_the_clock_is_no_longer_left_alone(redis: Redis):
    queue, records = TurnQueue(redis, KEYS, Settings()), TurnRecords(redis, KEYS)
    fleet = GatewayFleet(queue)
    await fleet.block_channel(5)
    assert await records.is_blocked(5)
    await within(redis.pexpire(KEYS.send_block(5), HOUR_MS))
    assert not await records.is_blocked(5)
    await fleet.refuse_files(5)
    assert not await fleet.takes_files(5)
    await within(redis.pexpire(KEYS.no_files(5), 24 * HOUR_MS))
    assert await fleet.takes_files(5)

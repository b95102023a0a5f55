"""Breakers and retry budgets on real servers: one state for the whole fleet."""

import asyncio

import pytest
from redis.asyncio import Redis

from shared.causes import Cause
from shared.edges.redis import connect
from shared.keys import Keys
from shared.lifetimes import TRAFFIC_TTL_MS
from shared.turns import Target
from tests.support.servers import free_port
from worker.edges.traffic import FleetTraffic, TrafficPolicy
from worker.failures.traffic import Signal, Traffic

MODEL = Target(provider="openai", model="gpt")
OTHER = Target(provider="openai", model="other")
POLICY = TrafficPolicy(
    failures_in_a_row=3, spacing_ms=0, open_ms=60_000, window_ms=10**12, free_retries=2
)
BRIEF = TrafficPolicy(failures_in_a_row=3, spacing_ms=0, open_ms=0, probe_ms=60_000)


@pytest.fixture
def traffic(client: Redis, keys: Keys) -> FleetTraffic:
    return FleetTraffic(client, keys, POLICY)


async def fail(traffic: FleetTraffic, times: int) -> None:
    for _ in range(times):
        await traffic.heard(MODEL, "overloaded")


async def test_failures_in_a_row_open_the_breaker_for_everybody(
    client: Redis, keys: Keys, traffic: FleetTraffic
):
    await fail(traffic, 2)
    assert (await traffic.ask(MODEL, again=False)).word is Traffic.GO
    await fail(traffic, 1)
    elsewhere = FleetTraffic(client, keys, POLICY)
    assert (await elsewhere.ask(MODEL, again=False)).word is Traffic.SHUT
    assert (await elsewhere.ask(OTHER, again=False)).word is Traffic.GO


async def test_who_is_held_back_hears_what_shut_the_model(traffic: FleetTraffic):
    await fail(traffic, 2)
    await traffic.heard(MODEL, "network_timeout")
    signal = await traffic.ask(MODEL, again=False)
    assert signal == Signal(word=Traffic.SHUT, cause=Cause.NETWORK_TIMEOUT)


async def test_a_hundred_streams_that_break_at_once_may_all_be_asked_again(
    client: Redis, keys: Keys
):
    """One event, such as a host that is deployed anew: no outage, and no storm either."""
    traffic = FleetTraffic(client, keys)

    async def turn() -> Traffic:
        assert (await traffic.ask(MODEL, again=False)).word is Traffic.GO
        await all_asked.wait()
        await traffic.heard(MODEL, "connection_lost")
        return (await traffic.ask(MODEL, again=True)).word

    all_asked = asyncio.Barrier(100)
    async with asyncio.TaskGroup() as group:
        turns = [group.create_task(turn()) for _ in range(100)]
    assert [task.result() for task in turns] == [Traffic.GO] * 100
    assert (await traffic.ask(MODEL, again=True)).word is Traffic.SPENT


async def test_failures_of_one_moment_count_once(client: Redis, keys: Keys):
    spaced = FleetTraffic(
        client, keys, TrafficPolicy(failures_in_a_row=2, spacing_ms=60_000, open_ms=60_000)
    )
    await fail(spaced, 20)
    assert (await spaced.ask(MODEL, again=False)).word is Traffic.GO
    await client.hset(keys.traffic("openai", "gpt"), "counted", "1")  # type: ignore[misc]  # redis-py types both clients
    await fail(spaced, 1)
    assert (await spaced.ask(MODEL, again=False)).word is Traffic.SHUT


async def test_an_answer_between_closes_it(traffic: FleetTraffic):
    await fail(traffic, 2)
    await traffic.heard(MODEL, None)
    await fail(traffic, 2)
    assert (await traffic.ask(MODEL, again=False)).word is Traffic.GO


async def test_when_it_has_been_open_one_turn_tries_and_the_others_wait(client: Redis, keys: Keys):
    traffic = FleetTraffic(client, keys, BRIEF)
    await fail(traffic, 3)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(traffic.ask(MODEL, again=False)) for _ in range(8)]
    assert [task.result().word for task in tasks].count(Traffic.GO) == 1
    await traffic.heard(MODEL, None)
    assert (await traffic.ask(MODEL, again=False)).word is Traffic.GO


async def test_a_probe_that_fails_opens_it_again(client: Redis, keys: Keys):
    brief, long = FleetTraffic(client, keys, BRIEF), FleetTraffic(client, keys, POLICY)
    await fail(brief, 3)
    assert (await brief.ask(MODEL, again=False)).word is Traffic.GO
    await fail(long, 1)
    assert (await long.ask(MODEL, again=False)).word is Traffic.SHUT


async def test_a_tenth_of_the_firsts_may_be_retried_and_some_always(traffic: FleetTraffic):
    free = [(await traffic.ask(MODEL, again=True)).word for _ in range(3)]
    assert free == [Traffic.GO, Traffic.GO, Traffic.SPENT]
    for _ in range(30):
        await traffic.ask(MODEL, again=False)
    assert (await traffic.ask(MODEL, again=True)).word is Traffic.GO
    assert (await traffic.ask(MODEL, again=True)).word is Traffic.SPENT


async def test_a_new_window_has_a_new_budget(client: Redis, keys: Keys):
    policy = TrafficPolicy(window_ms=1, free_retries=1)
    traffic = FleetTraffic(client, keys, policy)
    async with asyncio.timeout(10):
        assert (await traffic.ask(MODEL, again=True)).word is Traffic.GO
        while (await traffic.ask(MODEL, again=True)).word is not Traffic.GO:
            pass


async def test_the_state_is_forgotten(client: Redis, keys: Keys, traffic: FleetTraffic):
    await fail(traffic, 3)
    assert 0 < await client.pttl(keys.traffic("openai", "gpt")) <= TRAFFIC_TTL_MS


async def test_without_redis_everybody_may_ask(keys: Keys):
    away = connect(f"redis://127.0.0.1:{free_port()}/0")
    traffic = FleetTraffic(away, keys)
    await traffic.heard(MODEL, "overloaded")
    assert (await traffic.ask(MODEL, again=True)).word is Traffic.GO
    await away.aclose()

"""Pools of keys on real servers: claimed in turn by everybody, and left alone when they must be."""

import asyncio
from collections import Counter

import pytest
from redis.asyncio import Redis

from shared.edges.queue import TurnQueue
from shared.edges.redis import connect
from shared.errors import ConfigError
from shared.keys import Keys
from shared.lifetimes import KEY_POOL_TTL_MS
from shared.secrets import Secret
from shared.turns import CredentialSource, Target
from tests.support.servers import free_port
from tests.support.turns import SNOWFLAKE, turn
from worker.edges.keys import MAX_REST_MS, KeyPools, key_id

ENVIRON = {"OPENAI_API_KEYS": "sk-a sk-b sk-c", "ANTHROPIC_API_KEY": "sk-ant-1"}
A, B, C = (key_id(Secret(text)) for text in ("sk-a", "sk-b", "sk-c"))
NONE: frozenset[str] = frozenset()


@pytest.fixture
def pools(client: Redis, keys: Keys) -> KeyPools:
    return KeyPools(client, keys, {}, ENVIRON)


async def chosen(pools: KeyPools, tried: frozenset[str] = NONE) -> tuple[str | None, int]:
    keyed = await pools.endpoint("openai", tried)
    return keyed.key_id, keyed.others


async def test_keys_are_used_in_turn(pools: KeyPools):
    first = [await chosen(pools) for _ in range(3)]
    assert {one for one, _ in first} == {A, B, C}
    assert [others for _, others in first] == [2, 2, 2]
    assert [await chosen(pools) for _ in range(3)] == first


async def test_workers_that_claim_at_once_share_the_pool_evenly(client: Redis, keys: Keys):
    workers = [KeyPools(client, keys, {}, ENVIRON) for _ in range(5)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(chosen(one)) for one in workers for _ in range(6)]
    assert set(Counter(task.result()[0] for task in tasks).values()) == {10}


async def test_the_endpoint_carries_the_chosen_key(pools: KeyPools):
    keyed = await pools.endpoint("openai", NONE)
    assert keyed.endpoint.key is not None
    assert key_id(keyed.endpoint.key) == keyed.key_id


async def test_a_resting_key_is_passed_over_by_everybody(pools: KeyPools):
    await pools.rest("openai", A, 60)
    assert {(await chosen(pools))[0] for _ in range(4)} == {B, C}
    assert (await chosen(pools))[1] == 1


async def test_a_tried_key_is_passed_over_in_its_turn(pools: KeyPools):
    assert await chosen(pools, frozenset({A, C})) == (B, 0)


async def test_where_all_rest_the_one_that_wakes_first_is_given(pools: KeyPools):
    for one, rest_s in ((A, 300), (B, 60), (C, 200)):
        await pools.rest("openai", one, rest_s)
    assert await chosen(pools) == (B, 0)
    assert await chosen(pools, frozenset({B})) == (C, 0)


async def test_where_all_were_tried_one_is_given_all_the_same(pools: KeyPools):
    assert (await chosen(pools, frozenset({A, B, C})))[1] == 0


async def test_a_rest_ends_by_itself(pools: KeyPools, client: Redis):
    await pools.rest("openai", A, 0.01)
    seconds, micros = await client.time()
    until = seconds * 1000 + micros // 1000 + 10
    while (now := await client.time())[0] * 1000 + now[1] // 1000 <= until:
        await asyncio.sleep(0)
    assert {(await chosen(pools))[0] for _ in range(3)} == {A, B, C}


async def test_a_rest_is_never_made_shorter_and_never_endless(
    pools: KeyPools, client: Redis, keys: Keys
):
    for rest_s in (10**9, 1):
        await pools.rest("openai", A, rest_s)
    seconds, _ = await client.time()
    until = await client.hget(keys.key_pool("openai"), f"r:{A}")  # type: ignore[misc]  # redis-py types both clients
    assert 0 <= int(until or 0) - (seconds * 1000 + MAX_REST_MS) < 10_000


async def test_the_record_lives_longer_than_any_rest_and_names_no_key(
    pools: KeyPools, client: Redis, keys: Keys
):
    await chosen(pools)
    name = keys.key_pool("openai")
    assert MAX_REST_MS < await client.pttl(name) <= KEY_POOL_TTL_MS
    assert b"sk-" not in b" ".join(await client.hkeys(name))  # type: ignore[misc]  # see above


async def test_a_single_key_needs_no_pool(pools: KeyPools, client: Redis):
    keyed = await pools.endpoint("anthropic", NONE)
    assert (keyed.key_id, keyed.others) == (key_id(Secret("sk-ant-1")), 0)
    assert await client.dbsize() == 0


async def test_without_a_key_the_endpoint_stands_alone(pools: KeyPools):
    assert (await pools.endpoint("ollama", NONE)).key_id is None
    with pytest.raises(ConfigError):
        await pools.endpoint("my-box", NONE)


async def test_without_redis_a_turn_goes_on_with_an_untried_key(keys: Keys):
    away = connect(f"redis://127.0.0.1:{free_port()}/0")
    pools = KeyPools(away, keys, {}, ENVIRON)
    await pools.rest("openai", A, 60)
    assert await chosen(pools, frozenset({A})) == (B, 1)
    await away.aclose()


async def test_a_turn_with_a_credential_waits_for_a_server_that_is_away(keys: Keys):
    away = connect(f"redis://127.0.0.1:{free_port()}/0")
    pools = KeyPools(away, keys, {}, ENVIRON)
    request = turn(
        "l1",
        credential=f"personal:{SNOWFLAKE - 1}:openai:main",
        credential_source=CredentialSource.PERSONAL,
    )
    asking = asyncio.create_task(pools.endpoint("openai", NONE, request))
    done, _ = await asyncio.wait({asking}, timeout=1.5)
    assert not done
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await away.aclose()


async def test_turns_wait_once_every_key_of_the_pool_rests(
    client: Redis, keys: Keys, queue: TurnQueue
):
    pools = KeyPools(client, keys, {}, ENVIRON, park=queue.pause)
    asked = turn("l1", target=Target(provider="openai", model="m"))
    await queue.admit(asked)
    await chosen(pools)
    for name in (A, B):
        await pools.rest("openai", name, 40)
    assert not await client.exists(keys.pauses)
    await pools.rest("openai", C, 30)
    assert await queue.claim("w1", 8) == []
    until_ms = await client.zscore(keys.pauses, "rest:openai:server")
    seconds, _ = await client.time()
    assert until_ms is not None
    assert 28 <= until_ms / 1000 - seconds <= 31  # the key that is back first


@pytest.mark.parametrize("rest_s", [0.1, 3600.0], ids=["a moment", "a day's quota"])
async def test_turns_do_not_wait_for_what_is_over_at_once_or_not_today(
    client: Redis, keys: Keys, queue: TurnQueue, rest_s: float
):
    pools = KeyPools(client, keys, {}, {"OPENAI_API_KEY": "sk-a"}, park=queue.pause)
    await chosen(pools)
    await pools.rest("openai", A, rest_s)
    assert not await client.exists(keys.pauses)

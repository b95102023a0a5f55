"""The request budget on a real server: never more than the limit, the better rank first."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from redis.asyncio import Redis

from gateway.edges.budget import GLOBAL, WIDEN_MS, WINDOW_MS, RequestBudget, bot_name
from gateway.edges.clock import SystemClock
from gateway.front import SHARES, Rank
from shared.edges.redis import connect
from shared.keys import Keys
from tests.support.servers import RedisServer, running_server

KEYS = Keys("budget")
LIMIT = 20


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as running:
        yield running


@pytest.fixture
async def redis(server: RedisServer) -> AsyncIterator[Redis]:
    client = connect(server.url)
    await client.flushall()
    yield client
    await client.aclose()


async def test_two_gateways_together_never_exceed_the_limit(redis: Redis):
    budgets = [RequestBudget(redis, KEYS, "bot", limit=LIMIT) for _ in range(2)]
    granted: list[float] = []

    async def ask(budget: RequestBudget) -> None:
        await budget.permit(Rank.FIRST)
        granted.append(time.monotonic())

    async with budgets[0].running(), budgets[1].running(), asyncio.TaskGroup() as group:
        for number in range(3 * LIMIT):
            group.create_task(ask(budgets[number % 2]))
        async with asyncio.timeout(10):
            while max(budget.load for budget in budgets) <= 1:
                await asyncio.sleep(0.01)
    assert len(granted) == 3 * LIMIT
    for at, start in enumerate(granted[:-LIMIT]):
        assert granted[at + LIMIT] - start > 0.95 * WINDOW_MS / 1000


async def test_the_better_rank_goes_first_and_the_rest_in_their_order(redis: Redis):
    budget = RequestBudget(redis, KEYS, "bot", limit=2)
    order: list[str] = []

    async def ask(rank: Rank, name: str) -> None:
        await budget.permit(rank)
        order.append(name)

    async with budget.running(), asyncio.TaskGroup() as group:
        for number in range(2):
            await budget.permit(Rank.FIRST)
            del number
        waiting = [
            (Rank.EDIT, "edit"),
            (Rank.FURTHER, "further 1"),
            (Rank.FURTHER, "further 2"),
            (Rank.NOTICE, "notice"),
            (Rank.FIRST, "first"),
        ]
        for rank, name in waiting:
            group.create_task(ask(rank, name))
    assert order == ["first", "notice", "further 1", "further 2", "edit"]


async def test_what_is_worth_less_leaves_room_for_what_is_worth_more(redis: Redis):
    budget = RequestBudget(redis, KEYS, "bot", limit=100)
    signs = 0
    while await budget.may(Rank.TYPING):
        signs += 1
    assert signs <= 100 * SHARES[Rank.TYPING]
    async with budget.running(), asyncio.timeout(0.5):
        for _ in range(100 - signs):
            await budget.permit(Rank.FIRST)


async def test_typing_thins_out_under_load_and_comes_back(redis: Redis):
    budget = RequestBudget(redis, KEYS, "bot", limit=5)
    async with budget.running(), asyncio.TaskGroup() as group:
        for _ in range(10):
            group.create_task(budget.permit(Rank.FIRST))
        await asyncio.sleep(0.2)
        assert budget.load >= SHARES[Rank.TYPING]
        assert not await budget.may(Rank.TYPING)
        async with asyncio.timeout(10):
            while not await budget.may(Rank.TYPING):
                await asyncio.sleep(0.1)


async def test_what_was_refused_counts_once_more_and_is_waited_for(redis: Redis):
    """A 429 is made again by the client, without a permit; others must make room for it."""
    budget = RequestBudget(redis, KEYS, "bot", limit=LIMIT)
    begun_s = time.monotonic()
    for _ in range(LIMIT - 1):
        budget.refused(GLOBAL, 0.2)
    budget.refused("user", 5.0)
    assert not await budget.may(Rank.TYPING)
    async with budget.running(), asyncio.timeout(10):
        await budget.permit(Rank.FIRST)
    waited_s = time.monotonic() - begun_s
    assert waited_s > 0.2 + (WINDOW_MS + WIDEN_MS) / 1000 * 0.95


async def test_who_is_cancelled_takes_no_permit_and_stops_nobody(redis: Redis):
    budget = RequestBudget(redis, KEYS, "bot", limit=1)
    async with budget.running(), asyncio.timeout(5):
        await budget.permit(Rank.FIRST)
        gone = asyncio.ensure_future(budget.permit(Rank.FIRST))
        await asyncio.sleep(0.05)
        gone.cancel()
        await budget.permit(Rank.FURTHER)


async def test_without_a_server_everything_is_permitted(server: RedisServer):
    client = connect("redis://127.0.0.1:1/0")
    budget = RequestBudget(client, KEYS, "bot", limit=1)
    async with budget.running(), asyncio.timeout(20):
        await budget.permit(Rank.FIRST)
        await budget.permit(Rank.FURTHER)
    await client.aclose()


async def test_whoever_waits_at_the_end_is_let_go(redis: Redis):
    budget = RequestBudget(redis, KEYS, "bot", limit=1)
    async with asyncio.timeout(5):
        async with budget.running():
            await budget.permit(Rank.FIRST)
            late = asyncio.ensure_future(budget.permit(Rank.FIRST))
            await asyncio.sleep(0)
        await late
        await budget.permit(Rank.FIRST)


async def test_the_keys_of_a_budget_go_away_and_tell_nothing_of_the_token(redis: Redis):
    token = "MTIzNDU2.secret.part"
    budget = RequestBudget(redis, KEYS, bot_name(token), limit=5)
    await budget.may(Rank.FIRST)
    keys = await redis.keys("*")
    assert len(keys) == 2
    assert all([await redis.pttl(key) > 0 for key in keys])
    assert not [key for key in keys if b"MTIz" in key or b"secret" in key]


async def test_the_clock_of_delivery_is_that_of_the_server(redis: Redis, monkeypatch):
    clock = SystemClock()
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 3_600)
    await clock.set_by(redis)
    assert clock.now_s() == pytest.approx(real(), abs=2)

"""Requests that Discord refuses are counted as it counts them, and held back before it bans us."""

import asyncio
from collections.abc import Iterator

import pytest

from gateway.edges.discord import DiscordFront
from gateway.edges.discord_connection import DiscordOptions
from gateway.edges.refusals import (
    PAUSE_AT,
    STOP_AT,
    WARN_AT,
    GuardedBudget,
    Refusals,
)
from gateway.front import Boundless, OutgoingMessage, Rank, Refused, Sent
from ops.rehearsal.discord.faults import Fault
from shared.keys import Keys
from tests.support.discord import MemoryMarks, running_discord
from tests.support.servers import RedisServer, running_server

KEYS = Keys()
NOW_S = 1_800_000_000.0


class Clock:
    now_s = NOW_S

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as running:
        yield running


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.parametrize(
    ("status", "scope", "counts"),
    [
        (200, "", False),
        (401, "", True),
        (403, "", True),
        (404, "", False),
        (429, "", True),
        (429, "user", True),
        (429, "global", True),
        (429, "shared", False),
        (502, "", False),
    ],
)
def test_what_counts(redis, clock, status, scope, counts):
    refusals = Refusals(redis, KEYS, now_s=clock)
    refusals.note(status, scope)
    assert refusals.count == counts


async def test_gateways_count_together_and_forget_after_ten_minutes(redis, clock):
    first, second = (Refusals(redis, KEYS, now_s=clock) for _ in range(2))
    for _ in range(3):
        first.note(403, "")
    second.note(429, "user")
    assert (first.count, second.count) == (3, 1), "before they have told each other"
    for one in (first, second, first):
        await one.tell()
    assert (first.count, second.count) == (4, 4)
    clock.now_s += 300
    first.note(401, "")
    await first.tell()
    await second.tell()
    assert (first.count, second.count) == (5, 5)
    clock.now_s += 301
    await first.tell()
    assert first.count == 1
    for name in await redis.keys("*"):
        assert await redis.pttl(name) > 0


def noted(refusals: Refusals, many: int) -> None:
    while refusals.count < many:
        refusals.note(403, "")


async def test_what_can_wait_waits_first_and_then_everything(redis, clock, caplog):
    refusals = Refusals(redis, KEYS, now_s=clock)
    budget = GuardedBudget(Boundless(), refusals)
    noted(refusals, WARN_AT)
    assert all(refusals.allows(rank) for rank in Rank)
    noted(refusals, PAUSE_AT)
    allowed = {rank for rank in Rank if refusals.allows(rank)}
    assert allowed == {Rank.FIRST, Rank.NOTICE, Rank.FURTHER}
    assert not await budget.may(Rank.TYPING)
    assert budget.load == 0.0
    noted(refusals, STOP_AT)
    assert not any(refusals.allows(rank) for rank in Rank)
    assert budget.load == 1.0, "new prompts hear that the bot is busy"
    told = [one for one in caplog.records if one.message == "discord.many_refused"]
    assert [(one.levelname, one.count) for one in told] == [
        ("WARNING", WARN_AT),
        ("ERROR", PAUSE_AT),
        ("ERROR", STOP_AT),
    ]


async def test_who_waits_goes_on_once_the_refusals_are_over(redis, clock):
    refusals = Refusals(redis, KEYS, now_s=clock)
    noted(refusals, STOP_AT)
    looks = 0

    async def sleep(seconds: float) -> None:
        nonlocal looks
        looks += 1
        clock.now_s += 300

    await GuardedBudget(Boundless(), refusals, sleep=sleep).permit(Rank.FIRST)
    assert looks == 2


async def test_every_answer_of_discord_is_seen_those_that_are_repeated_too(redis):
    async with running_discord() as discord:
        channel = discord.world.add_channel(discord.world.add_guild().id)
        refusals = Refusals(redis, KEYS)
        front = DiscordFront(
            DiscordOptions(token=discord.token, rest_url=discord.rest_url),
            MemoryMarks(),
            on_answer=lambda status, scope, _: refusals.note(status, scope),
        )
        await front.connect()
        discord.faults.add(Fault(retry_after_s=0.05))
        discord.faults.add(Fault(retry_after_s=0.05, scope="shared"))
        message = OutgoingMessage(channel_id=channel.id, text="hi", nonce="1")
        assert isinstance(await front.send(message), Sent), "hikari asks again by itself"
        channel.denied.add("send")
        denied = OutgoingMessage(channel_id=channel.id, text="hi", nonce="2")
        assert isinstance(await front.send(denied), Refused)
        await asyncio.sleep(0)
        assert refusals.count == discord.doorman.refused() == 2
        await front.close()

"""A gateway that delivers hears of places whose shard another gateway has."""

import asyncio
from collections.abc import Iterator

import pytest
from redis.asyncio import Redis

from gateway.changes import Changes
from gateway.delivery.channels import BlockedChannels
from gateway.edges.neighbours import Neighbours
from gateway.edges.store import GatewayFleet
from gateway.front import Change, PlaceChanged, PlaceGone, PromptsDeleted
from shared.config import Settings
from shared.edges.queue import TurnQueue
from shared.keys import Keys
from tests.support.servers import RedisServer, running_server

KEYS = Keys()
GUILD, CHANNEL, NOW_S = 7, 70, 1_000.0


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as running:
        yield running


class Gateway:
    def __init__(self, redis: Redis, name: str) -> None:
        self.channels = BlockedChannels()
        self.fleet = GatewayFleet(TurnQueue(redis, KEYS, Settings()))
        changes = Changes(self.fleet, self.fleet, self.channels, lambda: NOW_S)
        self.neighbours = Neighbours(redis, KEYS, name, changes.heed)
        self.heed = self.neighbours.telling(changes.heed)

    def is_blocked(self) -> bool:
        return self.channels.is_blocked(CHANNEL, GUILD, NOW_S)


@pytest.fixture
async def two(redis: Redis) -> list[Gateway]:
    found = [Gateway(redis, name) for name in "ab"]
    for one in found:
        await one.neighbours.look()
    return found


@pytest.mark.parametrize(
    "change",
    [
        PlaceChanged(guild_id=GUILD, channel_id=CHANNEL),
        PlaceChanged(guild_id=GUILD),
    ],
    ids=["its channel changed", "a role changed"],
)
async def test_a_channel_is_tried_again_whoever_heard_that_it_may_be(two, redis, change: Change):
    hears, delivers = two
    delivers.channels.block(CHANNEL, GUILD, NOW_S)
    await delivers.fleet.block_channel(CHANNEL)
    await hears.heed(change, 1)
    await delivers.neighbours.look()
    assert not delivers.is_blocked()
    assert not await redis.exists(KEYS.send_block(CHANNEL))


@pytest.mark.parametrize(
    "gone",
    [PlaceGone(guild_id=GUILD, channel_id=CHANNEL), PlaceGone(guild_id=GUILD)],
    ids=["channel", "guild"],
)
async def test_nothing_is_said_where_a_place_is_gone_whoever_heard_of_it(two, gone: Change):
    hears, delivers = two
    await hears.heed(gone, 1)
    await hears.neighbours.look()
    await delivers.neighbours.look()
    assert (hears.is_blocked(), delivers.is_blocked()) == (True, True)


async def test_only_places_are_told_each_once_and_none_of_before(two, redis):
    hears, delivers = two
    await hears.heed(PromptsDeleted(channel_id=CHANNEL, turn_ids=("m1",)), 1)
    assert await redis.xlen(KEYS.front("changes")) == 0
    await hears.heed(PlaceGone(guild_id=GUILD), 1)
    await asyncio.sleep(0.01)  # another millisecond
    late = Gateway(redis, "c")
    await late.neighbours.look()
    assert not late.is_blocked()
    await delivers.neighbours.look()
    delivers.channels.unblock_guild(GUILD)
    await delivers.neighbours.look()
    assert not delivers.is_blocked(), "what was told is not told again"
    assert await redis.pttl(KEYS.front("changes")) > 0


async def test_what_another_version_tells_is_passed_over(two, redis):
    hears, delivers = two
    for row in ({"what": "moved", "guild": "7"}, {"what": "gone", "guild": "none"}, {"from": "x"}):
        await redis.xadd(KEYS.front("changes"), row)
    await hears.heed(PlaceGone(guild_id=GUILD, channel_id=CHANNEL), 1)
    await delivers.neighbours.look()
    assert delivers.is_blocked()

"""Two gateway processes share four shards; whatever happens to them, each prompt has one reply."""

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from ops.rehearsal.discord.server import FakeDiscord
from shared.edges.shards import ShardRow, shard_rows
from tests.support.discord import running_discord
from tests.support.house import House, Process, house
from tests.support.servers import running_server

pytestmark = pytest.mark.faults

CHANNELS = 8
SHARDS = 4
LIMIT_S = 60.0
TALK_S = 0.25


class Town:
    """People who go on talking, whatever happens to the gateways."""

    def __init__(self, discord: FakeDiscord, home: House) -> None:
        self.discord, self.home = discord, home
        self.said: list[tuple[int, int]] = []
        self.channels: list[int] = []

    async def settle(self) -> None:
        """Two guilds for each shard."""
        world = self.discord.world
        self.person = world.add_user("ann")
        while len(self.channels) < CHANNELS:
            guild = world.add_guild()
            if (guild.id >> 22) % SHARDS == len(self.channels) % SHARDS:
                self.channels.append(world.add_channel(guild.id).id)
            else:
                del world.guilds[guild.id]
            await asyncio.sleep(0.001)  # ids of one millisecond are of one shard

    async def talk(self) -> None:
        """A prompt now and then, in all channels in turn."""
        while True:
            channel_id = self.channels[len(self.said) % CHANNELS]
            text = self.discord.mention(f"question {len(self.said)}")
            said = await self.discord.say(channel_id, self.person, text)
            self.said.append((channel_id, said.id))
            await asyncio.sleep(TALK_S)

    async def shards(self, *condition: Callable[[list[ShardRow]], bool]) -> list[ShardRow]:
        """Waits until something is true of the shards."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                rows = await shard_rows(self.home.redis, self.home.keys)
                living = [row for row in rows if row.left_ms > 0 and row.state == "connected"]
                if all(holds(living) for holds in condition):
                    return living
                await asyncio.sleep(0.05)

    async def answered(self) -> None:
        """Every prompt has its reply, and no more than one."""
        async with asyncio.timeout(LIMIT_S):
            while not {message_id for _, message_id in self.said} <= self._replies().keys():
                await asyncio.sleep(0.1)
        await asyncio.sleep(1.0)
        assert set(self._replies().values()) == {1}

    def _replies(self) -> Counter[int]:
        replies = [one for channel_id in self.channels for one in self.discord.replies(channel_id)]
        return Counter(one.reply_to for one in replies if one.reply_to is not None)


@pytest.fixture
async def town() -> AsyncIterator[Town]:
    with running_server("redis") as server:
        async with running_discord() as discord:
            discord.sockets.starts.max_concurrency = 16
            settings = {
                "FRONT": "discord",
                "DISCORD_TOKEN": discord.token,
                "DISCORD_REST_URL": discord.rest_url,
                "DISCORD_SHARDS": str(SHARDS),
            }
            async with house(server.url, workers=1, gateways=2, **settings) as home:
                town = Town(discord, home)
                await town.settle()
                yield town


def owners(rows: list[ShardRow]) -> set[str]:
    return {row.gateway for row in rows}


def whole(rows: list[ShardRow]) -> bool:
    return [row.shard for row in rows] == list(range(SHARDS))


def shared(rows: list[ShardRow]) -> bool:
    return whole(rows) and sorted(Counter(row.gateway for row in rows).values()) == [2, 2]


def alone(rows: list[ShardRow]) -> bool:
    return whole(rows) and len(owners(rows)) == 1


async def killed(town: Town, one: Process, other: Process) -> None:
    began = town.discord.sockets.identifies
    await asyncio.to_thread(one.kill)
    await town.shards(alone)
    one.start()
    await town.shards(shared)
    assert town.discord.sockets.identifies == began, "its sessions went on at the other"


async def deployed(town: Town, one: Process, other: Process) -> None:
    """One after the other is replaced, as a rolling update does it."""
    began = town.discord.sockets.identifies
    for process in (one, other):
        assert await asyncio.to_thread(process.stop) == 0
        await town.shards(alone)
        process.start()
        await town.shards(shared)
    assert town.discord.sockets.identifies == began, "every session went on"


async def stopped(town: Town, one: Process, other: Process) -> None:
    """It sleeps for longer than its lease, and wakes to find its shards at the other."""
    one.signal(signal.SIGSTOP)
    try:
        await town.shards(alone)
    finally:
        one.signal(signal.SIGCONT)
    await town.shards(shared)
    sessions = town.discord.sockets.sessions.values()
    live = Counter(session.shard[0] for session in sessions if session.connection is not None)
    assert live == dict.fromkeys(range(SHARDS), 1), "one session of each shard is heard"


@pytest.mark.parametrize("fault", [killed, deployed, stopped])
async def test_every_prompt_has_one_reply(
    town: Town, fault: Callable[[Town, Process, Process], Awaitable[None]]
):
    await town.shards(shared)
    talking = asyncio.create_task(town.talk())
    await asyncio.sleep(2.0)
    await fault(town, *town.home.gateways)
    await asyncio.sleep(1.0)
    talking.cancel()
    await asyncio.wait({talking})
    await town.answered()
    assert len(town.said) > CHANNELS

"""Gateways of one bot on one server, each a front with leases of its own, in this process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

from redis.asyncio import Redis

from gateway.edges.discord import DiscordFront
from gateway.edges.discord_connection import DiscordOptions
from gateway.edges.shard_leases import RedisShards
from gateway.edges.store import RedisMarks
from gateway.front import Prompt
from ops.rehearsal.discord.server import FakeDiscord
from shared.edges.redis import connect
from shared.keys import Keys

KEYS = Keys()
LIMIT_S = 30.0


class Gateway:
    """One gateway: what it heard, and took unless it is `lazy`."""

    def __init__(self, name: str, front: DiscordFront) -> None:
        self.name = name
        self.front = front
        self.prompts: list[Prompt] = []
        self.is_lazy = False
        self._listening: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self.front.connect()
        self._listening = asyncio.create_task(self._listen())

    async def leave(self) -> None:
        """What a process does with SIGTERM: takes no more, then gives its shards up."""
        await self._deafen()
        await self.front.leave()

    async def close(self) -> None:
        await self._deafen()
        await self.front.close()

    @property
    def shards(self) -> list[int]:
        """The shards that are connected here."""
        return sorted(n for n, state in self.front.states.items() if state == "connected")

    async def _listen(self) -> None:
        async with aclosing(self.front.events()) as events:  # type: ignore[type-var]  # a generator
            async for event in events:
                if isinstance(event, Prompt):
                    self.prompts.append(event)
                    if not self.is_lazy:
                        await self.front.handled(event)

    async def _deafen(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait({self._listening})


class ShardBench:
    """A fake Discord with guilds for several shards, and gateways that come and go."""

    def __init__(self, discord: FakeDiscord, url: str, redis: Redis) -> None:
        self.discord = discord
        self.redis = redis
        self.gateways: list[Gateway] = []
        self._url = url
        self._open = AsyncExitStack()
        self.person = discord.world.add_user("ann")
        self.channels: list[int] = []
        discord.sockets.starts.max_concurrency = 16

    async def settle(self) -> None:
        """Eight guilds with a channel each, two for each of four shards."""
        world = self.discord.world
        while len(self.channels) < 8:
            guild = world.add_guild()
            if (guild.id >> 22) % 4 == len(self.channels) % 4:
                self.channels.append(world.add_channel(guild.id).id)
            else:
                del world.guilds[guild.id]
            await asyncio.sleep(0.001)  # ids of one millisecond are of one shard

    async def gateway(
        self, name: str, shards: str = "4", *, url: str | None = None, lease_ms: int = 1_500
    ) -> Gateway:
        """Starts one more."""
        redis = await self._open.enter_async_context(aclosing(connect(url or self._url)))
        leases = RedisShards(redis, KEYS, name, wanted=shards, lease_ms=lease_ms, gap_ms=300)
        options = DiscordOptions(token=self.discord.token, rest_url=self.discord.rest_url)
        front = DiscordFront(options, RedisMarks(redis, KEYS), leases, alive_every_s=0.05)
        gateway = Gateway(name, front)
        self.gateways.append(gateway)
        await gateway.start()
        return gateway

    async def say(self, text: str, channel_id: int | None = None) -> int:
        told = self.discord.mention(text)
        return (await self.discord.say(channel_id or self.channels[0], self.person, told)).id

    async def say_everywhere(self, text: str) -> list[int]:
        return [await self.say(text, channel_id) for channel_id in self.channels]

    async def heard(self, *message_ids: int) -> None:
        """Waits until some gateway has each of these."""
        async with asyncio.timeout(LIMIT_S):
            while not {*message_ids} <= {one.message_id for one in self._all()}:
                await asyncio.sleep(0.02)

    async def connected(self, *counts: int) -> None:
        """Waits until the gateways have so many connected shards."""
        async with asyncio.timeout(LIMIT_S):
            while tuple(len(one.shards) for one in self.gateways) != counts:
                await asyncio.sleep(0.02)

    def _all(self) -> list[Prompt]:
        return [prompt for gateway in self.gateways for prompt in gateway.prompts]

    async def close(self) -> None:
        for gateway in self.gateways:
            await gateway.close()
        await self._open.aclose()


@asynccontextmanager
async def shard_bench(discord: FakeDiscord, url: str) -> AsyncIterator[ShardBench]:
    async with aclosing(connect(url)) as redis:
        await redis.flushall()
        bench = ShardBench(discord, url, redis)
        await bench.settle()
        try:
            yield bench
        finally:
            await bench.close()

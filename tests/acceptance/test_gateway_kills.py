"""kill -9 of the gateway at random moments: every channel ends with its replies, in order, once."""

import asyncio
import os
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path

import pytest

from ops.rehearsal.discord.faults import Fault, FaultPlan, Stage
from ops.rehearsal.discord.limits import Rates
from shared.config import Settings
from shared.edges.local_channel import LocalChannel, local_turn_id
from shared.edges.queue import TurnQueue
from shared.edges.redis import connect
from shared.keys import Keys
from tests.support.discord import running_discord
from tests.support.gateway import GatewayProcess, ScriptedWorker
from tests.support.servers import running_server

TURNS, CHANNELS, KILLS = 50, 8, 8
LIMIT_S = 150.0
RATES = Rates(channel_limit=20, channel_period_s=2.0, global_per_s=50)

Say = Callable[[int, str], Awaitable[str]]
Shown = Callable[[int], Awaitable[list[str]]]


class Place:
    """Where people talk: a front's own way to speak and to look."""

    def __init__(
        self, channels: list[int], say: Say, shown: Shown, faults: FaultPlan, **settings: str
    ) -> None:
        self.channels = channels
        self.fail = faults.add
        self.say = say
        self.shown = shown
        self.settings = settings


@asynccontextmanager
async def local_place(local: LocalChannel) -> AsyncIterator[Place]:
    async def say(channel: int, text: str) -> str:
        return local_turn_id(await local.say(channel, text))

    async def shown(channel: int) -> list[str]:
        return [message.text for message in await local.messages(channel) if message.is_bot]

    yield Place(list(range(1, CHANNELS + 1)), say, shown, FaultPlan())


@asynccontextmanager
async def discord_place(_: LocalChannel) -> AsyncIterator[Place]:
    async with running_discord(RATES) as discord:
        guild = discord.world.add_guild()
        person = discord.world.add_user("ann")
        channels = [discord.world.add_channel(guild.id).id for _ in range(CHANNELS)]

        async def say(channel: int, text: str) -> str:
            return f"m{(await discord.say(channel, person, discord.mention(text))).id}"

        async def shown(channel: int) -> list[str]:
            return [message.content for message in discord.replies(channel)]

        yield Place(
            channels,
            say,
            shown,
            discord.faults,
            FRONT="discord",
            DISCORD_TOKEN=discord.token,
            DISCORD_REST_URL=discord.rest_url,
        )


async def speak(place: Place, rng: random.Random) -> dict[int, list[str]]:
    """People write; the turns of each channel in order."""
    turns: dict[int, list[str]] = {channel: [] for channel in place.channels}
    for number in range(TURNS):
        channel = rng.choice(place.channels)
        turns[channel].append(await place.say(channel, f"question {number}"))
        await asyncio.sleep(rng.uniform(0, 0.5))
    return turns


async def crash(gateway: GatewayProcess, rng: random.Random, history: list[float]) -> None:
    for _ in range(KILLS):
        pause_s = rng.uniform(0.2, 5.0)
        history.append(pause_s)
        await asyncio.sleep(pause_s)
        await asyncio.to_thread(gateway.kill)
        gateway.start()


async def delivered(queue: TurnQueue) -> None:
    """Waits until no event of a turn waits for its channel."""
    while True:
        lengths = [
            await queue.redis.xlen(queue.keys.out(number))
            for number in range(queue.keys.partitions)
        ]
        if not any(lengths):
            return
        await asyncio.sleep(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("front", [local_place, discord_place], ids=["local", "discord"])
async def test_every_channel_holds_exactly_its_replies_when_the_gateway_is_killed(
    front: Callable[[LocalChannel], AbstractAsyncContextManager[Place]], tmp_path: Path
):
    seed = int(os.environ.get("TURNFLEET_SEED", random.randrange(1_000_000)))
    rng = random.Random(seed)
    history: list[float] = []
    sys.stdout.write(f"TURNFLEET_SEED={seed}\n")
    with running_server("redis") as server:
        async with aclosing(connect(server.url)) as redis:
            queue = TurnQueue(redis, Keys(), Settings())
            async with front(LocalChannel(redis, queue.keys)) as place:
                gateway = GatewayProcess(tmp_path, REDIS_URL=server.url, **place.settings)
                worker = ScriptedWorker(queue, rng)
                gateway.start()
                try:
                    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
                        speaking = group.create_task(speak(place, rng))
                        group.create_task(worker.run(TURNS))
                        group.create_task(crash(gateway, rng, history))
                    async with asyncio.timeout(LIMIT_S):
                        await gateway.leads(queue)
                        await delivered(queue)
                    assert await asyncio.to_thread(gateway.stop) == 0
                finally:
                    gateway.kill()
                sys.stdout.write(f"killed after {history} s\n")
                shown = {channel: await place.shown(channel) for channel in place.channels}
    turns = speaking.result()
    assert shown == {
        channel: [text for turn in turns[channel] for text in worker.replies[turn]]
        for channel in place.channels
    }


async def test_a_kill_between_the_post_and_its_receipt_makes_no_second_message(tmp_path: Path):
    """Discord has the message, the gateway dies before it hears so."""
    with running_server("redis") as server:
        async with aclosing(connect(server.url)) as redis:
            queue = TurnQueue(redis, Keys(), Settings())
            async with discord_place(LocalChannel(redis, queue.keys)) as place:
                gateway = GatewayProcess(tmp_path, REDIS_URL=server.url, **place.settings)
                channel = place.channels[0]
                gateway.start()
                try:
                    async with asyncio.timeout(LIMIT_S):
                        await gateway.leads(queue)
                        place.fail(Fault(stage=Stage.AFTER, delay_s=60.0))
                        await place.say(channel, "hello")
                        worker = ScriptedWorker(queue, random.Random(1))
                        await worker.run(1)
                        while not await place.shown(channel):
                            await asyncio.sleep(0.01)
                        await asyncio.to_thread(gateway.kill)
                        gateway.start()
                        await gateway.leads(queue)
                        await delivered(queue)
                    (expected,) = worker.replies.values()
                    assert await place.shown(channel) == expected
                finally:
                    gateway.kill()

"""What two gateways hear while a shard changes hands is done once: who answers first does it."""

import asyncio

from gateway.asks import Answers, Ask, AskKind
from gateway.edges.discord import DiscordFront
from gateway.edges.discord_connection import DiscordOptions
from gateway.interactions.desk import Desk, Entry
from shared.i18n import load_texts
from tests.support.discord import MemoryMarks, running_discord

GATEWAYS = 2


async def test_a_command_that_two_gateways_hear_is_done_once():
    done: list[str] = []
    taken = asyncio.Semaphore(0)

    async def act(ask: Ask, answers: Answers) -> None:
        done.append(ask.name)
        await answers.whisper("done")

    desk = Desk({(AskKind.COMMAND, "stop"): Entry(act=act)}, load_texts())

    async def take(ask: Ask, answers: Answers) -> None:
        await desk.take(ask, answers)
        taken.release()

    async with running_discord() as discord:
        channel = discord.world.add_channel(discord.world.add_guild().id)
        options = DiscordOptions(token=discord.token, rest_url=discord.rest_url)
        fronts = [DiscordFront(options, MemoryMarks()) for _ in range(GATEWAYS)]
        for front in fronts:
            front.answer(take)
            await front.connect()
        person = discord.world.add_user("ann")
        asked = await discord.interactions.command(channel.id, person, "stop", {})
        async with asyncio.timeout(10):
            for _ in fronts:
                await taken.acquire()
        for front in fronts:
            await front.close()
    assert done == ["stop"]
    assert asked.texts == ["done"]

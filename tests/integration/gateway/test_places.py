"""Where a prompt was written: threads know their channel, and age-restricted ones are known."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.edges.discord import DiscordFront
from gateway.edges.discord_connection import DiscordOptions
from gateway.front import Prompt
from ops.rehearsal.discord.server import FakeDiscord
from ops.rehearsal.discord.world import THREAD, Channel
from tests.support.discord import MemoryMarks, running_discord

LIMIT_S = 20.0


class Bench:
    def __init__(self, discord: FakeDiscord, front: DiscordFront) -> None:
        self.discord, self.front = discord, front
        self.events = front.events()
        self.person = discord.world.add_user("ann")

    async def prompt(self, channel: Channel) -> Prompt:
        await self.discord.say(channel.id, self.person, self.discord.mention("hello"))
        async with asyncio.timeout(LIMIT_S):
            while True:
                event = await anext(self.events)
                if isinstance(event, Prompt) and event.channel_id == channel.id:
                    return event


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with running_discord() as discord:
        guild = discord.world.add_guild()
        plain = discord.world.add_channel(guild.id)
        discord.world.add_channel(guild.id).is_age_restricted = True
        discord.world.add_channel(guild.id, kind=THREAD, parent_id=plain.id)
        options = DiscordOptions(token=discord.token, rest_url=discord.rest_url)
        front = DiscordFront(options, MemoryMarks())
        await front.connect()
        yield Bench(discord, front)
        await front.close()


async def test_a_prompt_knows_its_thread_and_what_may_be_said_there(bench: Bench):
    plain, marked, thread = bench.discord.world.channels.values()
    found = [await bench.prompt(channel) for channel in (plain, marked, thread)]
    assert [(one.parent_id, one.is_age_restricted) for one in found] == [
        (None, False),
        (None, True),
        (plain.id, False),
    ]


async def test_a_mark_that_changes_holds_from_then_on_for_threads_too(bench: Bench):
    plain, _, thread = bench.discord.world.channels.values()
    plain.is_age_restricted = True
    await bench.discord.change_channel(plain.id)
    assert (await bench.prompt(thread)).is_age_restricted
    plain.is_age_restricted = False
    await bench.discord.change_channel(plain.id)
    assert not (await bench.prompt(thread)).is_age_restricted

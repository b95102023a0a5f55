"""A persona of the configuration, through real processes: its name, and where it speaks."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.rehearsal.discord.server import FakeDiscord
from ops.rehearsal.discord.world import Message
from tests.support.discord import connected, running_discord
from tests.support.house import house
from tests.support.servers import RedisServer, running_server

pytestmark = pytest.mark.slow

LIMIT_S = 60.0
PLAIN = "This is a plain answer from the rehearsal provider."
CONFIGURATION = """
[defaults]
persona = "ada"

[personas.ada]
name = "Ada"
system = "You are Ada."
age_restricted = true
"""


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


async def first_answer(discord: FakeDiscord, channel_id: int) -> Message:
    """What answers a question in the channel first."""
    person = discord.world.add_user("ann")
    said = await discord.say(channel_id, person, discord.mention("hello"))
    async with asyncio.timeout(LIMIT_S):
        while True:
            later = [one for one in discord.world.shown(channel_id) if one.id > said.id]
            if later:
                return later[0]
            await asyncio.sleep(0.05)


async def test_a_persona_answers_under_its_name_where_it_may(server: RedisServer, tmp_path: Path):
    path = tmp_path / "turnfleet.toml"
    path.write_text(CONFIGURATION, encoding="utf-8")
    async with running_discord() as discord:
        guild = discord.world.add_guild()
        plain = discord.world.add_channel(guild.id)
        marked = discord.world.add_channel(guild.id)
        marked.is_age_restricted = True
        async with house(
            server.url,
            workers=1,
            FRONT="discord",
            DISCORD_TOKEN=discord.token,
            DISCORD_REST_URL=discord.rest_url,
            CONFIG=str(path),
        ):
            await connected(discord, within_s=LIMIT_S)
            answer = await first_answer(discord, marked.id)
            assert (answer.shown_name, PLAIN in answer.content) == ("Ada", True)
            refused = await first_answer(discord, plain.id)
            assert refused.shown_name is None
            assert "age-restricted" in refused.content

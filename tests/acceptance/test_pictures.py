"""A picture that a model made, through real processes: from the provider to the channel."""

import asyncio
import base64
from collections.abc import Iterator

import pytest

from ops.rehearsal.scenarios import Draw, load_scenarios
from tests.support.discord import connected, running_discord
from tests.support.house import house
from tests.support.servers import RedisServer, running_server

pytestmark = pytest.mark.slow

LIMIT_S = 60.0
DRAWN = next(b for b in load_scenarios()["picture"].beats if isinstance(b, Draw))


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


async def test_a_picture_becomes_an_attachment_below_the_text(server: RedisServer):
    async with running_discord() as discord:
        channel = discord.world.add_channel(discord.world.add_guild().id).id
        person = discord.world.add_user("ann")
        async with house(
            server.url,
            workers=1,
            FRONT="discord",
            DISCORD_TOKEN=discord.token,
            DISCORD_REST_URL=discord.rest_url,
            MODEL="picture@0",
        ):
            async with asyncio.timeout(LIMIT_S):
                await connected(discord)
                await asyncio.sleep(0.5)
                await discord.say(channel, person, discord.mention("draw me a square"))
                while len(shown := discord.replies(channel)) < 2:
                    await asyncio.sleep(0.05)
    said, picture = shown
    assert said.content == "Here is what you asked for."
    assert picture.files == ("picture-1.png",)
    assert picture.contents == (base64.b64decode(DRAWN.data),)

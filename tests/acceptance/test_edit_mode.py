"""A reply in the mode `edit`, through real processes: one message grows, and ends whole."""

import asyncio
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from ops.rehearsal.discord.world import Message
from ops.rehearsal.scenarios import Say, load_scenarios
from tests.support.discord import connected, running_discord
from tests.support.house import house
from tests.support.servers import RedisServer, running_server

pytestmark = pytest.mark.slow

LIMIT_S = 60.0


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


async def test_a_message_grows_by_edits_and_the_reply_ends_whole(server: RedisServer):
    beats = load_scenarios()["essay"].beats
    essay = "".join(beat.text for beat in beats if isinstance(beat, Say)).strip()
    async with running_discord() as discord:
        channel = discord.world.add_channel(discord.world.add_guild().id).id
        person = discord.world.add_user("ann")
        async with house(
            server.url,
            workers=1,
            FRONT="discord",
            DISCORD_TOKEN=discord.token,
            DISCORD_REST_URL=discord.rest_url,
            MODEL="essay@60",
            DELIVERY_MODE="edit",
        ):
            async with asyncio.timeout(LIMIT_S):
                await connected(discord)
                await asyncio.sleep(0.5)
                await discord.say(channel, person, discord.mention("tell me"))
                seen = await _watched(lambda: discord.replies(channel), essay)
        shown = discord.replies(channel)
        assert "\n\n".join(message.content for message in shown) == essay
        assert len(shown) == 1
        assert shown[0].edits >= 2
        assert all(essay.startswith(text.removesuffix(" …")) for text in seen)
        edits = [call for call in discord.calls if call.method == "PATCH"]
        # The last one is the segment itself, which waits for nothing.
        pauses = [b.started_s - a.ended_s for a, b in pairwise(edits[:-1])]
        assert all(pause > 0.9 for pause in pauses), pauses


async def _watched(replies: Callable[[], list[Message]], whole: str) -> list[str]:
    """What a reader sees, one after the other, until the reply is whole."""
    seen: list[str] = []
    while not seen or seen[-1] != whole:
        text = "\n\n".join(message.content for message in replies())
        if text and (not seen or seen[-1] != text):
            seen.append(text)
        await asyncio.sleep(0.05)
    return seen

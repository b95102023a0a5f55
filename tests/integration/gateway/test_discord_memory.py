"""What Discord's messages carry for the channel's memory, and what becomes of it, over the fake."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from redis.asyncio import Redis

from gateway.app import serve
from gateway.context import readable
from ops.rehearsal.discord.server import FakeDiscord
from shared.config import Settings
from shared.configuration.loading import Loaded
from shared.edges.history import ChannelHistory
from shared.edges.queue import TurnQueue
from shared.edges.redis import connect
from shared.history import Remembered
from shared.keys import Keys
from shared.segments import TurnDone
from shared.turns import Front, TurnRequest
from shared.wire import decode_turn_request
from tests.support.discord import connected, running_discord
from tests.support.gateway import segment_of
from tests.support.servers import RedisServer, running_server

KEYS = Keys()


@pytest.fixture
async def redis() -> AsyncIterator[tuple[RedisServer, Redis]]:
    with running_server("redis") as server:
        async with aclosing(connect(server.url)) as client:
            yield server, client


async def until(history: ChannelHistory, channel_id: int, *texts: str) -> list[Remembered]:
    async with asyncio.timeout(30):
        while True:
            found = await history.read(channel_id, before=1 << 62)
            if [one.text for one in found] == list(texts):
                return found
            await asyncio.sleep(0.02)


async def next_request(queue: TurnQueue, text: str) -> TurnRequest:
    """Claims the next turn and answers it with a text."""
    async with asyncio.timeout(30):
        while not (claimed := await queue.claim("w1", 1)):
            await asyncio.sleep(0.02)
    token = claimed[0].token
    await queue.append(token, 1, segment_of(token, 1, text))
    await queue.finish(token, TurnDone(count=1))
    return decode_turn_request(claimed[0].request)


def file(number: int) -> dict[str, object]:
    url = f"https://cdn.discordapp.com/{number}.png"
    facts = {"filename": "cat.png", "size": 10, "url": url, "proxy_url": url}
    return {"id": str(number), "content_type": "image/png", **facts}


async def test_a_conversation_is_remembered_over_a_restart_of_the_gateway(redis, tmp_path):
    server, client = redis
    history, queue = ChannelHistory(client, KEYS), TurnQueue(client, KEYS, Settings())
    async with running_discord() as discord:
        channel = discord.world.add_channel(discord.world.add_guild().id).id
        ann, bea = discord.world.add_user("ann"), discord.world.add_user("bea")
        settings = Settings(
            redis_url=server.url,
            data_dir=str(tmp_path),
            front=Front.DISCORD,
            discord_token=discord.token,
            discord_rest_url=discord.rest_url,
        )
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(serve(Loaded(settings=settings), stop))
            await _settled(discord)
            first = await discord.say(channel, bea, "look at this", attachments=(file(7),))
            asked = await discord.say(
                channel, ann, discord.mention(f"what is <@{bea.id}> showing?"), reply_to=first.id
            )
            request = await next_request(queue, "A cat.")
            reading = request.reading
            assert reading is not None
            assert (reading.author, reading.reply_to) == ("ann", first.id)
            assert [one.url for one in reading.attachments] == [file(7)["url"]]
            assert dict(reading.members)["bea"] == bea.id
            question = readable(asked.content, {bea.id: "bea", **_bot_name(discord)})
            found = await until(history, channel, "look at this", question, "A cat.")
            assert [one.is_own for one in found] == [False, False, True]
            assert found[1].reply_to == first.id
            stop.set()
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(serve(Loaded(settings=settings), stop))
            await _settled(discord)
            corrected = await discord.correct(asked, discord.mention("never mind"))
            await until(history, channel, "look at this", corrected.content, "A cat.")
            wordless = await discord.correct(first, "")
            found = await until(history, channel, "", corrected.content, "A cat.")
            assert [one.url for one in found[0].attachments] == [file(7)["url"]]
            await discord.remove(wordless)
            async with asyncio.timeout(30):
                while len(found := await history.read(channel, before=1 << 62)) != 2:
                    await asyncio.sleep(0.02)
            assert "never mind" in found[0].text
            assert found[1].text == "A cat."
            stop.set()


async def _settled(discord: FakeDiscord) -> None:
    await connected(discord, within_s=30)
    await asyncio.sleep(0.3)


def _bot_name(discord: FakeDiscord) -> dict[int, str]:
    return {discord.bot.id: discord.bot.name}

"""What a turn may cost in Redis, counted over the whole house: round trips and bytes.

Counts, because times differ between machines. A budget is what was counted when it was set, and
some air; who passes it has added a round trip to every turn, or to every message of a reply.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from importlib.resources import files

import pytest
from redis.asyncio import Redis

from ops.rehearsal.discord.server import FakeDiscord
from shared.edges.scripting import source_of
from tests.support.discord import connected, running_discord
from tests.support.house import house
from tests.support.servers import RedisServer, running_server

pytestmark = pytest.mark.slow

TURNS = 4
PARAGRAPHS = 10
PARAGRAPH = "Words of a paragraph that is long enough to be one, and says nothing but that it is."
PER_TURN = 26.0
"""Commands that clients send for a turn, without its segments: 23 were counted."""
PER_SEGMENT = 5.7
"""For each segment of a reply: 5 were counted, one of them the worker's, and a part of the two by
which the button of a long reply goes."""
PER_TURN_BYTES = 110_000
"""Both ways, for a reply of ten messages, what processes say of themselves meanwhile included:
84,000 were counted."""

BY_THE_CLOCK = {
    "BLPOP", "GET", "INFO", "MEMORY", "MONITOR", "PING", "SET", "TYPE", "XLEN", "XRANGE", "XREAD",
    "XREADGROUP", "ZADD", "ZCARD", "ZREMRANGEBYSCORE", "beat", "claim", "lead", "reap",
}  # fmt: skip
"""Sent whether turns run or not, or once for whatever has come since."""
NO_ROUND_TRIPS = {"EXEC", "MULTI"}
"""They go with what stands between them, in one write."""
FRONTS_OWN = ":front:"
"""Keys of shards, marks and refusals, which gateways look at by the clock, too."""
SETTLED_S = 0.4
"""After the last message: the terminal event, the statistics, the acknowledgements."""


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


def _names() -> dict[str, str]:
    """The names of all scripts by their digests."""
    folder = files("shared.edges") / "scripts"
    names = [path.name.removesuffix(".lua") for path in folder.iterdir()]
    digests = (hashlib.sha1(source_of(n).encode(), usedforsecurity=False) for n in names)
    return {digest.hexdigest(): name for digest, name in zip(digests, names, strict=True)}


@asynccontextmanager
async def _listening(redis: Redis) -> AsyncIterator[Counter[str]]:
    """Counts the commands that clients send; what scripts do inside the server is no round trip."""
    names, seen = _names(), Counter[str]()

    async def listen() -> None:
        async with redis.monitor() as monitor:
            async for one in monitor.listen():
                words = one["command"].split(" ")
                command = words[0].upper()
                name = names.get(words[1], "?") if command == "EVALSHA" else command
                if one["client_type"] == "lua" or name in BY_THE_CLOCK | NO_ROUND_TRIPS:
                    continue
                if FRONTS_OWN not in one["command"]:
                    seen[name] += 1

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0.1)
    try:
        yield seen
    finally:
        listening.cancel()
        await asyncio.wait({listening})


class Talk:
    """Somebody who asks, and waits for the whole reply."""

    def __init__(self, discord: FakeDiscord) -> None:
        self._discord = discord
        self._channel = discord.world.add_channel(discord.world.add_guild().id).id
        self._person = discord.world.add_user("ann")
        self._shown = 0

    async def ask(self, paragraphs: int) -> None:
        text = "\n\n".join([PARAGRAPH] * paragraphs)
        self._shown += paragraphs
        await self._discord.say(self._channel, self._person, self._discord.mention(text))
        async with asyncio.timeout(20):
            # Of a gateway that lags behind, several paragraphs come in one message.
            while self._paragraphs() < self._shown:
                await asyncio.sleep(0.02)
        await asyncio.sleep(SETTLED_S)

    def _paragraphs(self) -> int:
        return sum(one.content.count("Words of") for one in self._discord.replies(self._channel))


async def _traffic(redis: Redis) -> int:
    info = await redis.info("stats")
    return int(info["total_net_input_bytes"]) + int(info["total_net_output_bytes"])


async def test_a_turn_takes_no_more_round_trips_and_bytes_than_it_did(server: RedisServer):
    async with (
        running_discord() as discord,
        house(
            server.url,
            workers=1,
            FRONT="discord",
            DISCORD_TOKEN=discord.token,
            DISCORD_REST_URL=discord.rest_url,
            MODEL="echo@200",
        ) as running,
    ):
        await connected(discord, within_s=20)
        await asyncio.sleep(0.5)
        talk, redis = Talk(discord), running.redis
        await talk.ask(2)  # first connections, scripts that the server does not know yet
        counts = []
        for paragraphs in (1, PARAGRAPHS):
            async with _listening(redis) as seen:
                for _ in range(TURNS):
                    await talk.ask(paragraphs)
            counts.append(seen)
        before = await _traffic(redis)
        for _ in range(TURNS):
            await talk.ask(PARAGRAPHS)
        traffic = (await _traffic(redis) - before) / TURNS
    short, long = (one.total() / TURNS for one in counts)
    per_segment = (long - short) / (PARAGRAPHS - 1)
    told = f"{per_segment:.1f} a segment, {counts}, {traffic:.0f} bytes"
    assert short - per_segment <= PER_TURN, told
    assert per_segment <= PER_SEGMENT, told
    assert traffic <= PER_TURN_BYTES, told

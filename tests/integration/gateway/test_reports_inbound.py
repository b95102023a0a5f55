"""Prompts that other bots answered twice: what ours does.

Each row is a report of another bot, by its number in docs/discord.md, *Seen elsewhere*. A whole
gateway over the fake Discord and a real server, so that the guard is known to be
wired: 53 is about one that was not.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from ops.rehearsal.discord.world import Message
from tests.support.servers import RedisServer, running_server
from tests.support.town import KEYS, Town, town

HOUR_MS = 3_600_000
QUIET_S = 0.3
"""In which a second turn would have come."""

Again = Callable[[Town, Message], Awaitable[bool]]
"""Lets the prompt come again; whether it is answered by then."""


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as running:
        yield running


async def at_once(place: Town, prompt: Message) -> bool:
    await place.discord.announce(prompt)
    return False


async def while_it_is_answered(place: Town, prompt: Message) -> bool:
    claimed = await place.claim()
    await place.discord.announce(prompt)
    await asyncio.sleep(QUIET_S)
    await place.answer(claimed)
    return True


async def after_its_answer(place: Town, prompt: Message) -> bool:
    await place.answered()
    await place.shows(place.channel, bool)
    await place.discord.announce(prompt)
    return True


async def with_a_resumed_session(place: Town, prompt: Message) -> bool:
    resumes = place.discord.sockets.resumes
    place.discord.sockets.cut_all()
    while place.discord.sockets.resumes == resumes:
        await asyncio.sleep(0.02)
    await place.discord.announce(prompt)
    return False


async def with_a_new_session(place: Town, prompt: Message) -> bool:
    """The session is lost: the history is read, and Discord says it once more."""
    sessions, had = place.discord.sockets, place.discord.sockets.identifies
    await look_back(place)
    await sessions.invalidate(resumable=False)
    while sessions.identifies == had:
        await asyncio.sleep(0.02)
    await place.discord.announce(prompt)
    return False


async def by_a_second_gateway(place: Town, prompt: Message) -> bool:
    """It shares the bot's one shard: it stands by."""
    async with place.another_gateway(shards=1):
        await place.discord.announce(prompt)
        await asyncio.sleep(QUIET_S)
    return False


async def by_a_gateway_with_more_shards(place: Town, prompt: Message) -> bool:
    """It reads the history, and is told of everything that the first is told of."""
    await look_back(place)
    place.discord.sockets.starts.max_concurrency = 16  # no five seconds between its shards
    async with place.another_gateway(shards=2):
        await place.discord.announce(prompt)
        await asyncio.sleep(QUIET_S)
    return False


async def look_back(place: Town) -> None:
    """Whoever connects reads what was said in the last hour."""
    then_ms = int((await place.client.time())[0]) * 1000 - HOUR_MS
    marks = {"0/1": then_ms, "0/2": then_ms, "1/2": then_ms}
    await place.client.hset(KEYS.front("marks"), mapping=marks)  # type: ignore[misc]  # redis-py


ROWS: dict[str, Again] = {
    "51 the same message within a millisecond": at_once,
    "52 a message that a resumed session repeats": with_a_resumed_session,
    "53 a message that comes again while it is answered": while_it_is_answered,
    "53 a message that comes again after its answer": after_its_answer,
    "54 a message of the history that is told of as well": with_a_new_session,
    "55 two gateways on one token": by_a_second_gateway,
    "55 two gateways that both hear it": by_a_gateway_with_more_shards,
}


@pytest.mark.parametrize("name", list(ROWS))
async def test_a_prompt_is_one_turn_and_has_one_answer(
    name: str, server: RedisServer, tmp_path: Path
):
    async with town(server, tmp_path) as place:
        discord = place.discord
        prompt = await discord.say(place.channel, place.ann, discord.mention("hello"))
        if not await ROWS[name](place, prompt):
            await place.answered()
        await place.shows(place.channel, bool)
        await asyncio.sleep(QUIET_S)
        assert await place.queue.claim("w", 1) == []
        (answer,) = discord.replies(place.channel)
        assert (answer.content, answer.reply_to) == ("the answer", prompt.id)

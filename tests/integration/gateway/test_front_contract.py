"""What every front promises: the same tests over the local channel, Discord and the tests' fake."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

import pytest

from gateway.addressing import is_addressed, text_without_call
from gateway.edges.discord import DiscordFront
from gateway.edges.discord_connection import DiscordOptions
from gateway.edges.local import LocalFront
from gateway.front import (
    ChannelFront,
    OutgoingFile,
    OutgoingMessage,
    Prompt,
    Refusal,
    Refused,
    Sent,
)
from shared.edges.local_channel import LocalChannel
from shared.edges.redis import connect
from shared.keys import Keys
from shared.turns import Front
from tests.support.channel import MemoryFront
from tests.support.discord import MemoryMarks, running_discord
from tests.support.servers import RedisServer, running_server


class Place:
    """A front, and what people do and see there."""

    def __init__(
        self,
        front: ChannelFront,
        channel_id: int,
        *,
        say: Callable[[str], Awaitable[int]],
        shown: Callable[[], Awaitable[list[str]]],
        replied_to: Callable[[int], Awaitable[int | None]],
    ) -> None:
        self.front = front
        self.channel_id = channel_id
        self.say = say
        self.shown = shown
        self.replied_to = replied_to

    def message(self, text: str, nonce: str = "n1", **facts: object) -> OutgoingMessage:
        given: dict[str, object] = {"channel_id": self.channel_id, "text": text, "nonce": nonce}
        return OutgoingMessage(**(given | facts))  # type: ignore[arg-type]  # facts by name

    async def sent(self, text: str, nonce: str = "n1", **facts: object) -> int:
        outcome = await self.front.send(self.message(text, nonce, **facts))
        assert isinstance(outcome, Sent)
        return outcome.message_id

    async def first_prompt(self) -> Prompt:
        async with asyncio.timeout(10), aclosing(self.front.events()) as events:  # type: ignore[type-var]  # a generator
            async for event in events:
                if isinstance(event, Prompt):
                    return event
        raise AssertionError


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as running:
        yield running


@asynccontextmanager
async def local_place(server: RedisServer) -> AsyncIterator[Place]:
    keys = Keys()
    async with (
        aclosing(connect(server.url)) as client,
        aclosing(connect(server.url, blocking=True)) as blocking,
    ):
        await client.flushall()
        local = LocalChannel(client, keys)
        front = LocalFront(local, LocalChannel(blocking, keys))

        async def shown() -> list[str]:
            return [message.text for message in await local.messages(7) if message.is_bot]

        async def replied_to(message_id: int) -> int | None:
            message = await local.message(7, message_id)
            return None if message is None else message.reply_to

        await front.connect()
        yield Place(
            front, 7, say=lambda text: local.say(7, text), shown=shown, replied_to=replied_to
        )
        await front.close()


@asynccontextmanager
async def discord_place(_: RedisServer) -> AsyncIterator[Place]:
    async with running_discord() as discord:
        guild = discord.world.add_guild()
        channel = discord.world.add_channel(guild.id)
        person = discord.world.add_user("ann")
        options = DiscordOptions(token=discord.token, rest_url=discord.rest_url)
        front = DiscordFront(options, MemoryMarks())

        async def say(text: str) -> int:
            return (await discord.say(channel.id, person, discord.mention(text))).id

        async def shown() -> list[str]:
            return [message.content for message in discord.replies(channel.id)]

        async def replied_to(message_id: int) -> int | None:
            return discord.world.message(channel.id, message_id).reply_to

        await front.connect()
        yield Place(front, channel.id, say=say, shown=shown, replied_to=replied_to)
        await front.close()


@asynccontextmanager
async def memory_place(_: RedisServer) -> AsyncIterator[Place]:
    front = MemoryFront()

    async def say(text: str) -> int:
        front.put(Prompt(front=Front.LOCAL, message_id=1, channel_id=7, user_id=5, text=text))
        return 1

    async def shown() -> list[str]:
        return front.shown(7)

    async def replied_to(message_id: int) -> int | None:
        return front.channels[7][message_id].reply_to

    yield Place(front, 7, say=say, shown=shown, replied_to=replied_to)


Making = Callable[[RedisServer], AbstractAsyncContextManager[Place]]


@pytest.fixture(params=[local_place, discord_place, memory_place], ids=["local", "discord", "fake"])
async def place(request: pytest.FixtureRequest, server: RedisServer) -> AsyncIterator[Place]:
    making: Making = request.param
    async with making(server) as made:
        yield made


async def test_a_prompt_arrives_and_is_addressed_to_the_bot(place):
    message_id = await place.say("hello")
    prompt = await place.first_prompt()
    assert prompt.message_id == message_id
    assert prompt.channel_id == place.channel_id
    assert is_addressed(prompt)
    assert text_without_call(prompt.text, place.front.bot_id) == "hello"
    await place.front.handled(prompt)


async def test_messages_are_shown_in_the_order_of_their_sending(place):
    ids = [await place.sent(f"part {number}", f"n{number}") for number in range(8)]
    assert await place.shown() == [f"part {number}" for number in range(8)]
    assert ids == sorted(set(ids))


async def test_a_message_answers_the_prompt(place):
    prompt_id = await place.say("hello")
    message_id = await place.sent("hi", reply_to=prompt_id)
    assert await place.replied_to(message_id) == prompt_id


async def test_a_prompt_that_is_gone_is_no_reason_to_stay_silent(place):
    await place.sent("hi", reply_to=123)
    assert await place.shown() == ["hi"]


async def test_a_nonce_makes_one_message(place):
    first = await place.sent("hi")
    assert await place.sent("hi") == first
    assert await place.shown() == ["hi"]


async def test_a_message_that_was_deleted_meanwhile_is_not_sent_again(place):
    message_id = await place.sent("hi")
    await place.front.delete(place.channel_id, message_id)
    outcome = await place.front.send(place.message("hi"))
    assert isinstance(outcome, Refused)
    assert outcome.refusal is Refusal.GONE
    assert await place.shown() == []


async def test_an_edit_changes_a_message_in_its_place(place):
    first = await place.sent("a", "n1")
    await place.sent("b", "n2")
    outcome = await place.front.edit(place.channel_id, first, "x")
    assert outcome == Sent(message_id=first)
    assert await place.shown() == ["x", "b"]


async def test_what_is_not_there_cannot_be_edited_or_deleted(place):
    message_id = await place.sent("a")
    assert await place.front.delete(place.channel_id, message_id) == Sent(message_id=message_id)
    for outcome in (
        await place.front.edit(place.channel_id, message_id, "x"),
        await place.front.delete(place.channel_id, message_id),
    ):
        assert isinstance(outcome, Refused)
        assert outcome.refusal is Refusal.GONE


@pytest.mark.parametrize("text", ["x" * 2000, "🎉" * 2000], ids=["ascii", "astral"])
async def test_two_thousand_code_points_are_one_message(place, text):
    await place.sent(text)
    assert await place.shown() == [text]


@pytest.mark.parametrize("text", ["x" * 2001, "   \n"], ids=["too long", "blank"])
async def test_what_is_no_message_is_refused(place, text):
    outcome = await place.front.send(place.message(text))
    assert isinstance(outcome, Refused)
    assert outcome.refusal is Refusal.CONTENT


async def test_a_file_goes_with_a_message_or_is_refused_as_a_file(place):
    file = OutgoingFile(name="a.txt", data=b"hello")
    outcome = await place.front.send(place.message("see", "n1", files=(file,)))
    if isinstance(outcome, Refused):
        assert outcome.refusal is Refusal.FILES
        assert await place.shown() == []
    else:
        (shown,) = await place.shown()
        assert shown.startswith("see")


async def test_a_message_that_was_rewritten_may_have_files_and_lose_them(place):
    message_id = await place.sent("text")
    file = OutgoingFile(name="a.txt", data=b"hello")
    outcome = await place.front.edit(place.channel_id, message_id, "", files=(file,))
    assert isinstance(outcome, Sent) or outcome.refusal is Refusal.FILES
    await place.front.edit(place.channel_id, message_id, "text again")
    assert await place.shown() == ["text again"]


async def test_history_is_oldest_first_and_knows_our_own(place):
    ids = [await place.sent(f"part {number}", f"n{number}") for number in range(5)]
    history = await place.front.history(place.channel_id, after=ids[0], limit=3)
    assert history is not None
    assert [(message.message_id, message.text, message.is_own) for message in history] == [
        (ids[number], f"part {number}", True) for number in (1, 2, 3)
    ]


async def test_a_typing_sign_may_be_shown_at_any_time(place):
    await place.front.typing(place.channel_id)
    await place.front.typing(123)


async def test_closing_ends_the_events(place):
    async with asyncio.timeout(10):
        closing = asyncio.ensure_future(place.front.close())
        events = [event async for event in place.front.events()]
        await closing
    assert events == []

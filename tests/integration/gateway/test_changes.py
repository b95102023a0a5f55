"""Edits, deletions and places that go away, from Discord to the queue and to delivery."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from gateway.changes import Changes
from gateway.delivery.channels import BlockedChannels
from gateway.edges.discord import DiscordFront
from gateway.edges.discord_connection import DiscordOptions
from gateway.edges.store import GatewayFleet
from gateway.front import Echo, Prompt
from ops.rehearsal.discord.server import FakeDiscord
from ops.rehearsal.discord.world import FORUM, THREAD, Message, User
from shared.config import Settings
from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords
from shared.edges.redis import connect, within
from shared.keys import Keys
from shared.messages import Message as Said
from shared.messages import Role
from shared.segments import WITHDRAWN, TurnDone
from shared.turns import Front, Route, Target, TurnRequest, TurnState
from shared.wire import decode_turn_request
from tests.support.discord import MemoryMarks, running_discord
from tests.support.servers import RedisServer, running_server

KEYS = Keys("changes")
LIMIT_S = 30.0


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as running:
        yield running


class House:
    """A Discord with one person, a queue, and a front whose changes are heeded."""

    def __init__(self, discord: FakeDiscord, queue: TurnQueue, front: DiscordFront) -> None:
        self.discord = discord
        self.queue = queue
        self.front = front
        self.channels = BlockedChannels()
        self.prompts: list[Prompt] = []
        guild = discord.world.add_guild()
        self.guild_id = guild.id
        self.channel_id = discord.world.add_channel(guild.id).id
        self.ann: User = discord.world.add_user("ann")
        fleet = GatewayFleet(queue)
        self.changes = Changes(fleet, fleet, self.channels, lambda: 0.0)

    async def listen(self) -> None:
        async for event in self.front.events():
            if isinstance(event, Prompt):
                self.prompts.append(event)
            elif not isinstance(event, Echo):
                await self.changes.heed(event, self.front.bot_id)

    async def asked(self, text: str) -> Message:
        """Ann asks, and the turn waits."""
        message = await self.discord.say(self.channel_id, self.ann, self.discord.mention(text))
        route = Route(
            front=Front.DISCORD,
            channel_id=self.channel_id,
            user_id=self.ann.id,
            guild_id=self.guild_id,
            reply_to=message.id,
        )
        request = TurnRequest(
            turn_id=f"m{message.id}",
            route=route,
            target=Target(provider="rehearsal", model="plain"),
            messages=[Said(role=Role.USER, content=text)],
            created_ms=1,
        )
        await self.queue.admit(request)
        return message

    async def state(self, message: Message) -> str:
        return (await self.field(message, "state")).decode()

    async def field(self, message: Message, name: str) -> bytes:
        found: bytes | None = await within(self.queue.redis.hget(KEYS.turn(f"m{message.id}"), name))
        return found or b""

    async def until(self, is_met: object) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not await is_met():  # type: ignore[operator]  # an async function
                await asyncio.sleep(0.01)


@pytest.fixture
async def house(server: RedisServer) -> AsyncIterator[House]:
    client = connect(server.url)
    await client.flushall()
    async with running_discord() as discord:
        options = DiscordOptions(
            token=discord.token, rest_url=discord.rest_url, names=("turnie",), reads_all=True
        )
        discord.sockets.allows_privileged = True
        made = House(
            discord, TurnQueue(client, KEYS, Settings()), DiscordFront(options, MemoryMarks())
        )
        async with asyncio.TaskGroup() as group:
            await made.front.connect()
            group.create_task(made.listen())
            yield made
            await made.front.close()
    await client.aclose()


async def test_an_edited_prompt_that_waits_is_answered_as_it_reads_now(house: House):
    message = await house.asked("wrogn")
    await house.discord.correct(message, house.discord.mention("right"))

    async def is_amended() -> bool:
        return b"right" in await house.field(message, "request")

    await house.until(is_amended)
    (claimed,) = await house.queue.claim("w1", 1)
    assert decode_turn_request(claimed.request).messages[0].content == "right"
    later = await house.discord.correct(message, house.discord.mention("too late"))
    await house.discord.correct(later, house.discord.mention("too late again"))
    assert await house.state(message) == TurnState.RUNNING


async def test_a_deleted_prompt_that_waits_is_withdrawn_without_a_word(house: House):
    message = await house.asked("oops")
    await house.discord.remove(message)

    async def is_gone() -> bool:
        return await house.state(message) == TurnState.CANCELLED

    await house.until(is_gone)
    stream = KEYS.out_of(house.channel_id)
    (entry,) = await house.queue.redis.xrange(stream)
    assert WITHDRAWN.encode() in b"".join(entry[1].values())


async def test_deleted_prompts_that_run_are_stopped(house: House):
    first, second = await house.asked("one"), await house.asked("two")
    (claimed,) = await house.queue.claim("w1", 1)
    await house.discord.remove(first, second)

    async def is_stopped() -> bool:
        return await house.queue.stop_note(claimed.token) == WITHDRAWN

    await house.until(is_stopped)
    await house.queue.finish(
        claimed.token, TurnDone(count=0, state=TurnState.CANCELLED, notes=(WITHDRAWN,))
    )
    assert await house.state(second) == TurnState.CANCELLED


async def test_a_channel_that_is_deleted_is_left_and_one_that_is_changed_is_tried_again(
    house: House,
):
    fleet = GatewayFleet(house.queue)
    records = TurnRecords(house.queue.redis, house.queue.keys)

    async def is_blocked() -> bool:
        return await records.is_blocked(house.channel_id)

    async def is_free() -> bool:
        return not await is_blocked()

    await house.discord.remove_channel(house.channel_id)
    await house.until(is_blocked)
    assert house.channels.is_blocked(house.channel_id, house.guild_id, 1.0)
    await fleet.refuse_files(house.channel_id)
    await house.discord.change_channel(house.channel_id)
    await house.until(is_free)
    assert await fleet.takes_files(house.channel_id)


async def test_a_guild_that_threw_the_bot_out_is_left(house: House):
    await house.discord.remove_guild(house.guild_id)

    async def is_left() -> bool:
        return house.channels.is_blocked(house.channel_id, house.guild_id, 1.0)

    await house.until(is_left)


async def test_names_threads_and_forum_posts_call_the_bot_and_other_bots_do_not(house: House):
    world = house.discord.world
    forum = world.add_channel(house.guild_id, kind=FORUM)
    post = world.add_channel(house.guild_id, kind=THREAD, parent_id=forum.id)
    other = world.add_user("robot", is_bot=True)
    await house.discord.say(post.id, other, house.discord.mention("beep"))
    await house.discord.say(post.id, house.ann, "Turnie, what is a forum?")
    await house.discord.say(house.channel_id, house.ann, "nobody in particular")

    async def is_heard() -> bool:
        return len(house.prompts) == 2

    await house.until(is_heard)
    assert [(one.channel_id, one.text, one.mentions_bot) for one in house.prompts] == [
        (post.id, "what is a forum?", True),
        (house.channel_id, "nobody in particular", False),
    ]

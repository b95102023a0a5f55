"""More comes from Discord than is taken while Redis is away: who called is answered, once."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager

import pytest
from redis.asyncio import Redis

from gateway.edges.channel_memory import ChannelMemory
from gateway.edges.discord import DiscordFront
from gateway.edges.discord_connection import DiscordOptions
from gateway.edges.pace import Pace
from gateway.edges.speaking import ToldChoices
from gateway.edges.store import RedisMarks
from gateway.edges.waiting import Waiting
from gateway.front import Change, Prompt
from gateway.intake import Intake
from gateway.notices import Notices
from gateway.typist import Typist
from ops.rehearsal.discord.faults import Fault
from ops.rehearsal.discord.server import FakeDiscord
from shared.config import Settings
from shared.configuration.choices import Choices, Scope, Speak
from shared.configuration.loading import Loaded
from shared.edges.choices import ChoicesStore, LiveChoices
from shared.edges.history import ChannelHistory
from shared.edges.queue import Admission, TurnQueue
from shared.edges.records import TurnRecords
from shared.edges.redis import connect
from shared.i18n import load_texts
from shared.keys import Keys
from shared.turns import TurnRequest
from tests.support.discord import MemoryMarks, running_discord
from tests.support.servers import RedisServer, running_server

KEYS = Keys()
TEXTS = load_texts()
LIMIT_S = 60.0
MAX_EVENTS = 40


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with running_server("redis") as running:
        yield running


async def until(is_met: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not is_met():
            await asyncio.sleep(0.01)


class Flood:
    """A guild with three channels, a front with a small inbox, and the intake behind it."""

    def __init__(self, discord: FakeDiscord, redis: Redis) -> None:
        self.discord = discord
        self.redis = redis
        self.loaded = Loaded(settings=Settings(guild_depth=1_000))
        self.queue = TurnQueue(redis, KEYS, self.loaded.settings)
        self.marks = RedisMarks(redis, KEYS)
        self.guild = discord.world.add_guild()
        self.ann = discord.world.add_user("ann")
        self.accepted: dict[int, list[str]] = defaultdict(list)
        self.expected: dict[int, list[str]] = defaultdict(list)

    def channel(self) -> int:
        return self.discord.world.add_channel(self.guild.id).id

    async def say(self, channel: int, *, times: int = 1, is_prompt: bool = False) -> None:
        for number in range(times):
            said = await self.discord.say(channel, self.ann, f"number {number}")
            if is_prompt:
                self.expected[channel].append(f"m{said.id}")

    async def call(self, channel: int, *, times: int = 1) -> None:
        for _ in range(times):
            said = await self.discord.say(channel, self.ann, self.discord.mention("why?"))
            self.expected[channel].append(f"m{said.id}")

    async def admit(self, request: TurnRequest) -> Admission:
        answer = await self.queue.admit(request)
        if answer is Admission.ACCEPTED:
            self.accepted[request.route.channel_id].append(request.turn_id)
        return answer

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        options = DiscordOptions(
            token=self.discord.token, rest_url=self.discord.rest_url, reads_all=True
        )
        front = DiscordFront(options, self.marks, alive_every_s=0.05, max_events=MAX_EVENTS)
        store = ChoicesStore(self.redis, KEYS)
        typist = Typist(Waiting(self.queue, TEXTS))
        intake = Intake(
            front,
            self.admit,
            TurnRecords(self.redis, KEYS),
            typist,
            Notices(TEXTS),
            ToldChoices(LiveChoices(store, lambda: self.loaded), front),
            Pace(self.redis, KEYS, lambda: self.loaded),
            ChannelMemory(ChannelHistory(self.redis, KEYS)),
            absorb=lambda _echo: None,
            heed=ignore,
            now_ms=lambda: int(time.time() * 1000),
            sleep=asyncio.sleep,
        )
        await front.connect()
        async with typist.running(), asyncio.TaskGroup() as group:
            taking = group.create_task(intake.run())
            yield
            taking.cancel()
        await front.close()


async def ignore(_change: Change, _bot_id: int) -> None:
    """Nothing is edited here."""


async def test_nobody_who_called_is_lost_in_what_is_said_while_redis_is_away(
    server: RedisServer, caplog: pytest.LogCaptureFixture
):
    async with running_discord() as discord, aclosing(connect(server.url)) as redis:
        discord.sockets.allows_privileged = True
        flood = Flood(discord, redis)
        quiet, busy, talk = flood.channel(), flood.channel(), flood.channel()
        choices = Choices(speak=Speak.ALWAYS)
        await ChoicesStore(redis, KEYS).write(Scope.CHANNEL, talk, choices)
        async with flood.running():
            await flood.call(quiet)
            await flood.say(talk, is_prompt=True)
            await until(lambda: flood.accepted == flood.expected)
            server.kill()
            await flood.say(busy, times=300)
            await until(lambda: "discord.behind" in caplog.messages)
            assert "discord.event_dropped" not in caplog.messages
            await flood.call(quiet)
            await flood.say(talk, times=30, is_prompt=True)
            await flood.call(talk)
            await flood.call(quiet)
            await flood.call(busy, times=60)
            await flood.say(talk, is_prompt=True)
            back_ms = int(time.time() * 1000)
            server.start()
            await until(lambda: flood.accepted == flood.expected)
            async with asyncio.timeout(LIMIT_S):
                while (await flood.marks.alive_ms(0, 1) or 0) < back_ms:
                    await asyncio.sleep(0.02)
        assert "discord.event_dropped" not in caplog.messages
        reads = sum(f"/{busy}/messages" in call.path for call in discord.calls)
        assert reads == 2, "a history, and that there is no more of it"
        claimed = await flood.queue.claim("w", 1_000)
        assert len(claimed) == 3, "each channel has one turn at a time"
        waiting = await TurnRecords(redis, KEYS).load()
        assert waiting.load == sum(len(turns) for turns in flood.expected.values())


async def test_a_history_that_is_read_late_comes_before_what_was_said_since(
    caplog: pytest.LogCaptureFixture,
):
    async with running_discord() as discord:
        guild, ann = discord.world.add_guild(), discord.world.add_user("ann")
        channel, other = (discord.world.add_channel(guild.id).id for _ in range(2))
        missed = await discord.say(channel, ann, discord.mention("anybody there?"))
        discord.faults.add(Fault(method="GET", path="/messages", status=409))
        marks = MemoryMarks()
        marks.alive = before = int(time.time() * 1000) - 1_000
        options = DiscordOptions(token=discord.token, rest_url=discord.rest_url)
        front = DiscordFront(options, marks, alive_every_s=0.01, max_events=MAX_EVENTS)
        heard: dict[int, list[int]] = defaultdict(list)
        may_go_on = asyncio.Event()

        async def listen() -> None:
            async for event in front.events():
                assert isinstance(event, Prompt)
                heard[event.channel_id].append(event.message_id)
                await may_go_on.wait()
                await front.handled(event)

        listening = asyncio.create_task(listen())
        await front.connect()
        await until(lambda: any("/messages" in call.path for call in discord.calls))
        said: dict[int, list[int]] = {channel: [missed.id], other: []}
        for place in [other] * (MAX_EVENTS - 5) + [channel] * 10 + [other] * 3:
            found = await discord.say(place, ann, discord.mention("hello"))
            said[place].append(found.id)
        await until(lambda: "discord.behind" in caplog.messages)
        assert (heard, marks.alive) == ({other: said[other][:1]}, before)
        may_go_on.set()
        await until(lambda: sum(map(len, heard.values())) >= sum(map(len, said.values())))
        assert {place: list(dict.fromkeys(ids)) for place, ids in heard.items()} == said
        await until(lambda: marks.alive != before)
        listening.cancel()
        await asyncio.wait({listening})
        await front.close()

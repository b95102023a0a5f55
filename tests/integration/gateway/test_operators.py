"""The operators' channel over a real server and the fake Discord: each alert once, few messages."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager

import msgspec
import pytest

from gateway.edges.discord import DiscordFront
from gateway.edges.discord_connection import DiscordOptions
from gateway.edges.operators import MAX_LINES, OperatorsChannel
from ops.rehearsal.discord.server import FakeDiscord
from shared.alerts import Alert, AlertKind
from shared.edges.alerts import Alerts
from shared.edges.redis import connect
from shared.edges.streams import GroupReader
from shared.i18n import load_texts
from shared.keys import OPERATORS_GROUP, Keys
from tests.support.discord import MemoryMarks, running_discord
from tests.support.servers import RedisServer, running_server

KEYS = Keys()
LIMIT_S = 30.0
TEXTS = load_texts()


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as running:
        yield running


def a_spike(number: int, **changes: object) -> Alert:
    alert = Alert(
        kind=AlertKind.SPIKE,
        subject=f"{number:032x}",
        cause="rate_limited",
        count=30,
        usual=2.5,
        guilds=4,
    )
    return msgspec.structs.replace(alert, **changes)


class Bench:
    def __init__(self, url: str, discord: FakeDiscord, front: DiscordFront, channel: int) -> None:
        self.discord, self.front, self.channel = discord, front, channel
        self.redis, self.blocking = connect(url), connect(url, blocking=True)
        self.alerts = Alerts(self.redis, KEYS)

    @asynccontextmanager
    async def posting(self, consumer: str = "g1") -> AsyncIterator[None]:
        reader = GroupReader(
            self.redis, self.blocking, stream=KEYS.alerts, group=OPERATORS_GROUP, consumer=consumer
        )
        posting = OperatorsChannel(reader, self.front, self.channel, TEXTS, pause_s=0.05)
        task = asyncio.create_task(posting.run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def shown(self, count: int) -> list[str]:
        async with asyncio.timeout(LIMIT_S):
            while len(self.discord.replies(self.channel)) < count:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        return [message.content for message in self.discord.replies(self.channel)]

    async def is_empty(self) -> None:
        async with asyncio.timeout(LIMIT_S):
            while await self.redis.xlen(KEYS.alerts):
                await asyncio.sleep(0.01)


@pytest.fixture
async def bench(server: RedisServer) -> AsyncIterator[Bench]:
    async with running_discord() as discord:
        channel = discord.world.add_channel(discord.world.add_guild().id).id
        options = DiscordOptions(token=discord.token, rest_url=discord.rest_url)
        front = DiscordFront(options, MemoryMarks())
        await front.connect()
        bench = Bench(server.url, discord, front, channel)
        async with aclosing(bench.redis), aclosing(bench.blocking):
            await bench.redis.flushall()
            yield bench
            await front.close()


async def test_the_same_alert_is_said_once_and_names_the_command(bench: Bench):
    async with bench.posting():
        assert await bench.alerts.send(a_spike(7))
        assert not await bench.alerts.send(a_spike(7, count=31))
        assert await bench.shown(1) == [
            "Spike: **rate_limited**, 30 in ten minutes instead of 2.5. "
            "`turnfleet errors list --cause 000000000000`"
        ]
        await bench.is_empty()


async def test_many_alerts_are_one_message_with_a_number(bench: Bench):
    for number in range(MAX_LINES + 3):
        await bench.alerts.send(a_spike(number))
    async with bench.posting():
        (text,) = await bench.shown(1)
        assert text.count("\n") == MAX_LINES
        assert text.endswith("3 more; the console has them all.")
        await bench.is_empty()


async def test_a_channel_that_refuses_holds_nothing_up(bench: Bench):
    bench.discord.world.channels[bench.channel].denied.add("send")
    await bench.alerts.send(a_spike(1))
    async with bench.posting():
        await bench.is_empty()
    assert await bench.shown(0) == []


async def test_what_a_gateway_died_over_is_posted_after_its_next_start(bench: Bench):
    await bench.alerts.send(a_spike(1))
    reader = GroupReader(
        bench.redis, bench.blocking, stream=KEYS.alerts, group=OPERATORS_GROUP, consumer="g1"
    )
    assert len(await reader.read()) == 1  # taken, and never acknowledged
    async with bench.posting("g1"):
        assert len(await bench.shown(1)) == 1
        await bench.is_empty()


async def test_an_alert_of_a_newer_version_is_passed_over(bench: Bench):
    await bench.redis.xadd(KEYS.alerts, {"v": b'{"kind": "comet", "subject": "x"}'})
    await bench.alerts.send(a_spike(2))
    async with bench.posting():
        assert len(await bench.shown(1)) == 1
        await bench.is_empty()


@pytest.mark.parametrize("kind", list(AlertKind), ids=str)
def test_every_kind_has_its_line(kind: AlertKind):
    line = TEXTS.text(f"alert.{kind}", subject="abc", cause="x", count=1, usual="0", guilds=1)
    assert line != f"alert.{kind}"

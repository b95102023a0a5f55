"""Stop below a running reply, through real processes: the click, and the death of the leader."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from ops.rehearsal.discord.server import FakeDiscord
from ops.rehearsal.discord.world import Message, User
from ops.rehearsal.scenarios import Say, load_scenarios
from shared.turns import TurnState
from tests.support.discord import running_discord
from tests.support.house import House, house
from tests.support.servers import RedisServer, running_server

pytestmark = pytest.mark.slow

LIMIT_S = 60.0
ESSAY = "".join(b.text for b in load_scenarios()["essay"].beats if isinstance(b, Say)).strip()


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


class Place:
    """A channel of the fake Discord in front of a house."""

    def __init__(self, discord: FakeDiscord, houses: House) -> None:
        self.discord = discord
        self.house = houses
        self.channel = discord.world.add_channel(discord.world.add_guild().id).id
        self.person: User = discord.world.add_user("ann")

    @property
    def replies(self) -> list[Message]:
        return self.discord.replies(self.channel)

    @property
    def armed(self) -> list[Message]:
        return [message for message in self.replies if message.components]

    async def ask(self) -> str:
        said = await self.discord.say(self.channel, self.person, self.discord.mention("tell me"))
        return f"m{said.id}"

    async def until(self, is_met: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not is_met():
                await asyncio.sleep(0.02)

    async def ended(self, turn_id: str) -> TurnState:
        async with asyncio.timeout(LIMIT_S):
            while True:
                record = await self.house.records.turn(turn_id)
                if record is not None and record.event is not None:
                    return record.state
                await asyncio.sleep(0.05)

    async def kill_leader(self) -> None:
        """SIGKILL for whoever delivers the channel; the other gateway takes over."""
        keys = self.house.keys
        owner: bytes = await self.house.redis.get(keys.leader(keys.partition_of(self.channel)))
        (leader,) = (one for one in self.house.gateways if f"-{one.pid}-" in owner.decode())
        leader.kill()


@asynccontextmanager
async def place(server: RedisServer, *, gateways: int, **settings: str) -> AsyncIterator[Place]:
    async with running_discord() as discord:
        access = {"DISCORD_TOKEN": discord.token, "DISCORD_REST_URL": discord.rest_url}
        async with house(
            server.url, workers=1, gateways=gateways, FRONT="discord", **access, **settings
        ) as running:
            there = Place(discord, running)
            await running.redis.flushall()
            await there.until(lambda: len(discord.sockets.sessions) >= 1)
            await asyncio.sleep(0.5)
            yield there


@pytest.mark.parametrize("mode", ["paragraph", "edit"])
async def test_a_click_ends_the_reply_where_it_is(server: RedisServer, mode: str):
    async with place(server, gateways=1, MODEL="essay@60", DELIVERY_MODE=mode) as there:
        turn_id = await there.ask()
        await there.until(lambda: bool(there.armed))
        (message,) = there.armed
        custom_id = message.components[0]["components"][0]["custom_id"]  # type: ignore[index]  # JSON
        asked = await there.discord.interactions.press(message, there.person, str(custom_id))
        assert await there.ended(turn_id) is TurnState.CANCELLED
        await there.until(lambda: "stopped" in there.replies[-1].content.lower())
        await there.until(lambda: not there.armed)
        assert asked.first == 7
        *texts, notice = [message.content for message in there.replies]
        shown = "\n\n".join(texts)
        assert ESSAY.startswith(shown)  # each once, in order; what was buffered is there, too
        assert 0 < len(shown) < len(ESSAY)
        assert "stopped" in notice.lower()


async def test_the_standby_takes_the_button_of_a_leader_that_died(server: RedisServer):
    async with place(server, gateways=2, MODEL="essay@120") as there:
        turn_id = await there.ask()
        await there.until(lambda: bool(there.armed))
        await there.kill_leader()
        assert await there.ended(turn_id) is TurnState.DONE
        await there.until(lambda: "\n\n".join(m.content for m in there.replies) == ESSAY)
        await there.until(lambda: not there.armed)
        keys = there.house.keys
        lists = [keys.armed(number) for number in range(keys.partitions)]
        async with asyncio.timeout(LIMIT_S):
            while await there.house.redis.exists(*lists):
                await asyncio.sleep(0.02)

"""A large bot: 1,000 guilds, 5,000 channels, and more answers than Discord takes.

A gateway as a process of its own between the fake Discord and a script in place of the workers.
What it prints are memory and lag; what it asserts is what people notice: everything arrives, whole
and in order, and Discord is never asked for more than it allows.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from ops.rehearsal.discord.limits import Rates
from ops.rehearsal.discord.server import FakeDiscord
from shared.config import Settings
from shared.edges.queue import TurnQueue
from shared.edges.redis import connect
from shared.i18n import load_texts
from shared.keys import Keys
from shared.segments import Segment, SegmentKind, SegmentReady, TurnDone
from shared.turns import AttemptToken
from tests.support.discord import connected, running_discord
from tests.support.gateway import GatewayProcess
from tests.support.servers import RedisServer, running_server

pytestmark = pytest.mark.faults

GUILDS, CHANNELS_OF_A_GUILD = 1_000, 5
SEGMENTS = 3
GUILD_LIMIT_KIB = 4.0
RESTING_TICKS = 30
"""Of three seconds: a gateway at rest beats for its leases and its session."""
MANY_GUILDS = 2_400
"""Nearly what a shard may have. Memory varies by a MiB or two from run to run: of 1,000 guilds that
would be half the limit."""
MAX_REFUSED = 0.1
"""Requests that were apart when they were counted may arrive closer together: 7.5 % at twice the
limit where the processes wait for two busy cores, with 41 % before refusals were counted again."""
KEYS = Keys()
BUSY = load_texts().text("notice.busy")


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """So many turns a second, for some seconds, over a Discord with these limits."""

    turns_per_s: float
    seconds: float
    global_per_s: int
    p99_lag_s: float
    is_too_much: bool = False


LOADS = {
    "10 turns a second under honest limits": Load(
        turns_per_s=10, seconds=20, global_per_s=50, p99_lag_s=0.1
    ),
    "50 turns a second with the limit raised": Load(
        turns_per_s=50, seconds=20, global_per_s=600, p99_lag_s=0.1
    ),
    "twice what Discord takes": Load(
        turns_per_s=33, seconds=20, global_per_s=50, p99_lag_s=60.0, is_too_much=True
    ),
}


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with running_server("redis") as running:
        yield running


@asynccontextmanager
async def gateway_for(
    discord: FakeDiscord, server: RedisServer, home: Path, limit: int
) -> AsyncIterator[GatewayProcess]:
    home.mkdir()
    gateway = GatewayProcess(
        home,
        REDIS_URL=server.url,
        FRONT="discord",
        DISCORD_TOKEN=discord.token,
        DISCORD_REST_URL=discord.rest_url,
        DISCORD_REQUESTS_PER_S=str(limit),
        ALLOW_UNSAFE_REDIS="true",
    )
    gateway.start()
    try:
        await connected(discord, within_s=120)
        await settled(gateway.pid)  # guilds are sent after the session stands
        yield gateway
    finally:
        await asyncio.to_thread(gateway.kill)


def say(line: str) -> None:
    sys.stdout.write(f"\n{line}")


def memory_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


async def settled(pid: int) -> None:
    """Waits until a process has rested for three seconds, five seconds at least."""
    await asyncio.sleep(2.0)
    async with asyncio.timeout(120):
        while True:
            before = ticks(pid)
            await asyncio.sleep(3.0)
            if ticks(pid) - before < RESTING_TICKS:
                return


def ticks(pid: int) -> int:
    """The time of a processor that a process has had, in hundredths of a second."""
    spent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(spent[11]) + int(spent[12])


def populate(discord: FakeDiscord, guilds: int) -> list[int]:
    """Adds guilds, and answers their channels."""
    added = [discord.world.add_guild() for _ in range(guilds)]
    return [
        discord.world.add_channel(guild.id).id
        for guild in added
        for _ in range(CHANNELS_OF_A_GUILD)
    ]


async def test_an_idle_guild_costs_next_to_nothing(server: RedisServer, tmp_path: Path):
    sizes = []
    for guilds in (1, MANY_GUILDS):
        async with running_discord() as discord:
            populate(discord, guilds)
            home = tmp_path / str(guilds)
            async with gateway_for(discord, server, home, 50) as gateway:
                sizes.append(memory_kib(gateway.pid))
    each = (sizes[1] - sizes[0]) / (MANY_GUILDS - 1)
    say(f"memory: {sizes[0] / 1024:.1f} MiB, {sizes[1] / 1024:.1f} MiB with {MANY_GUILDS} guilds")
    say(f"each idle guild: {each:.2f} KiB")
    assert each < GUILD_LIMIT_KIB


@pytest.mark.parametrize("name", list(LOADS))
async def test_everything_arrives(name: str, server: RedisServer, tmp_path: Path):
    load = LOADS[name]
    rates = Rates(global_per_s=load.global_per_s)
    async with (
        running_discord(rates) as discord,
        aclosing(connect(server.url)) as client,
    ):
        channels = populate(discord, GUILDS)
        queue = TurnQueue(client, KEYS, Settings())
        worker = Worker(queue, discord, channels)
        await played(name, load, worker, discord, server, tmp_path / "home")


async def played(
    name: str,
    load: Load,
    worker: "Worker",
    discord: FakeDiscord,
    server: RedisServer,
    home: Path,
) -> None:
    async with gateway_for(discord, server, home, load.global_per_s) as gateway:
        async with asyncio.timeout(600):
            await worker.run(int(load.turns_per_s * load.seconds), 1 / load.turns_per_s)
        report(name, discord, worker, gateway)
        assert len(worker.lags_s) + worker.declined == int(load.turns_per_s * load.seconds)
        assert worker.lag_s(0.99) < load.p99_lag_s
        if load.is_too_much:
            assert posts(discord) < SEGMENTS * len(worker.lags_s) + worker.declined
            assert signs(discord) < len(worker.lags_s)
        refused = [call for call in discord.calls if call.status == 429]
        say(f"  429s {len(refused)} of {len(discord.calls)}")
        assert len(refused) <= MAX_REFUSED * len(discord.calls)


def posts(discord: FakeDiscord) -> int:
    """Messages that were made."""
    return sum(
        call.path.endswith("/messages") and call.method == "POST" and call.status == 200
        for call in discord.calls
    )


def signs(discord: FakeDiscord) -> int:
    """Typing signs that were shown."""
    return sum(call.path.endswith("/typing") for call in discord.calls)


def report(
    name: str,
    discord: FakeDiscord,
    worker: "Worker",
    gateway: GatewayProcess,
) -> None:
    say(f"{name}: {len(worker.lags_s)} turns of {SEGMENTS} segments, {worker.declined} declined")
    say(f"  messages {posts(discord)}, typing signs {signs(discord)}")
    lags = ", ".join(f"p{part * 100:.0f} {worker.lag_s(part):.3f} s" for part in (0.5, 0.99, 1.0))
    say(f"  lag {lags}; memory {memory_kib(gateway.pid) / 1024:.1f} MiB")


class Worker:
    """Admits and answers turns, each in a channel of its own, and looks for their replies."""

    def __init__(self, queue: TurnQueue, discord: FakeDiscord, channels: list[int]) -> None:
        self._queue = queue
        self._discord = discord
        self._channels = channels
        self._places: dict[str, int] = {}
        self.lags_s: list[float] = []
        self._looked = self._declined = 0

    def lag_s(self, part: float) -> float:
        """How long after its last segment a reply was whole."""
        lags = sorted(self.lags_s)
        return lags[min(len(lags) - 1, int(part * len(lags)))]

    async def run(self, turns: int, every_s: float) -> None:
        """Lets people ask, and answers, until every reply is whole in its channel."""
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(self._ask(turns, every_s))
            claimed = 0
            while claimed + self.declined < turns:
                for one in await self._queue.claim("w1", 100):
                    group.create_task(self._answer(one.token))
                    claimed += 1
                await asyncio.sleep(0.02)
            await asking

    @property
    def declined(self) -> int:
        """Prompts that heard that the bot is busy."""
        calls = self._discord.calls
        for call in calls[self._looked :]:
            self._declined += call.body.get("content") == BUSY and call.status == 200
        self._looked = len(calls)
        return self._declined

    async def _ask(self, turns: int, every_s: float) -> None:
        person = self._discord.world.add_user("ann")
        started_s = time.monotonic()
        for number in range(turns):
            await asyncio.sleep(max(0.0, started_s + number * every_s - time.monotonic()))
            channel_id = self._channels[(number * 7) % len(self._channels)]
            said = await self._discord.say(channel_id, person, self._discord.mention("hello"))
            self._places[f"m{said.id}"] = channel_id

    async def _answer(self, token: AttemptToken) -> None:
        texts = [f"{token.turn_id} part {seq}" for seq in range(1, SEGMENTS + 1)]
        for seq, text in enumerate(texts, start=1):
            segment = Segment(
                turn_id=token.turn_id,
                attempt=token.attempt,
                seq=seq,
                kind=SegmentKind.TEXT,
                text=text,
                start=0,
                end=len(text),
                joint="\n\n" if seq > 1 else None,
            )
            await self._queue.append(token, seq, SegmentReady(segment=segment))
            await asyncio.sleep(0.3)
        said_s, whole = time.monotonic(), "\n\n".join(texts)
        await self._queue.finish(token, TurnDone(count=SEGMENTS))
        while whole not in self._shown(self._places[token.turn_id]):
            await asyncio.sleep(0.02)
        self.lags_s.append(time.monotonic() - said_s)

    def _shown(self, channel_id: int) -> str:
        return "\n\n".join(message.content for message in self._discord.replies(channel_id))

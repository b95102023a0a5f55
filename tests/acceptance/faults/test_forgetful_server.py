"""A killed server that comes back without its last second: what the channels of Discord show then.

That is `appendfsync everysec` on a bad day, or a replica that was promoted. The file of an earlier
moment is put in the place of the last one. All the same, what is shown is

- not doubled: no text stands twice;
- not reordered: the texts of a turn in their order, the first of them first;
- not lost: every prompt has its whole reply in the end.

Gateway and workers live on, so it is what they remember that must be right.
"""

import asyncio
import os
import random
import shutil
import tempfile
import time
from pathlib import Path

import pytest
import redis
from redis.exceptions import RedisError

from ops.rehearsal.discord.server import FakeDiscord
from shared.errors import StoreError
from tests.support.discord import running_discord
from tests.support.fronts import NAME
from tests.support.fronts import paragraphs as paragraphs_of
from tests.support.house import House, house
from tests.support.servers import RedisServer, running_server

TURNS = int(os.environ.get("TURNFLEET_TEST_FORGET_TURNS", "60"))
CHANNELS = 12
FORGETS = 5
PAUSE_S = (1.5, 3.0)
AGE_S = (0.3, 2.0)
"""How much is forgotten: `everysec` promises one second, and may need two."""
COPY_S = 0.1
QUIET_S = 12.0
"""Nothing happened for this long, two leases: whatever was to come has come."""
LIMIT_S = 180.0


def paragraphs(number: int) -> list[str]:
    return [f"Turn {number} begins.", f"Turn {number} goes on.", f"Turn {number} ends."]


class Past:
    """Copies of the server's file, by the time when they were made."""

    def __init__(self, server: RedisServer, room: Path) -> None:
        self._server = server
        self._room = room
        self._copies: list[tuple[float, Path]] = []

    async def keep(self) -> None:
        while True:
            copy = self._room / f"{len(self._copies)}"
            await asyncio.to_thread(shutil.copytree, self._file, copy)
            self._copies.append((time.monotonic(), copy))
            await asyncio.sleep(COPY_S)

    def forget(self, age_s: float) -> None:
        """Kills the server and starts it as it was so many seconds ago."""
        self._server.kill()
        before_s = time.monotonic() - age_s
        self._copies = [pair for pair in self._copies if pair[0] <= before_s]
        while True:
            shutil.rmtree(self._file)
            shutil.copytree(self._copies[-1][1], self._file)
            try:
                self._server.start()
            except redis.ConnectionError:
                # A copy of the very moment in which the server exchanged its files: the one before.
                self._server.kill()
                self._copies.pop()
            else:
                return

    @property
    def _file(self) -> Path:
        return self._server.directory / "appendonlydir"


async def talk(discord: FakeDiscord, rng: random.Random) -> dict[int, list[int]]:
    """People write; the numbers of the turns of each channel."""
    guild = discord.world.add_guild()
    person = discord.world.add_user(NAME)
    channels = [discord.world.add_channel(guild.id).id for _ in range(CHANNELS)]
    asked: dict[int, list[int]] = {channel: [] for channel in channels}
    for number in range(TURNS):
        channel = channels[number % CHANNELS]
        words = discord.mention("\n\n".join(paragraphs(number)))
        await discord.say(channel, person, words)
        asked[channel].append(number)
        await asyncio.sleep(rng.uniform(0.0, 0.4))
    return asked


async def quiet(running: House, discord: FakeDiscord, channels: list[int]) -> None:
    """Waits until nothing is on its way and nothing has changed for a while."""
    before: object = None
    since_s = time.monotonic()
    async with asyncio.timeout(LIMIT_S):
        while time.monotonic() - since_s < QUIET_S:
            for process in running.processes:
                process.look()
            try:
                load = await running.records.load()
            except (RedisError, StoreError, OSError):
                load = None
            now = (load, [[m.content for m in discord.replies(channel)] for channel in channels])
            if now != before or load is None or load.load:
                before, since_s = now, time.monotonic()
            await asyncio.sleep(0.2)


def faults_of(channel: int, shown: list[str], numbers: list[int]) -> list[str]:
    """What is wrong with a channel."""
    texts = [text for text in paragraphs_of(shown) if text.startswith("Turn ")]
    wrong = [f"{channel}: {text!r} stands twice" for text in set(texts) if texts.count(text) > 1]
    for number in numbers:
        here = [text for text in texts if text in paragraphs(number)]
        if here != paragraphs(number):
            wrong.append(f"{channel}: of turn {number} there is {here}")
    return wrong


@pytest.mark.slow
@pytest.mark.scenario
@pytest.mark.parametrize("gateways", [1, pytest.param(2, marks=pytest.mark.faults)])
async def test_a_server_that_forgets_its_last_second_doubles_and_reorders_nothing(gateways: int):
    seed = int(os.environ.get("TURNFLEET_TEST_KILL_SEED", str(random.randrange(2**32))))
    rng = random.Random(seed)
    deeds: list[str] = []
    with running_server("redis") as server, tempfile.TemporaryDirectory() as room:
        past = Past(server, Path(room))
        async with running_discord() as discord:
            settings = {
                "FRONT": "discord",
                "DISCORD_TOKEN": discord.token,
                "DISCORD_REST_URL": discord.rest_url,
                "MODEL": "echo@40",
                "GUILD_DEPTH": "1000",
            }
            async with house(server.url, workers=2, gateways=gateways, **settings) as running:
                keeping = asyncio.create_task(past.keep(), name="copies")
                talking = asyncio.create_task(talk(discord, rng), name="people")
                await asyncio.sleep(2.0)
                for _ in range(FORGETS):
                    await asyncio.sleep(rng.uniform(*PAUSE_S))
                    age_s = rng.uniform(*AGE_S)
                    deeds.append(f"{age_s:.2f} s forgotten")
                    await asyncio.to_thread(past.forget, age_s)
                asked = await talking
                keeping.cancel()
                await quiet(running, discord, list(asked))
                wrong: list[str] = []
                for channel, numbers in asked.items():
                    shown = [message.content for message in discord.replies(channel)]
                    wrong += faults_of(channel, shown, numbers)
                print("\n".join([f"seed {seed}", *deeds, *wrong]))  # noqa: T201 - the history of a failure, beside the seed
    assert wrong == []

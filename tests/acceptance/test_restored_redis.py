"""Redis loses everything, or is started from an old dump: the console says so, one command restores
it, and turns run as before."""

import asyncio
import time
from collections.abc import Iterator

import httpx
import pytest

from ops.store.durable import durable
from shared.edges.queue import Admission
from shared.messages import Message, Role
from shared.turns import CredentialSource, Front, Route, Target, TurnRequest, TurnState
from tests.support.cli import Command
from tests.support.console import console
from tests.support.doorman import WHOLE, Doorman, doorman
from tests.support.house import House, house
from tests.support.servers import RedisServer, running_server

pytestmark = pytest.mark.faults

LIMIT_S = 90.0
KEY = "sk-of-guild-seven-4f2a9c"
NEWER = "sk-of-guild-seven-newer-81d3"
REF = "server:7:openai:main"


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


async def ask(home: House, number: int) -> TurnState:
    """A turn on the guild's own key; how it ended."""
    request = TurnRequest(
        turn_id=f"l{number}",
        route=Route(front=Front.LOCAL, channel_id=number, user_id=1, guild_id=7),
        target=Target(provider="openai", model="m"),
        messages=[Message(role=Role.USER, content="hello")],
        created_ms=time.time_ns() // 1_000_000,
        credential_source=CredentialSource.SERVER,
        credential=REF,
    )
    assert await home.queue.admit(request) is Admission.ACCEPTED
    async with asyncio.timeout(LIMIT_S):
        while True:
            state = await home.records.state(request.turn_id)
            if state in {TurnState.DONE, TurnState.FAILED}:
                return state
            await asyncio.sleep(0.05)


async def alarms(base: str) -> str:
    async with httpx.AsyncClient(base_url=base) as client:
        return str((await client.get("/now.json")).json()["alarms"])


async def lose(home: House, base: str) -> None:
    """Empties the server, once the mirror has the credential, and waits until that is said."""
    async with asyncio.timeout(LIMIT_S):
        while not await home.redis.exists(home.keys.mirrored):
            await asyncio.sleep(0.2)
        await asyncio.sleep(1.0)  # the mark is set first, the rows in the same look
        await home.redis.flushall()
        while "restore-redis" not in await alarms(base):
            await asyncio.sleep(0.5)


async def start_from_an_old_dump(home: House, base: str, dumped: dict[str, bytes]) -> None:
    """Puts the durable keys back to what they were, and waits until that is said."""
    keys = (*durable(home.keys), home.keys.mirrored, home.keys.mirror_version)
    await home.redis.delete(*keys)
    for key, value in dumped.items():
        await home.redis.restore(key, 0, value)
    async with asyncio.timeout(LIMIT_S):
        while "started from an old dump" not in await alarms(base):
            await asyncio.sleep(0.5)


async def dump(home: House) -> dict[str, bytes]:
    """The durable keys, and those of the mirror, as a dump has them."""
    keys = (*durable(home.keys), home.keys.mirrored, home.keys.mirror_version)
    found = {key: await home.redis.dump(key) for key in keys}
    return {key: value for key, value in found.items() if value is not None}


async def mirrored(home: House, version: int) -> None:
    """Waits until the mirror was written so often."""
    async with asyncio.timeout(LIMIT_S):
        while int(await home.redis.get(home.keys.mirror_version) or 0) < version:
            await asyncio.sleep(0.2)
    await asyncio.sleep(1.0)  # the number is raised first, the rows in the same look


def keys_of(man: Doorman) -> list[str]:
    return [asked.key for asked in man.asked("openai")]


async def test_turns_run_with_the_same_credential(server: RedisServer):
    async with doorman() as man:
        places = f'{{"openai": "{man.url("openai")}"}}'
        async with (
            house(server.url, workers=1, ENDPOINTS=places) as home,
            console(home, server.url) as base,
        ):
            turnfleet = Command(home.home, {"redis_url": server.url, "endpoints": places})
            for words in (("rotate",), ("add", "openai", "--owner", "7")):
                done = await asyncio.to_thread(turnfleet, "creds", *words, stdin=f"{KEY}\n")
                assert done.exit_code == 0, done.stderr
            worker = home.workers[0]
            worker.kill()  # it reads the opening key as it starts
            worker.start()
            assert await ask(home, 9_001) is TurnState.DONE
            await lose(home, base)
            assert await ask(home, 9_002) is TurnState.FAILED
            restored = await asyncio.to_thread(turnfleet, "db", "restore-redis")
            assert restored.exit_code == 0, restored.stderr
            assert await ask(home, 9_003) is TurnState.DONE
            assert keys_of(man) == [KEY, KEY]
            async with asyncio.timeout(LIMIT_S):
                while "restore-redis" in await alarms(base):
                    await asyncio.sleep(0.5)
                while WHOLE not in [one.text for one in await home.channel.messages(9_003)]:
                    await asyncio.sleep(0.1)

            version, dumped = int(await home.redis.get(home.keys.mirror_version)), await dump(home)
            replaced = ("creds", "add", "openai", "--owner", "7")
            done = await asyncio.to_thread(turnfleet, *replaced, stdin=f"{NEWER}\n")
            assert done.exit_code == 0, done.stderr
            await mirrored(home, version + 1)
            await start_from_an_old_dump(home, base, dumped)
            assert await ask(home, 9_004) is TurnState.DONE
            restored = await asyncio.to_thread(turnfleet, "db", "restore-redis")
            assert "Redis is old" in restored.stderr
            assert await ask(home, 9_005) is TurnState.DONE
            assert keys_of(man)[-2:] == [KEY, NEWER]
            async with asyncio.timeout(LIMIT_S):
                while "restore-redis" in await alarms(base):
                    await asyncio.sleep(0.5)

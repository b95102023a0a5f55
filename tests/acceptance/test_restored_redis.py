"""Redis loses everything: the console says so, one command restores it, and turns run as before."""

import asyncio
import time
from collections.abc import Iterator

import httpx
import pytest

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

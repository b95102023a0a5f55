"""Every kind of process does its whole work under its own Redis account, and is refused nothing."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

from ops.acl import Role
from shared.config import Settings
from shared.edges.queue import TurnQueue
from shared.edges.redis import connect
from shared.turns import Target, TurnState
from tests.support.acl import Guarded, guarded_server
from tests.support.house import AS_USUAL, House, Process

pytestmark = pytest.mark.faults

GUILD, LIMIT_S = 777, 90.0
TOOLS = '{"*": ["calculate"]}'
PAGES = ("/", "/now.json", "/causes", "/errors", "/turns", "/workers", "/channels", "/channels/1")


class GuardedHouse(House):
    """A house whose processes come with the account of their role."""

    def __init__(self, guarded: Guarded, home: Path) -> None:
        super().__init__(guarded.url("admin"), AS_USUAL, home, workers=2, gateways=2, TOOLS=TOOLS)
        self._guarded = guarded
        self._url = guarded.url(Role.RECORDER)

    async def _through(self, role: str, url: str) -> str:
        return self._guarded.url(role) if role in set(Role) else url

    def environ_of(self, role: Role) -> dict[str, str]:
        more = {"REDIS_URL": self._guarded.url(role)}
        return self._environ({"ENDPOINTS": f'{{"rehearsal": "{self.provider_url}"}}', **more})

    async def turnfleet(self, *words: str, stdin: bytes = b"", code: int = 0) -> str:
        """An operator's command, which must end with the code."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "ops", *words),
            env=self.environ_of(Role.OPERATOR),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await process.communicate(stdin)
        assert process.returncode == code, (words, out.decode())
        return out.decode()

    async def ask(self, channel_id: int, model: str) -> str:
        target = Target(provider="rehearsal", model=model)
        number = await self.channel.say(channel_id, "hello?", guild_id=GUILD, target=target)
        return f"l{number}"

    async def stop_turn(self, turn_id: str) -> None:
        """What a person's Stop does, with the gateway's account."""
        client = connect(self._guarded.url(Role.GATEWAY))
        await TurnQueue(client, self.keys, Settings()).cancel(turn_id)
        await client.aclose()

    async def ended(self, turn_id: str) -> TurnState:
        async with asyncio.timeout(LIMIT_S):
            while (state := await self.records.state(turn_id)) not in {
                TurnState.DONE,
                TurnState.FAILED,
                TurnState.CANCELLED,
            }:
                await asyncio.sleep(0.05)
        assert state is not None
        return state

    @asynccontextmanager
    async def console(self) -> AsyncIterator[str]:
        process = Process(
            "console", ["ops", "console", "--port", "0"], self.environ_of(Role.CONSOLE), self.home
        )
        process.start()
        try:
            async with asyncio.timeout(LIMIT_S):
                while "http://" not in (text := process.log.read_text()):
                    await asyncio.sleep(0.05)
            yield "http://" + text.split("http://")[1].split("/")[0]
        finally:
            process.stop()


async def turns(home: GuardedHouse) -> None:
    """Answers, tools, failures, a stop, and a worker that dies while it speaks."""
    asked = {
        model: await home.ask(number, model)
        for number, model in enumerate(("plain", "sums", "invalid_key", "server_error", "cut"), 1)
    }
    for turn_id in asked.values():
        await home.ended(turn_id)
    slow = await home.ask(20, "slow")
    while not await home.channel.messages(20):
        await asyncio.sleep(0.05)
    for worker in home.workers:
        worker.kill()
        worker.start()
    stopped = await home.ask(21, "stuck")
    await asyncio.sleep(0.5)
    await home.stop_turn(stopped)
    assert await home.ended(slow) is TurnState.DONE
    assert await home.ended(stopped) is TurnState.CANCELLED
    await home.turnfleet("turns", "replay", asked["invalid_key"], "--yes")


async def commands(home: GuardedHouse) -> None:
    """What an operator does in a day."""
    await home.turnfleet("creds", "rotate")
    await home.turnfleet("creds", "add", "openai", "--owner", "777", stdin=b"sk-of-nobody-at-all\n")
    for words in (
        ("creds", "list"),
        ("creds", "audit"),
        ("turns", "list"),
        ("errors", "top"),
        ("errors", "rate"),
        ("turns", "send", "hello"),
        ("doctor",),
    ):
        await home.turnfleet(*words)


async def look(url: str) -> None:
    async with asyncio.timeout(LIMIT_S):
        while await fetched(f"{url}/healthz") is None:  # its address is known before it answers
            await asyncio.sleep(0.05)
    for page in PAGES:
        assert await fetched(url + page) == 200, page


async def fetched(url: str) -> int | None:
    try:
        with await asyncio.to_thread(urlopen, url) as answer:
            status: int = answer.status
            return status
    except HTTPError as exc:
        with exc:
            return exc.code
    except URLError:
        return None


@pytest.mark.parametrize("flavor", ["redis", "valkey"])
async def test_nothing_of_the_whole_work_is_refused(flavor: str, tmp_path: Path):
    with guarded_server(flavor, tmp_path) as guarded:
        async with GuardedHouse(guarded, tmp_path) as home:
            await turns(home)
            await commands(home)
            async with home.console() as url:
                await look(url)
            assert guarded.refused() == []
            for process in [*home.workers, *home.gateways, home.recorder]:
                assert process is not None
                assert process.stop() == 0, process.log.read_text()[-2000:]
        assert guarded.refused() == []

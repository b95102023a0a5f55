"""A configuration that changes under running processes: both follow it, and no wrong one."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.house import House, house
from tests.support.servers import RedisServer, running_server

pytestmark = pytest.mark.slow
LIMIT_S = 60.0
MODEL = '[models.a]\nprovider = "{}"\nmodel = "{}@0"\n[defaults]\nmodel = "a"\n'


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


async def reply(home: House, channel_id: int, text: str) -> str:
    """What the bot answers, notices included."""
    before = {message.id for message in await home.channel.messages(channel_id)}
    await home.channel.say(channel_id, text)
    async with asyncio.timeout(LIMIT_S):
        while True:
            messages = await home.channel.messages(channel_id)
            new = [one.text for one in messages if one.is_bot and one.id not in before]
            waiting = [await home.redis.xlen(home.keys.out(n)) for n in range(home.keys.partitions)]
            if new and not any(waiting):
                return "\n".join(new)
            await asyncio.sleep(0.05)


async def all_run(home: House, digest: str | None, *, error: bool = False) -> str:
    """Waits until gateway and worker run another configuration, or refuse one; its digest."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            followers = [
                one for one in await home.records.processes() if one.role in {"gateway", "worker"}
            ]
            digests = {one.config_digest for one in followers}
            errors = [bool(one.config_error) for one in followers]
            if error and len(followers) == 2 and all(errors):
                return digests.pop()
            if not error and len(digests) == 1 and digests != {digest} and not any(errors):
                return digests.pop()
            await asyncio.sleep(0.05)


async def test_everybody_follows_the_file_and_nobody_a_wrong_one(server, tmp_path: Path):
    file = tmp_path / "turnfleet.toml"
    file.write_text(MODEL.format("rehearsal", "plain"), encoding="utf-8")
    async with house(server.url, workers=1, CONFIG=str(file)) as home:
        plain = await reply(home, 1, "hello")
        first = await all_run(home, None)

        # A new provider at an address of this machine, which the guard must learn to allow.
        place = f'[providers.second]\nbase_url = "{home.provider_url}/v1"\nkeys = ["env:PATH"]\n'
        file.write_text(place + MODEL.format("second", "unicode"), encoding="utf-8")
        second = await all_run(home, first)
        other = await reply(home, 1, "hello again")
        assert other != plain
        assert "address" not in other

        file.write_text("[models.a]\nprovider = 1\n", encoding="utf-8")
        for process in (home.gateway, *home.workers):
            assert process is not None
            process.signal(signal.SIGHUP)
        assert await all_run(home, second, error=True) == second
        assert await reply(home, 1, "and again") == other
        assert all(process.unexpected == [] for process in home.processes)

        file.write_text('[[budgets]]\nscope = "all"\nperiod = "day"\ntokens = 1\n')
        await all_run(home, second)
        await reply(home, 1, "spends it")
        async with asyncio.timeout(LIMIT_S):
            while "Your share of answers is used up" not in await reply(home, 1, "has none"):
                await asyncio.sleep(0.05)  # the notice of the first reply may come late

"""A house with failures in it, a console that may write, and a browser: one of each for all tests.

The house is slow to build and everything in it is looked at, not changed, except where a test says
so; each test has pages of its own.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx
import msgspec
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from shared.turns import Target
from tests.support.console import LIMIT_MS, LIMIT_S, chromium, console
from tests.support.house import House, house
from tests.support.servers import RedisServer, running_server

GUILDS = (1187000000000000001, 1187000000000000002, 1187000000000000003)
EVIL = "<script>document.title = 'obeyed'</script> \u202e"


class Stage(msgspec.Struct, frozen=True):
    """Where the tests play."""

    home: House
    base: str
    browser: Browser

    async def say(self, model: str, *, channel: int, guild: int | None = None) -> str:
        """Posts a prompt of a person of its own; gives the id of its turn."""
        target = Target(provider="rehearsal", model=model)
        number = await self.home.channel.say(
            channel, EVIL, guild_id=guild, user_id=channel, target=target
        )
        return f"l{number}"

    @asynccontextmanager
    async def visit(
        self, *, scheme: str = "light", width: int = 1180, height: int = 800
    ) -> AsyncIterator[Page]:
        """A page of a fresh visitor. Whatever the browser complains about fails the test."""
        context = await self.browser.new_context(
            base_url=self.base,
            color_scheme="dark" if scheme == "dark" else "light",
            viewport={"width": width, "height": height},
        )
        context.set_default_timeout(LIMIT_MS)
        page = await context.new_page()
        complaints: list[str] = []
        page.on("console", lambda said: complaints.append(said.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        try:
            yield page
            assert complaints == []
        finally:
            await context.close()


@pytest.fixture(scope="package")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def stage(server: RedisServer) -> AsyncIterator[Stage]:
    async with (
        house(server.url, workers=1) as home,
        console(home, server.url, "--write") as base,
        chromium() as browser,
    ):
        stage = Stage(home, base, browser)
        for number, guild in enumerate(GUILDS):
            await stage.say("invalid_key", channel=100 + number, guild=guild)
        await stage.say("context_overflow", channel=110)
        await stage.say("unknown_model", channel=111, guild=GUILDS[0])
        await stage.say("plain", channel=112, guild=GUILDS[1])
        async with httpx.AsyncClient(base_url=base) as client, asyncio.timeout(LIMIT_S):
            while not await _is_set(client):
                await asyncio.sleep(0.2)
        yield stage


async def _is_set(client: httpx.AsyncClient) -> bool:
    causes = (await client.get("/causes.json?all=1")).json()["causes"]
    turns = (await client.get("/turns.json")).json()["turns"]
    return (sum(one["errors"] for one in causes), len(turns)) == (5, 5)

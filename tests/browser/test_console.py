"""The console in a real browser, over real processes: watched, talked in, and looked at.

The pictures lie in the directory of the test (`--basetemp` keeps them): light, dark, and as wide as
a phone.
"""

import asyncio
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from shared.turns import TurnState
from tests.support.house import House, Process, house
from tests.support.servers import RedisServer, free_port, running_server

pytestmark = pytest.mark.slow

LIMIT_S = 60.0
CHROMIUM = shutil.which("chromium")
DARK = "--blink-settings=preferredColorScheme=0"
PHONE = (400, 800)


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


@asynccontextmanager
async def console(home: House, url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A console process that may write, and a client of it."""
    port = free_port()
    environ = {name: text for name, text in os.environ.items() if "TURNFLEET" not in name}
    environ |= {"TURNFLEET_REDIS_URL": url, "TURNFLEET_DATA_DIR": str(home.home)}
    words = ["ops", "console", "--write", "--port", str(port)]
    process = Process("console", words, environ, home.home)
    process.start()
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            async with asyncio.timeout(LIMIT_S):
                while True:
                    try:
                        await client.get("/healthz")
                        break
                    except httpx.TransportError:
                        await asyncio.sleep(0.1)
            yield client
        assert process.stop() == 0
    finally:
        process.kill()


async def browse(home: Path, address: str, *options: str) -> str:
    """Opens a page in Chromium. Returns what it printed."""
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    quiet = ["no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync"]
    quiet += ["disable-background-networking", "disable-component-update", "hide-scrollbars"]
    process = await asyncio.create_subprocess_exec(
        *(CHROMIUM, "--headless", *(f"--{word}" for word in quiet)),
        *(f"--user-data-dir={home / 'browser'}", *options, address),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    async with asyncio.timeout(LIMIT_S):
        out, _ = await process.communicate()
    return out.decode()


async def send(client: httpx.AsyncClient, channel: int, text: str, model: str) -> None:
    path = f"/channels/{channel}"
    form = {
        "csrf": await form_mark(client, path),
        "text": text,
        "provider": "rehearsal",
        "model": model,
    }
    assert (await client.post(path, data=form)).status_code == 303


async def test_a_turn_is_sent_watched_found_and_replayed(server: RedisServer, tmp_path: Path):
    async with house(server.url, workers=1) as home, console(home, server.url) as client:
        await send(client, 5, "hello", "plain")
        async with client.stream("GET", "/channels/5.live", timeout=LIMIT_S) as events:
            async for line in events.aiter_lines():
                if "nothing leaves this machine" in line:
                    break
        await send(client, 6, "<script>document.title = 'obeyed'</script>", "invalid_key")
        turn_id = await failed_turn(client)
        base = str(client.base_url)
        page = await browse(tmp_path, f"{base}/channels/6", "--dump-dom")
        assert "obeyed'&lt;/script" in page
        assert "<title>obeyed" not in page
        for name, path, size, more in (
            ("now-light", "/", (1100, 900), []),
            ("turn-dark", f"/turns/{turn_id}", (1100, 900), [DARK]),
            ("turn-phone", f"/turns/{turn_id}", PHONE, []),
            ("causes-dark", "/causes", (1100, 500), [DARK]),
        ):
            picture = tmp_path / f"{name}.png"
            options = [f"--screenshot={picture}", f"--window-size={size[0]},{size[1]}", *more]
            await browse(tmp_path, f"{base}{path}", *options)
            assert picture.stat().st_size > 10_000
        form = {"csrf": await form_mark(client, f"/turns/{turn_id}"), "model": "plain"}
        answer = await client.post(f"/turns/{turn_id}", data=form)
        assert answer.headers["location"] == f"/turns/{turn_id}.2"
        async with asyncio.timeout(LIMIT_S):
            while await home.records.state(f"{turn_id}.2") is not TurnState.DONE:
                await asyncio.sleep(0.1)


async def form_mark(client: httpx.AsyncClient, path: str) -> str:
    mark = re.search(r'name="csrf" value="(\w+)"', (await client.get(path)).text)
    assert mark is not None
    return mark[1]


async def failed_turn(client: httpx.AsyncClient) -> str:
    """The failed turn, when its error has become a row of its cause."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            causes = (await client.get("/causes.json?cause=invalid_key")).json()["causes"]
            turns = (await client.get("/turns.json?cause=invalid_key")).json()["turns"]
            if causes and turns:
                return str(turns[0]["turn_id"])
            await asyncio.sleep(0.2)


@pytest.mark.parametrize(
    ("host", "token", "says"),
    [
        ("0.0.0.0", None, "TURNFLEET_CONSOLE_TOKEN"),
        ("127.0.0.1", "short", "fewer than"),
        ("192.0.2.1", "long-enough-for-a-token", "cannot listen"),
    ],
)
async def test_a_console_that_would_be_open_does_not_start(
    server: RedisServer, tmp_path: Path, host: str, token: str | None, says: str
):
    environ = {name: text for name, text in os.environ.items() if "TURNFLEET" not in name}
    environ |= {"TURNFLEET_REDIS_URL": server.url, "TURNFLEET_DATA_DIR": str(tmp_path)}
    if token is not None:
        environ["TURNFLEET_CONSOLE_TOKEN"] = token
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ops", "console", "--host", host, "--port", "0"),
        env=environ,
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
    )
    async with asyncio.timeout(LIMIT_S):
        _, err = await process.communicate()
    assert (process.returncode, says in err.decode()) == (2, True), err.decode()
    assert token is None or token not in err.decode()

"""MCP servers as real processes, over streamable HTTP and over stdio, and one that dies."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from shared.errors import ToolError
from shared.tools import ToolContext
from tests.support.processes import children_collected
from tests.support.servers import free_port
from tests.support.tool_case import ToolCase, call, calling, saying
from worker.edges.mcp import McpServers, prefixes
from worker.edges.tools import Toolbox
from worker.turn.tool_rounds import ToolLimits

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "tests.support.mcp_server")
CONTEXT = ToolContext(turn_id="l1", channel_id=1, user_id=2, guild_id=3)
WAIT_S = 30.0

pytestmark = pytest.mark.slow


class HttpServer:
    """The server on a port of its own, which it takes again when it comes back."""

    def __init__(self) -> None:
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def start(self) -> None:
        self._process = subprocess.Popen(
            [*COMMAND, str(self.port)],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        async with asyncio.timeout(WAIT_S):
            while not await _listens(self.port):
                await asyncio.sleep(0.05)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


@pytest.fixture
async def http() -> AsyncIterator[HttpServer]:
    server = HttpServer()
    await server.start()
    yield server
    server.kill()


@asynccontextmanager
async def connected(where: str | Sequence[str], look_s: float = 60.0) -> AsyncIterator[Toolbox]:
    box = Toolbox([], {"*": ["*"]}, coming=prefixes(["far"]))
    servers = McpServers({"far": where}, box, look_s=look_s)
    task = asyncio.create_task(servers.run())
    try:
        async with asyncio.timeout(WAIT_S):
            await servers.first_tries()
        yield box
    finally:
        task.cancel()
        await asyncio.wait({task})
        await children_collected()


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not is_so():
            await asyncio.sleep(0.02)


def names(box: Toolbox) -> list[str]:
    return [spec.name for spec in box.offered(7)]


OFFERED = ["far_add", "far_boom", "far_picture", "far_quit", "far_slow"]


async def check(box: Toolbox) -> None:
    assert names(box) == OFFERED
    assert box.complaint("far_add", {"a": 1}) == "$: 'b' is a required property"
    assert await box.run("far_add", {"a": 1, "b": 2}, CONTEXT) == "3"
    assert "image" in await box.run("far_picture", {}, CONTEXT)
    with pytest.raises(ToolError) as failed:
        await box.run("far_boom", {}, CONTEXT)
    assert failed.value.cause == "reported_error"
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await box.run("far_slow", {}, CONTEXT)
    assert await box.run("far_add", {"a": 2, "b": 2}, CONTEXT) == "4"


async def test_tools_over_http(http: HttpServer):
    async with connected(http.url) as box:
        await check(box)


async def test_tools_over_stdio():
    async with connected((*COMMAND, "stdio")) as box:
        await check(box)


async def test_a_server_that_dies_has_no_tools_until_it_is_back(http: HttpServer):
    async with connected(http.url, look_s=0.2) as box:
        http.kill()
        await until(lambda: names(box) == [])
        with pytest.raises(ToolError, match="unreachable"):
            await box.run("far_add", {"a": 1, "b": 2}, CONTEXT)
        await http.start()
        await until(lambda: names(box) == OFFERED)
        assert await box.run("far_add", {"a": 1, "b": 2}, CONTEXT) == "3"


async def test_a_server_that_dies_in_a_call_fails_the_call_and_comes_back():
    async with connected((*COMMAND, "stdio")) as box:
        with pytest.raises(ToolError) as failed:
            async with asyncio.timeout(WAIT_S):
                await box.run("far_quit", {}, CONTEXT)
        assert failed.value.cause == "unreachable"
        await until(lambda: names(box) == [])
        await until(lambda: names(box) == OFFERED)


async def test_a_server_that_is_away_holds_nobody_up():
    async with connected(f"http://127.0.0.1:{free_port()}/mcp") as box:
        assert names(box) == []


async def test_a_turn_survives_the_death_of_its_server():
    async with connected((*COMMAND, "stdio")) as box:
        case = ToolCase(
            calling(call("far_quit"), call("far_add", '{"a": 1, "b": 2}', id="c2", index=1)),
            saying("It is gone."),
            tool_limits=ToolLimits(call_s=10),
        )
        case.runner.tools = box
        await case.run()
        assert case.outbox.texts == ["It is gone."]
        assert "unreachable" in case.results[0]
        assert "hunter2" not in str(case.bodies)

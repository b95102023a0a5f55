"""The way to MCP servers over real sockets: nowhere but where the operator sent it."""

import asyncio
from collections.abc import Sequence

import pytest

from shared.errors import ConfigError
from tests.support.servers import free_port
from worker.edges.guard import Guard
from worker.edges.mcp import McpServers
from worker.edges.tools import Toolbox

pytest.importorskip("mcp", reason="the extra `mcp` is not installed")

import httpx2

from worker.edges.mcp_http import MAX_JSON_BYTES, guard_of_servers, guarded_client


class Listener:
    """Answers everything with what it is told, and counts who comes."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.count = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.count += 1
        await reader.readuntil(b"\r\n\r\n")
        try:
            writer.write(self.answer)
            await writer.drain()
        except ConnectionError:
            pass
        writer.close()


async def inside(_host: str, _port: int) -> Sequence[str]:
    return ["127.0.0.1"]


JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"


async def test_the_server_that_the_operator_named_is_reached():
    listener = Listener(JSON % (2, b"{}"))
    async with await asyncio.start_server(listener, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        async with guarded_client(guard_of_servers({"far": url})) as client:
            assert (await client.post(url, json={})).json() == {}


REFUSED = {
    "another port": "http://127.0.0.1:{port}/",
    "another name inside": "http://metadata.internal:{port}/",
    "without TLS": "http://example.com/",
    "a name that points inside": "https://tools.example/",
    "a name and a password": "https://me:pw@example.com/",
}


@pytest.mark.parametrize("url", REFUSED.values(), ids=REFUSED)
async def test_elsewhere_is_not_even_connected_to(url: str):
    listener = Listener(JSON % (2, b"{}"))
    async with await asyncio.start_server(listener, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        guard = guard_of_servers({"far": f"http://127.0.0.1:{free_port()}/mcp"})
        async with guarded_client(guard, inside) as client:
            with pytest.raises(httpx2.ConnectError):
                await client.post(url.format(port=port), json={})
        assert listener.count == 0


async def test_a_redirect_leads_nowhere():
    inner = Listener(JSON % (2, b"{}"))
    async with await asyncio.start_server(inner, "127.0.0.1", 0) as target:
        away = f"http://127.0.0.1:{target.sockets[0].getsockname()[1]}/secrets"
        outer = Listener(
            f"HTTP/1.1 307 Temporary Redirect\r\nlocation: {away}\r\n"
            "content-length: 0\r\n\r\n".encode()
        )
        async with await asyncio.start_server(outer, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
            box = Toolbox([], {"*": ["*"]})
            servers = McpServers({"far": url}, box)
            task = asyncio.create_task(servers.run())
            await servers.first_tries()
            task.cancel()
            await asyncio.wait({task})
            assert outer.count > 0
    assert inner.count == 0
    assert box.offered(None) == ()


async def test_an_answer_without_an_end_is_cut():
    listener = Listener(JSON % (10**9, b"x" * (MAX_JSON_BYTES + 1)))
    async with await asyncio.start_server(listener, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        async with guarded_client(guard_of_servers({"far": url})) as client:
            with pytest.raises(httpx2.ReadError, match="too long"):
                await client.get(url)


async def test_a_server_that_breaks_off_is_an_error_of_the_client():
    listener = Listener(JSON % (10, b"{"))
    async with await asyncio.start_server(listener, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        async with guarded_client(guard_of_servers({"far": url})) as client:
            with pytest.raises(httpx2.ReadError):
                await client.get(url)


def test_an_address_that_cannot_be_read_is_named_by_its_variable():
    with pytest.raises(ConfigError, match="TURNFLEET_MCP"):
        guard_of_servers({"far": "no address"})
    assert guard_of_servers({}) == Guard()

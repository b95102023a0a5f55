"""httpx over real sockets: what the edge gives, and how it fails."""

import asyncio

import httpcore
import httpx
import pytest

from shared.errors import EndpointError
from tests.support.http_server import CHUNKED, HEAD, chunk, serving
from worker.edges import http
from worker.edges.guard import guard_of
from worker.edges.http import MAX_BODY_BYTES, MAX_ERROR_BODY_BYTES, HttpEdge
from worker.edges.network import PAUSE_BYTES
from worker.providers.requests import HttpRequest


async def test_the_body_comes_as_it_arrives():
    go_on = asyncio.Event()

    async def handler(_reader, writer):
        writer.write(CHUNKED + chunk(b"data: a\n\n"))
        await writer.drain()
        await go_on.wait()
        writer.write(chunk(b"data: b\n\n") + chunk(b""))
        await writer.drain()

    async with serving(handler) as (edge, request), edge.open(request) as response:
        assert response.status == 200
        assert ("x-request-id", "r1") in response.headers
        assert await response.more() == b"data: a\n\n"
        go_on.set()
        assert await response.more() == b"data: b\n\n"
        assert await response.more() is None
        assert await response.more() is None


async def test_leaving_the_context_closes_the_connection_at_once():
    closed = asyncio.Event()

    async def handler(reader, writer):
        writer.write(CHUNKED + chunk(b"data: a\n\n"))
        await writer.drain()
        await reader.read()
        closed.set()

    async with serving(handler) as (edge, request):
        async with edge.open(request) as response:
            await response.more()
        await asyncio.wait_for(closed.wait(), 1)


async def test_a_connection_cut_in_mid_stream_is_an_endpoint_error():
    async def handler(_reader, writer):
        writer.write(CHUNKED + chunk(b"data: a\n\n") + b"40\r\nhalf")
        await writer.drain()

    async with serving(handler) as (edge, request), edge.open(request) as response:
        assert await response.more() == b"data: a\n\nhalf"
        with pytest.raises(EndpointError) as caught:
            await response.more()
    assert caught.value.exception == "RemoteProtocolError"


async def test_an_error_body_is_bounded():
    async def handler(_reader, writer):
        writer.write(HEAD.replace(b"200 OK", b"500 Oops") + b"\r\n" + b"x" * 300_000)
        await writer.drain()

    async with serving(handler) as (edge, request), edge.open(request) as response:
        assert response.status == 500
        assert len(await response.error_body()) == MAX_ERROR_BODY_BYTES


async def test_an_error_body_that_breaks_gives_what_came():
    async def handler(_reader, writer):
        writer.write(CHUNKED.replace(b"200 OK", b"502 Oops") + chunk(b"bad") + b"ff\r\n")
        await writer.drain()

    async with serving(handler) as (edge, request), edge.open(request) as response:
        assert await response.error_body() == b"bad"


async def test_a_refused_connection_has_its_own_name():
    server = await asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    edge = HttpEdge(guard_of(f"127.0.0.1:{port}", {}))
    server.close()
    await server.wait_closed()
    with pytest.raises(EndpointError) as caught:
        async with edge.open(HttpRequest("POST", f"http://127.0.0.1:{port}/", (), b"")):
            pass
    assert caught.value.exception == "ConnectionRefusedError"
    await edge.close()


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999/", "nonsense"], ids=["port", "scheme"])
async def test_an_impossible_address_is_an_endpoint_error(url):
    edge = HttpEdge()
    with pytest.raises(EndpointError):
        async with edge.open(HttpRequest("POST", url, (), b"")):
            pass
    await edge.close()


async def test_a_redirect_is_not_followed():
    async def handler(_reader, writer):
        writer.write(b"HTTP/1.1 307 Away\r\nlocation: http://127.0.0.1:1/\r\n\r\n")
        await writer.drain()

    async with serving(handler) as (edge, request), edge.open(request) as response:
        assert response.status == 307


async def test_the_error_never_quotes_the_address():
    edge = HttpEdge()
    with pytest.raises(EndpointError) as caught:
        async with edge.open(HttpRequest("POST", "http://user:pass@127.0.0.1:1/?key=s", (), b"")):
            pass
    assert "pass" not in str(caught.value)
    assert "key" not in str(caught.value)
    await edge.close()


async def test_a_body_without_end_is_cut_off():
    async def handler(_reader, writer):
        writer.write(CHUNKED)
        while True:
            writer.write(chunk(b"x" * 65_536))
            await writer.drain()

    size = 0

    async def read(response: http.HttpResponse) -> None:
        nonlocal size
        while (data := await response.more()) is not None:
            size += len(data)

    async with serving(handler) as (edge, request), edge.open(request) as response:
        with pytest.raises(EndpointError) as caught:
            await read(response)
    assert caught.value.exception == "BodyTooLarge"
    assert MAX_BODY_BYTES - 2 * PAUSE_BYTES < size <= MAX_BODY_BYTES


async def test_an_error_body_that_drips_is_not_waited_for():
    async def handler(reader, writer):
        writer.write(CHUNKED.replace(b"200 OK", b"502 Oops") + chunk(b"bad"))
        await writer.drain()
        await reader.read()

    async with (
        serving(handler, error_body_timeout_s=0.05) as (edge, request),
        edge.open(request) as response,
    ):
        assert await response.error_body() == b"bad"


async def test_a_body_larger_than_any_socket_buffer_is_sent_whole():
    sizes = []

    async def handler(reader, writer):
        await asyncio.sleep(0)  # the writer meets a full buffer first
        sizes.append(len(await reader.readexactly(6_000_000)))
        writer.write(HEAD + b"content-length: 0\r\n\r\n")
        await writer.drain()

    async with serving(handler) as (edge, request):
        big = HttpRequest("POST", request.url, (), b"y" * 6_000_000)
        async with edge.open(big) as response:
            assert response.status == 200
    assert sizes == [6_000_000]


async def test_a_connection_is_used_again():
    peers = []

    async def handler(reader, writer):
        for _ in range(2):
            peers.append(writer.get_extra_info("peername"))
            await reader.readexactly(2)
            writer.write(HEAD + b"content-length: 2\r\n\r\nok")
            await writer.drain()
            if len(peers) == 1:
                await reader.readuntil(b"\r\n\r\n")

    async with serving(handler) as (edge, request):
        for _ in range(2):
            async with edge.open(request) as response:
                assert await response.more() == b"ok"
                assert await response.more() is None
    assert peers[0] == peers[1]


def test_every_error_of_httpcore_that_a_request_may_raise_is_translated():
    raised = {
        kind
        for kind in map(httpcore.__dict__.get, httpcore.__all__)
        if isinstance(kind, type) and issubclass(kind, Exception)
    }
    assert len(raised) > 10
    assert all(issubclass(kind, http._FAILURES) for kind in raised)


def test_every_error_of_httpx_that_a_request_may_raise_is_translated():
    raised = {httpx.TransportError, httpx.DecodingError, httpx.TooManyRedirects}
    assert all(issubclass(kind, httpx.HTTPError) for kind in raised)
    assert issubclass(httpx.StreamError, RuntimeError)
    assert issubclass(httpx.InvalidURL, Exception)

"""How bodies are read over real sockets: interrupted, cancelled, framed, packed, broken."""

import asyncio
import contextlib
import zlib

import pytest

from shared.errors import EndpointError
from tests.support.http_server import CHUNKED, HEAD, chunk, serving
from worker.edges.http import MAX_BODY_BYTES, HttpResponse
from worker.edges.network import PAUSE_BYTES
from worker.providers.requests import HttpRequest


async def test_who_waits_can_be_interrupted_and_loses_nothing():
    go_on = asyncio.Event()

    async def handler(_reader, writer):
        writer.write(CHUNKED + chunk(b"data: a\n\n") + b"9\r\ndata")
        await writer.drain()
        await go_on.wait()
        writer.write(b": b\n\n\r\n" + chunk(b""))
        await writer.drain()

    async with serving(handler) as (edge, request), edge.open(request) as response:
        read = b""
        while read != b"data: a\n\ndata":
            read += await response.more() or b""
        asyncio.get_running_loop().call_soon(response.interrupt)
        assert await response.more() == b""
        response.interrupt()  # before anyone waits: it holds for the next wait
        assert await response.more() == b""
        go_on.set()
        assert await response.more() == b": b\n\n"
        assert await response.more() is None


async def test_an_interruption_that_comes_late_ends_nobody_elses_wait():
    """A stop is told a moment after its answer ended, and its connection has the next request."""
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def handler(reader, writer):
        writer.write(HEAD + b"content-length: 2\r\n\r\nok")
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await go_on.wait()
        writer.write(HEAD + b"content-length: 4\r\n\r\nnext")
        await writer.drain()

    async with serving(handler) as (edge, request):
        async with edge.open(request) as first:
            assert await first.more() == b"ok"
            assert await first.more() is None

        async def ask() -> bytes | None:
            async with edge.open(request) as second:
                return await second.more() or await second.more()

        waiting = asyncio.create_task(ask())
        await asked.wait()
        first.interrupt()
        await asyncio.sleep(0.02)
        go_on.set()
        assert await waiting == b"next"


async def test_a_read_that_is_cancelled_loses_nothing():
    go_on = asyncio.Event()

    async def handler(_reader, writer):
        writer.write(CHUNKED)
        await writer.drain()
        await go_on.wait()
        writer.write(chunk(b"data: a\n\n") + chunk(b""))
        await writer.drain()

    async with serving(handler) as (edge, request), edge.open(request) as response:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await response.more()
        go_on.set()
        assert await response.more() == b"data: a\n\n"


async def test_a_peer_waits_while_nobody_reads():
    sent = 0
    full = asyncio.Event()

    async def handler(_reader, writer):
        nonlocal sent
        writer.transport.set_write_buffer_limits(high=0)
        writer.write(CHUNKED)
        with contextlib.suppress(TimeoutError):
            while True:
                writer.write(chunk(b"x" * 65_536))
                sent += 65_536
                async with asyncio.timeout(0.3):
                    await writer.drain()
        full.set()

    async with serving(handler) as (edge, request), edge.open(request) as response:
        await full.wait()
        assert len(await response.more() or b"") < 2 * PAUSE_BYTES
        assert sent > PAUSE_BYTES


NOT_USED_AGAIN = {
    "the server says so": HEAD + b"connection: close\r\ncontent-length: 2\r\n\r\nok",
    "the old protocol": b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
    "more than was announced": HEAD + b"content-length: 2\r\n\r\nok, and more",
    "more behind the last chunk": CHUNKED + chunk(b"ok") + chunk(b"") + b"more",
}


@pytest.mark.parametrize("answer", NOT_USED_AGAIN.values(), ids=NOT_USED_AGAIN)
async def test_a_connection_that_is_not_clean_is_closed(answer):
    peers = []

    async def handler(reader, writer):
        peers.append(writer.get_extra_info("peername"))
        writer.write(answer)
        await writer.drain()
        await reader.read()

    async with serving(handler) as (edge, request):
        for _ in range(2):
            async with edge.open(request) as response:
                assert await response.more() == b"ok"
                assert await response.more() is None
    assert peers[0] != peers[1]


async def test_a_server_that_closed_an_idle_connection_is_asked_on_another():
    async def handler(_reader, writer):
        writer.write(HEAD + b"content-length: 2\r\n\r\nok")
        await writer.drain()

    async with serving(handler) as (edge, request):
        for _ in range(3):
            async with edge.open(request) as response:
                assert await response.more() == b"ok"
                assert await response.more() is None
            await asyncio.sleep(0.02)


WHOLE = {
    "without a count": (HEAD + b"\r\nok", 200),
    "behind an interim answer": (b"HTTP/1.1 103 Hints\r\n\r\n" + HEAD + b"\r\nok", 200),
    "in chunks with a trailer": (CHUNKED + chunk(b"ok") + b"0\r\nx: y\r\n\r\n", 200),
}


@pytest.mark.parametrize(("answer", "status"), WHOLE.values(), ids=WHOLE)
async def test_a_body_is_whole_however_it_is_framed(answer, status):
    async def handler(_reader, writer):
        for at in range(len(answer)):
            writer.write(answer[at : at + 1])
            await writer.drain()

    async with serving(handler) as (edge, request), edge.open(request) as response:
        assert response.status == status
        read = b""
        while (data := await response.more()) is not None:
            read += data
        assert read == b"ok"


BROKEN = {
    "nothing": b"",
    "half a head": HEAD,
    "no HTTP": b"SSH-2.0-OpenSSH\r\n\r\n",
    "a head without end": HEAD + b"x-long: " + b"y" * 200_000,
    "two lengths": HEAD + b"content-length: 2\r\ncontent-length: 3\r\n\r\nok",
    "an unknown framing": HEAD + b"transfer-encoding: gzip\r\n\r\nok",
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN)
async def test_an_answer_that_is_none_is_an_endpoint_error(answer):
    async def handler(_reader, writer):
        writer.write(answer)
        await writer.drain()

    async with serving(handler) as (edge, request):
        with pytest.raises(EndpointError) as caught:
            async with edge.open(request):
                pass
    assert caught.value.exception == "RemoteProtocolError"


@pytest.mark.parametrize("value", ["a\r\nx: y", "a\nb", "a\0b"], ids=["two", "feed", "nul"])
async def test_a_header_that_would_be_two_is_not_sent(value):
    async def handler(_reader, writer):
        writer.write(HEAD + b"content-length: 0\r\n\r\n")

    async with serving(handler) as (edge, request):
        bad = HttpRequest("POST", request.url, (("authorization", value),), b"")
        with pytest.raises(EndpointError) as caught:
            async with edge.open(bad):
                pass
    assert caught.value.exception == "LocalProtocolError"


@pytest.mark.parametrize("encoding", ["gzip", "X-GZIP", "deflate"])
async def test_a_body_that_was_packed_all_the_same_is_unpacked_as_it_comes(encoding):
    pack = zlib.compressobj(wbits=31 if "gzip" in encoding.lower() else 15)
    first = pack.compress(b"data: a\n\n") + pack.flush(zlib.Z_SYNC_FLUSH)
    go_on = asyncio.Event()

    async def handler(_reader, writer):
        writer.write(HEAD + b"content-encoding: " + encoding.encode() + b"\r\n\r\n" + first)
        await writer.drain()
        await go_on.wait()
        writer.write(pack.compress(b"data: b\n\n") + pack.flush())
        await writer.drain()

    async with serving(handler) as (edge, request), edge.open(request) as response:
        assert await response.more() == b"data: a\n\n"
        go_on.set()
        assert await response.more() == b"data: b\n\n"
        assert await response.more() is None


async def test_a_bomb_unfolds_no_further_than_the_bound():
    bomb = zlib.compress(b"x" * (2 * MAX_BODY_BYTES))

    async def handler(_reader, writer):
        writer.write(HEAD + b"content-encoding: deflate\r\n\r\n" + bomb)
        await writer.drain()

    async def read(response: HttpResponse) -> None:
        while await response.more() is not None:
            pass

    async with serving(handler) as (edge, request), edge.open(request) as response:
        with pytest.raises(EndpointError) as caught:
            await read(response)
    assert caught.value.exception == "BodyTooLarge"


async def test_a_body_that_is_not_packed_as_it_says_is_an_endpoint_error():
    async def handler(_reader, writer):
        writer.write(HEAD + b"content-encoding: gzip\r\n\r\nplain text")
        await writer.drain()

    async with serving(handler) as (edge, request), edge.open(request) as response:
        with pytest.raises(EndpointError) as caught:
            await response.more()
    assert caught.value.exception == "DecodingError"

"""A server that says what a test wants, byte for byte, and the HTTP edge that may reach it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from worker.edges.guard import guard_of
from worker.edges.http import HttpEdge
from worker.providers.requests import HttpRequest

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nX-Request-Id: r1\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body; the empty one ends it."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


@contextlib.asynccontextmanager
async def serving(
    handler: Handler, *, error_body_timeout_s: float = 10.0
) -> AsyncIterator[tuple[HttpEdge, HttpRequest]]:
    """Serves until the block ends; the handler is called behind the head of a request."""
    visits: set[asyncio.Task[None] | None] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits.add(asyncio.current_task())
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            try:
                await reader.readuntil(b"\r\n\r\n")
                await handler(reader, writer)
            finally:
                writer.close()
                await writer.wait_closed()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    url = f"http://127.0.0.1:{port}/v1"
    edge = HttpEdge(guard_of("", {"local": url}), error_body_timeout_s=error_body_timeout_s)
    try:
        yield edge, HttpRequest("POST", url, (), b"{}")
    finally:
        await edge.close()
        server.close()
        for visit in visits:
            if visit is not None:
                await visit

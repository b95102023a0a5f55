"""One connection of HTTP/1.1, below httpcore's pool and above our network.

Comes in: requests of httpcore, one at a time. Goes out: their answers, whose bodies are read by
`Body.more`. Only `worker.edges.http` constructs it.

It stands in the place of httpcore's own HTTP/1.1 connection. h11 writes requests and reads heads;
bodies are read straight from the network through `worker.edges.framing`: what has come at once is
one piece, without an event, a task or five nested generators for each chunk. And whoever waits for
a piece can be interrupted without losing any, which a generator cannot.
"""

import contextlib
import enum
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from typing import Any, Final, cast

import h11
import httpcore

from worker.edges.framing import BadFraming, Framing, framing_of
from worker.edges.network import GuardedBackend, GuardedStream

MAX_HEAD_BYTES: Final = 100 * 1024
"""httpcore's own bound."""
READ_BYTES: Final = 64 * 1024


class _State(enum.Enum):
    NEW = "new"
    ACTIVE = "active"
    IDLE = "idle"
    CLOSED = "closed"


class Body:
    """The body of one answer.

    Args:
        connection: where it comes from; it has no other answer until this one is closed.
        framing: what of the bytes is body.
        first: what came with the head.
    """

    __slots__ = ("_connection", "_first", "_framing", "_is_closed", "_stream")

    def __init__(
        self, connection: "Connection", stream: GuardedStream, framing: Framing, first: bytes
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._framing = framing
        self._first = first
        self._is_closed = False

    async def more(self) -> bytes | None:
        """Everything that has come since, as soon as there is something; None at the end.

        Cancelling loses nothing.

        Returns:
            Nothing (`b""`) where it was interrupted.

        Raises:
            httpcore.ReadError: the connection broke.
            httpcore.RemoteProtocolError: it ended too early, or is framed badly.
        """
        framing = self._framing
        try:
            while not framing.is_done:
                if self._first:
                    data, self._first = self._first, b""
                else:
                    came = await self._stream.more()
                    if came is None:
                        framing.end()
                        break
                    if not came:
                        return b""
                    data = came
                if part := framing.feed(data):
                    return part
        except BadFraming as exc:
            raise httpcore.RemoteProtocolError(str(exc)) from exc
        return None

    def interrupt(self) -> None:
        """Lets `more`, now or next time, return at once."""
        self._stream.interrupt()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The body as httpcore iterates it."""
        while (data := await self.more()) is not None:
            if data:
                yield data

    async def aclose(self) -> None:
        """Gives the connection back, or closes it at once where the answer was not read whole."""
        if not self._is_closed:
            self._is_closed = True
            await self._connection.release(is_whole=self._framing.is_done and not self._is_dirty)

    @property
    def _is_dirty(self) -> bool:
        return self._framing.surplus or bool(self._first)


class Connection(httpcore.AsyncConnectionInterface):
    """A connection to one origin; it connects with its first request.

    Args:
        origin: scheme, host and port.
        backend: how to connect.
        tls: whom to trust.
    """

    def __init__(
        self, origin: httpcore.Origin, backend: GuardedBackend, tls: ssl.SSLContext
    ) -> None:
        self._origin = origin
        self._backend = backend
        self._tls = tls
        self._stream: GuardedStream | None = None
        self._state = _State.NEW
        self._may_stay = False

    async def handle_async_request(self, request: httpcore.Request) -> httpcore.Response:
        """Sends a request, and reads the head of its answer.

        Raises:
            httpcore.ConnectionNotAvailable: it has an answer in hand; the pool asks another one.
        """
        if self._state not in (_State.NEW, _State.IDLE):
            raise httpcore.ConnectionNotAvailable
        self._state = _State.ACTIVE
        try:
            limits: Mapping[str, float | None] = request.extensions.get("timeout", {})
            if self._stream is None:
                self._stream = await self._connected(limits.get("connect"))
            return await self._answer(self._stream, request, limits)
        except BaseException:
            await self.aclose()
            raise

    async def release(self, *, is_whole: bool) -> None:
        """Ends an answer: the next request may come where this one was read whole."""
        if is_whole and self._may_stay and self._state is _State.ACTIVE:
            self._state = _State.IDLE
        else:
            await self.aclose()

    async def aclose(self) -> None:
        """Closes at once."""
        self._state = _State.CLOSED
        if self._stream is not None:
            await self._stream.aclose()

    # What the pool asks

    def can_handle_request(self, origin: httpcore.Origin) -> bool:
        """Whether it leads there."""
        return origin == self._origin

    def is_available(self) -> bool:
        """Whether it would take a request now; one that connects has its own already."""
        return self._state is _State.IDLE

    def is_idle(self) -> bool:
        """Whether it waits for a request."""
        return self._state is _State.IDLE

    def is_closed(self) -> bool:
        """Whether it is of no use any more."""
        return self._state is _State.CLOSED

    def has_expired(self) -> bool:
        """Whether the peer has closed it, or said something without being asked."""
        stream = self._stream
        return self.is_idle() and stream is not None and bool(stream.get_extra_info("is_readable"))

    def info(self) -> str:
        """For logs of the pool."""
        return f"{self._origin}, HTTP/1.1, {self._state.value}"

    # Asking

    async def _connected(self, limit_s: float | None) -> GuardedStream:
        host = self._origin.host.decode("ascii")
        stream = await self._backend.connect_tcp(host, self._origin.port, timeout=limit_s)
        if self._origin.scheme == b"https":
            await stream.start_tls(self._tls, server_hostname=host, timeout=limit_s)
        return stream

    async def _answer(
        self, stream: GuardedStream, request: httpcore.Request, limits: Mapping[str, float | None]
    ) -> httpcore.Response:
        wire = h11.Connection(our_role=h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)
        try:
            data = await _spoken(wire, request)
        except h11.LocalProtocolError as exc:
            raise httpcore.LocalProtocolError(str(exc)) from exc
        # A server may refuse before it has read everything: its answer is there all the same.
        with contextlib.suppress(httpcore.WriteError):
            await stream.write(data, timeout=limits.get("write"))
        try:
            head = await _head(wire, stream, limits.get("read"))
        except h11.RemoteProtocolError as exc:
            raise httpcore.RemoteProtocolError(str(exc)) from exc
        self._may_stay = head.http_version == b"1.1" and not _says_close(head)
        body = Body(self, stream, framing_of(request.method, head), wire.trailing_data[0])
        extensions: dict[str, Any] = {"http_version": b"HTTP/" + head.http_version, "body": body}
        return httpcore.Response(
            head.status_code,
            headers=head.headers.raw_items(),
            content=body,
            extensions=extensions,
        )


async def _spoken(wire: h11.Connection, request: httpcore.Request) -> bytes:
    """The whole request in bytes: it is in memory already, and one write is one packet."""
    parts = [
        wire.send(
            h11.Request(method=request.method, target=request.url.target, headers=request.headers)
        )
    ]
    stream = cast(AsyncIterable[bytes], request.stream)  # httpx knows no other in async clients
    parts.extend([wire.send(h11.Data(data=data)) async for data in stream])
    parts.append(wire.send(h11.EndOfMessage()))
    return b"".join(part for part in parts if part)


async def _head(wire: h11.Connection, stream: GuardedStream, limit_s: float | None) -> h11.Response:
    """Reads until the final head, over interim ones."""
    while True:
        event = wire.next_event()
        if isinstance(event, h11.Response):
            return event
        if event is h11.NEED_DATA:
            data = await stream.read(READ_BYTES, timeout=limit_s)
            if not data and wire.their_state == h11.SEND_RESPONSE:
                raise httpcore.RemoteProtocolError("the server left without an answer")
            wire.receive_data(data)


def _says_close(head: h11.Response) -> bool:
    words = [value.lower() for name, value in head.headers if name == b"connection"]
    return any(b"close" in value for value in words)

"""The network under the HTTP client: resolves, asks the guard, connects, and moves bytes.

Comes in: a host and a port from httpcore. Goes out: a stream of bytes to an address that the guard
has seen. Only `worker.edges.http` constructs it.

It is httpcore's public hook (`network_backend=`). It stands straight on asyncio's protocols: one
future per read instead of anyio's layers, which are most of what httpx costs per event
(docs/decisions/0011). httpcore checks TLS against the name that it was asked for; only the
connection goes to the address, so that a name cannot change its mind between check and connect.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, cast

import httpcore

from worker.edges.guard import Guard, Refusal

PAUSE_BYTES: Final = 256 * 1024
"""Unread bytes at which the peer is told to wait: four of httpcore's reads."""
RESUME_BYTES: Final = 64 * 1024
MAX_ADDRESSES: Final = 8
"""That are tried of one name; big providers publish up to eight."""
ADDRESS_SHARE_S: Final = 2.5
"""What each address but the last gets to answer: one lost SYN and its repetition after 1 s."""

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""All addresses of a host, in the order in which to try them; raises `OSError`."""


class EndpointNotAllowed(httpcore.ConnectError):
    """The guard refuses this endpoint. The reason is a word; no address stands in the text."""

    def __init__(self, reason: Refusal) -> None:
        super().__init__(f"the endpoint is not allowed: {reason}")
        self.reason = reason


async def resolve(host: str, port: int) -> list[str]:
    """Asks the system's resolver, which also reads every spelling of a numeric address.

    Cancelling leaves a thread of the resolver behind until the system's own limit.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class _Bytes(asyncio.Protocol):
    """Holds what arrived until it is read, and tells when more may be written."""

    __slots__ = (
        "_can_write",
        "_reader",
        "error",
        "is_at_end",
        "is_interrupted",
        "is_paused",
        "parts",
        "size",
        "way",
    )

    def __init__(self) -> None:
        self.way: asyncio.Transport | None = None
        self.parts: list[bytes] = []
        self.size = 0
        self.is_at_end = False
        self.is_interrupted = False  # somebody wants the reader back, whatever comes
        self.is_paused = False
        self.error: Exception | None = None
        self._reader: asyncio.Future[None] | None = None
        self._can_write: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.way = cast(asyncio.Transport, transport)  # uvloop's are no subclass

    def data_received(self, data: bytes) -> None:
        self.parts.append(data)
        self.size += len(data)
        if self.size > PAUSE_BYTES and not self.is_paused and self.way is not None:
            self.is_paused = True
            self.way.pause_reading()
        _wake(self._reader)

    def eof_received(self) -> bool:
        self._ended(None)
        return False  # the transport closes itself

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended(exc)
        _wake(self._can_write)

    def pause_writing(self) -> None:
        self._can_write = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        _wake(self._can_write)
        self._can_write = None

    def more(self) -> "asyncio.Future[None]":
        """Done when there is something to read, or nothing will come any more; for one reader."""
        self._reader = asyncio.get_running_loop().create_future()
        return self._reader

    def interrupt(self) -> None:
        """Ends the wait of a reader, or the next one."""
        self.is_interrupted = True
        _wake(self._reader)

    async def drained(self) -> None:
        """Waits until the transport takes more bytes, or is gone."""
        if self._can_write is not None and not self.is_at_end:
            await self._can_write

    def take(self, max_bytes: int) -> bytes:
        """Takes up to this much of what arrived."""
        data = self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)
        self.parts.clear()
        if len(data) > max_bytes:
            self.parts.append(data[max_bytes:])
            data = data[:max_bytes]
        self.size -= len(data)
        if self.is_paused and self.size < RESUME_BYTES and self.way is not None:
            self.is_paused = False
            self.way.resume_reading()
        return data

    def _ended(self, exc: Exception | None) -> None:
        self.is_at_end = True
        self.error = self.error or exc
        _wake(self._reader)


def _wake(waiter: "asyncio.Future[None] | None") -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


class GuardedStream(httpcore.AsyncNetworkStream):
    """A connection to a checked address."""

    def __init__(self, way: asyncio.Transport, protocol: _Bytes) -> None:
        self._way = way
        self._protocol = protocol

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """What has arrived, `b""` at the end. Cancelling loses nothing."""
        protocol = self._protocol
        try:
            async with asyncio.timeout(timeout):
                while not protocol.parts and not protocol.is_at_end:  # an interruption is neither
                    await protocol.more()
        except TimeoutError as exc:
            raise httpcore.ReadTimeout(exc) from exc
        if protocol.parts:
            return protocol.take(max_bytes)
        if protocol.error is not None:
            raise httpcore.ReadError(protocol.error) from protocol.error
        return b""

    async def more(self) -> bytes | None:
        """All that has arrived, as one piece; None at the end. Cancelling loses nothing.

        Returns:
            Nothing (`b""`) where it was interrupted.
        """
        protocol = self._protocol
        if not (protocol.parts or protocol.is_at_end or protocol.is_interrupted):
            await protocol.more()
        protocol.is_interrupted = False
        if protocol.parts:
            return protocol.take(protocol.size)
        if protocol.error is not None:
            raise httpcore.ReadError(protocol.error) from protocol.error
        return None if protocol.is_at_end else b""

    def interrupt(self) -> None:
        """Lets `more`, now or next time, return at once."""
        self._protocol.interrupt()

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Writes; waits while the peer takes nothing. Cancelled, bytes may have left."""
        if not buffer:
            return
        if self._way.is_closing():
            raise httpcore.WriteError("the connection is closed")
        self._way.write(buffer)
        try:
            async with asyncio.timeout(timeout):
                await self._protocol.drained()
        except TimeoutError as exc:
            raise httpcore.WriteTimeout(exc) from exc

    async def aclose(self) -> None:
        """Closes at once: what is still on the way belongs to nobody."""
        self._way.abort()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> "GuardedStream":
        """Puts TLS over the connection; the certificate must be of `server_hostname`."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                way = await loop.start_tls(
                    self._way, self._protocol, ssl_context, server_hostname=server_hostname
                )
        except BaseException as exc:
            self._way.abort()
            if isinstance(exc, TimeoutError):
                raise httpcore.ConnectTimeout(exc) from exc
            if isinstance(exc, OSError):  # ssl.SSLError and a connection that broke are both
                raise httpcore.ConnectError(exc) from exc
            raise
        if way is None:  # the peer left during the handshake
            raise httpcore.ConnectError("the connection was closed")
        self._protocol.way = self._way = way
        return self

    def get_extra_info(self, info: str) -> Any:
        """What httpcore asks about a connection; an idle one with something to read has ended."""
        match info:
            case "is_readable":
                return self._protocol.is_at_end or bool(self._protocol.parts)
            case "client_addr":
                return self._way.get_extra_info("sockname")
            case "server_addr":
                return self._way.get_extra_info("peername")
            case _:
                return self._way.get_extra_info(info)


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Connects where the guard allows it.

    Args:
        guard: what may be reached; it may be replaced, connections that stand are left alone.
        resolver: finds the addresses of a name.
    """

    def __init__(self, guard: Guard, resolver: Resolve = resolve) -> None:
        self.guard = guard
        self._resolve = resolver

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> "GuardedStream":
        """Resolves, checks every address, and connects to the first that answers.

        Raises:
            EndpointNotAllowed: an address is not public, and the operator did not allow it.
            httpcore.ConnectError, httpcore.ConnectTimeout: no address answered.
        """
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._resolve(host, port)
                refusal = self.guard.refusal_of_addresses(host, port, addresses)
                if refusal is not None:
                    raise EndpointNotAllowed(refusal)
                return await _first_that_answers(addresses[:MAX_ADDRESSES], port)
        except TimeoutError as exc:
            raise httpcore.ConnectTimeout(exc) from exc
        except (OSError, UnicodeError) as exc:  # the resolver refuses some names as no IDNA
            raise httpcore.ConnectError(exc) from exc

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        """No endpoint is a file."""
        raise httpcore.ConnectError("endpoints are not reached through files")

    async def sleep(self, seconds: float) -> None:
        """Waits between repetitions of httpcore, of which we ask for none."""
        await asyncio.sleep(seconds)


async def _first_that_answers(addresses: Sequence[str], port: int) -> GuardedStream:
    """Tries one address after the other, in the resolver's order (RFC 6724)."""
    for address in addresses[:-1]:
        try:
            async with asyncio.timeout(ADDRESS_SHARE_S):
                return await _connected(address, port)
        except OSError:  # a TimeoutError is one
            continue
    if not addresses:
        raise OSError("the name has no address")
    return await _connected(addresses[-1], port)


async def _connected(address: str, port: int) -> GuardedStream:
    way, protocol = await asyncio.get_running_loop().create_connection(_Bytes, address, port)
    return GuardedStream(way, protocol)

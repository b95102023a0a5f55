"""Connections that can be cancelled, on every Python.

Comes in: nothing. Goes out: redis-py's three connection classes, repaired. `shared.edges.redis`
alone imports it.

redis-py 5 sends through `asyncio.wait_for`, which before Python 3.12 swallows a cancellation that
arrives together with its result (cpython issue 86296): a task that is told to end while it sends
goes on and waits for the answer, for ever when it is a blocking read in a loop. Here the time limit
is an `asyncio.timeout`, and no task is made for each command.

It also checks the health of a connection in the middle of its own handshake, where a refusal (a
missing password) sends it into retries within retries. A new connection needs no such check.
"""

import asyncio
from collections.abc import Iterable

import redis.exceptions as errors
from redis.asyncio.connection import (
    AbstractConnection,
    Connection,
    SSLConnection,
    UnixDomainSocketConnection,
)


class _Cancellable(AbstractConnection):
    async def on_connect(self) -> None:
        """Shakes hands with the server."""
        self.next_health_check = asyncio.get_running_loop().time() + self.health_check_interval
        await super().on_connect()

    async def send_packed_command(
        self, command: bytes | str | Iterable[bytes], check_health: bool = True
    ) -> None:
        """Sends a command; cancelled, it drops the connection, as redis-py does."""
        if not self.is_connected:
            await self.connect()  # type: ignore[no-untyped-call]  # redis-py
        elif check_health:
            await self.check_health()  # type: ignore[no-untyped-call]  # redis-py
        # Without a timeout of its own redis-py writes directly; nobody else uses the connection.
        limit_s, self.socket_timeout = self.socket_timeout, None
        try:
            async with asyncio.timeout(limit_s):
                await super().send_packed_command(command, check_health=False)
        except TimeoutError:
            raise errors.TimeoutError("Timeout writing to socket") from None
        finally:
            self.socket_timeout = limit_s


class CancellableConnection(_Cancellable, Connection):
    """A TCP connection."""


class CancellableSSLConnection(_Cancellable, SSLConnection):
    """A TLS connection."""


class CancellableUnixConnection(_Cancellable, UnixDomainSocketConnection):
    """A connection through a socket file."""


CANCELLABLE: dict[type[AbstractConnection], type[AbstractConnection]] = {
    Connection: CancellableConnection,
    SSLConnection: CancellableSSLConnection,
    UnixDomainSocketConnection: CancellableUnixConnection,
}
"""redis-py's class, as its pool chose it from the URL, and ours in its place."""

"""A small HTTP server beside a process's work: probes, metrics, the scaling signal.

Comes in: where to listen, and a function for each path. Goes out: answers to GET and HEAD.
Composition roots of every process start it when `TURNFLEET_HEALTH_LISTEN` is set.

It runs in the process's own loop on purpose: a loop that stands still answers nobody, and that is
what a liveness probe asks. It has no keep-alive, no bodies, no TLS: it is for the cluster's inside.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final

import msgspec

from shared.errors import ConfigError
from shared.logs import fields
from shared.setting_rules import address_of

READ_S: Final = 5.0
"""What a client gets to send its request."""
ANSWER_S: Final = 8.0
"""What a path gets to answer; probes of Kubernetes give up before that."""
MAX_REQUEST_BYTES: Final = 8 * 1024
MAX_CLIENTS: Final = 32
"""Clients at once: probes, a scraper, a scaler. More is somebody else."""

_BAD_CLIENT: Final = (
    OSError,
    TimeoutError,
    ValueError,
    asyncio.IncompleteReadError,
    asyncio.LimitOverrunError,
)
"""What a client may do: leave, be silent, say too little, too much, or nothing that makes sense."""
_log = logging.getLogger(__name__)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a path says."""

    status: HTTPStatus = HTTPStatus.OK
    body: bytes = b"ok\n"
    kind: str = "text/plain; charset=utf-8"


Path = Callable[[], Awaitable[Answer]]


def json_answer(value: object, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    """A value as JSON."""
    return Answer(status=status, body=msgspec.json.encode(value), kind="application/json")


def verdict(problems: Mapping[str, str]) -> Answer:
    """200 without problems, else 503 with each in a line: what a probe's log then shows."""
    if not problems:
        return Answer()
    lines = "".join(f"{name}: {what}\n" for name, what in problems.items())
    return Answer(status=HTTPStatus.SERVICE_UNAVAILABLE, body=lines.encode())


class Health:
    """The running server. Its `port` is the one that was taken where 0 was asked for.

    Args:
        paths: an answer for each path, such as `/healthz`.
    """

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self._paths = dict(paths)
        self._clients = 0
        self.port = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one client and closes. What a client does wrong ends with its connection."""
        self._clients += 1
        try:
            with contextlib.suppress(*_BAD_CLIENT):
                if self._clients <= MAX_CLIENTS:
                    await self._serve(reader, writer)
        finally:
            self._clients -= 1
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(READ_S):
            head = await reader.readuntil(b"\r\n\r\n")
        method, target, *_ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        answer = await self._answer(method, target.partition("?")[0])
        writer.write(_as_bytes(answer, with_body=method != "HEAD"))
        async with asyncio.timeout(READ_S):
            await writer.drain()

    async def _answer(self, method: str, path: str) -> Answer:
        if method not in {"GET", "HEAD"}:
            return _plain(HTTPStatus.METHOD_NOT_ALLOWED)
        ask = self._paths.get(path)
        if ask is None:
            return _plain(HTTPStatus.NOT_FOUND)
        try:
            async with asyncio.timeout(ANSWER_S):
                return await ask()
        except TimeoutError:
            return _plain(HTTPStatus.SERVICE_UNAVAILABLE)
        except Exception as exc:  # noqa: BLE001 - a probe must not end the process it asks about
            _log.warning("health.failed", extra=fields(path=path, kind=type(exc).__name__))
            return _plain(HTTPStatus.INTERNAL_SERVER_ERROR)


@contextlib.asynccontextmanager
async def serving(listen: str | None, paths: Mapping[str, Path]) -> AsyncIterator[Health | None]:
    """Serves the paths inside the block; nothing where `listen` is None.

    Raises:
        ConfigError: the address cannot be listened on.
    """
    if listen is None:
        yield None
        return
    health = Health(paths)
    host, port = address_of(listen)
    try:
        server = await asyncio.start_server(
            health.handle, host, port, limit=MAX_REQUEST_BYTES, reuse_address=True
        )
    except OSError as exc:
        raise ConfigError(f"cannot listen on {listen} for probes: {exc.strerror}") from exc
    health.port = server.sockets[0].getsockname()[1]
    _log.info("health.listening", extra=fields(port=health.port))
    try:
        yield health
    finally:
        server.close()


def _plain(status: HTTPStatus) -> Answer:
    return Answer(status=status, body=f"{status.phrase.lower()}\n".encode())


def _as_bytes(answer: Answer, *, with_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
        f"Content-Type: {answer.kind}\r\nContent-Length: {len(answer.body)}\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (answer.body if with_body else b"")

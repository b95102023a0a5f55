"""Streaming from providers over HTTP.

Comes in: an `HttpRequest` value. Goes out: status, headers and the body's bytes as they arrive.
The exceptions of httpx and httpcore end here as `EndpointError`. Only `worker.app` constructs it;
`worker.turn` knows it as a port.

One client a process (a client costs 30 ms and its own pool), HTTP/1.1 only (one HTTP/2 connection
starves streams behind a slow reader), no redirects (an endpoint must not send us elsewhere), no
proxies or certificates from the environment. `worker.edges.guard` says which endpoints may be
reached, `worker.edges.network` asks it again about the address at the moment of connecting.
"""

import asyncio
import logging
import ssl
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import httpcore
import httpx

from shared.errors import EndpointError
from shared.logs import fields
from worker.edges.echo import EchoMask, masked, secrets_in
from worker.edges.guard import Guard
from worker.edges.http1 import Body, Connection
from worker.edges.network import EndpointNotAllowed, GuardedBackend, Resolve, resolve
from worker.normalize.sse import MAX_RESPONSE_BYTES
from worker.providers.requests import HttpRequest

CONNECT_TIMEOUT_S = 10.0
"""Connecting over any distance takes under 1 s; ten allow for one lost SYN and its retries."""
MAX_ERROR_BODY_BYTES = 64 * 1024
"""What is read of an answer that is no stream: more than any provider's error body."""
ERROR_BODY_TIMEOUT_S = 10.0
"""Reading it takes as long as connecting at most: an endpoint may send it drop by drop for ever."""
MAX_BODY_BYTES = MAX_RESPONSE_BYTES
"""Of one stream: what the rooms read of it, four pictures and a long text."""
PLAIN_BODY_BYTES = 8 * 1024 * 1024
"""Of one stream, whatever others read. The longest answers of models in text, framed as events,
stay below 4 MiB."""
LARGE_BODIES_BYTES = MAX_BODY_BYTES - PLAIN_BODY_BYTES
"""Of all streams of the process beyond that, together: a body takes twice its size until its reply
is shown, and a worker has 512 MiB (k8s/base/worker.yaml). One that is as long as it may be, or ten
of several pictures; a further one is refused."""
KEEPALIVE_CONNECTIONS = 100
"""Idle ones that are kept: as many as a worker has slots by default."""

_FAILURES: Final = (
    httpx.HTTPError,
    httpx.InvalidURL,
    httpx.StreamError,
    httpcore.NetworkError,
    httpcore.TimeoutException,
    httpcore.ProtocolError,
    httpcore.ProxyError,
    httpcore.UnsupportedProtocol,
    httpcore.ConnectionNotAvailable,
)
"""All that a request may raise; httpcore's errors have no common base."""

_log = logging.getLogger(__name__)


class LargeBodies:
    """What the streams of one client may read beyond `PLAIN_BODY_BYTES` each, together."""

    __slots__ = ("left_bytes",)

    def __init__(self) -> None:
        self.left_bytes = LARGE_BODIES_BYTES


class HttpResponse:
    """An answer whose headers have arrived."""

    __slots__ = (
        "_body",
        "_error_body_timeout_s",
        "_large",
        "_large_bytes",
        "_mask",
        "_secrets",
        "_size",
        "_unzip",
        "headers",
        "status",
    )

    def __init__(
        self,
        response: httpx.Response,
        secrets: tuple[bytes, ...],
        error_body_timeout_s: float,
        large: LargeBodies | None = None,
    ) -> None:
        self._body: Body = response.extensions["body"]
        self._unzip = _unzip(response.headers.get("content-encoding", ""))
        self._mask = EchoMask(secrets)
        self._size = 0
        self._large = large or LargeBodies()
        self._large_bytes = 0  # that this one has taken of it
        self._secrets = secrets
        self._error_body_timeout_s = error_body_timeout_s
        self.status = response.status_code
        self.headers = tuple(
            (name.decode("ascii").lower(), masked(value, secrets).decode("utf-8", "replace"))
            for name, value in response.headers.raw
        )

    async def more(self) -> bytes | None:
        """What has come of the body since, decoded, what we sent masked; None at its end.

        Cancelling loses nothing.

        Returns:
            Nothing (`b""`) where it was interrupted, or what came is not to be told yet.

        Raises:
            EndpointError: the connection broke, or the body is longer than any answer, or than
                the other streams leave room for (`BodyTooLarge`).
        """
        try:
            data = await self._body.more()
            if data and self._unzip is not None:
                data = self._unzipped(data, self._unzip)
        except _FAILURES as exc:
            raise EndpointError(type(exc).__name__) from exc
        if data is None:
            return self._mask.flush() or None
        self._size += len(data)
        if self._size > PLAIN_BODY_BYTES:
            self._take_room()
        return self._mask.feed(data)

    def let_go(self) -> None:
        """Leaves to other streams what this one took of the room for large bodies."""
        self._large.left_bytes += self._large_bytes
        self._large_bytes = 0

    def _take_room(self) -> None:
        more = self._size - PLAIN_BODY_BYTES - self._large_bytes
        if self._size > MAX_BODY_BYTES or more > self._large.left_bytes:
            raise EndpointError("BodyTooLarge")
        self._large.left_bytes -= more
        self._large_bytes += more

    def interrupt(self) -> None:
        """Lets `more`, now or next time, return at once."""
        self._body.interrupt()

    async def error_body(self) -> bytes:
        """The first `MAX_ERROR_BODY_BYTES` of the body, or what came of it before it broke.

        What has not come within `ERROR_BODY_TIMEOUT_S` is not waited for.
        """
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._error_body_timeout_s):
                while (data := await self._body.more()) is not None:
                    if self._unzip is not None:
                        data = self._unzipped(data, self._unzip)
                    parts.append(data)
                    size += len(data)
                    if size >= MAX_ERROR_BODY_BYTES:
                        break
        except (*_FAILURES, EndpointError, TimeoutError):
            pass
        return masked(b"".join(parts), self._secrets)[:MAX_ERROR_BODY_BYTES]

    def _unzipped(self, data: bytes, unzip: "zlib._Decompress") -> bytes:
        try:
            found = unzip.decompress(data, PLAIN_BODY_BYTES)
        except zlib.error as exc:
            raise httpx.DecodingError(str(exc)) from exc
        if len(found) == PLAIN_BODY_BYTES:  # so much out of one read: it unfolds no further
            raise EndpointError("BodyTooLarge")
        return found


def _unzip(encoding: str) -> "zlib._Decompress | None":
    """What decodes a body; None for one that is sent as it is, or as nobody asked for."""
    is_zipped = encoding.strip().lower() in ("gzip", "x-gzip", "deflate")
    return zlib.decompressobj(wbits=zlib.MAX_WBITS + 32) if is_zipped else None


class _Stream(httpx.AsyncByteStream):
    """What httpx closes; the body itself is read through `Body`."""

    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    async def aclose(self) -> None:
        await self._answer.aclose()


class _Pool(httpcore.AsyncConnectionPool):
    """httpcore's pool, with our connections in it."""

    def __init__(self, backend: GuardedBackend, tls: ssl.SSLContext) -> None:
        super().__init__(
            # httpx's 100 connections would make the 101st stream wait for the pool.
            max_connections=None,
            max_keepalive_connections=KEEPALIVE_CONNECTIONS,
        )
        self._backend = backend
        self._tls = tls

    def create_connection(self, origin: httpcore.Origin) -> httpcore.AsyncConnectionInterface:
        return Connection(origin, self._backend, self._tls)


class _Transport(httpx.AsyncBaseTransport):
    """httpx over httpcore's pool with our network below; httpx's own transport takes no network."""

    def __init__(self, pool: _Pool) -> None:
        self._pool = pool

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        answer = await self._pool.handle_async_request(
            httpcore.Request(
                method=request.method,
                url=httpcore.URL(
                    scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
                ),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        return httpx.Response(
            answer.status,
            headers=answer.headers,
            stream=_Stream(answer),
            extensions=answer.extensions,
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


class HttpEdge:
    """The process's HTTP client.

    Args:
        guard: what may be reached; by default public HTTPS endpoints only.
        resolver: finds the addresses of a name.
        tls: whom to trust; by default httpx's bundle, whatever the environment says.
        connect_timeout_s: for resolving, connecting and TLS, each.
        error_body_timeout_s: how long the body of an error is read.
    """

    __slots__ = ("_backend", "_client", "_error_body_timeout_s", "_large")

    def __init__(
        self,
        guard: Guard | None = None,
        resolver: Resolve = resolve,
        *,
        tls: ssl.SSLContext | None = None,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        error_body_timeout_s: float = ERROR_BODY_TIMEOUT_S,
    ) -> None:
        self._backend = GuardedBackend(guard or Guard(), resolver)
        self._error_body_timeout_s = error_body_timeout_s
        self._large = LargeBodies()
        trusted = tls or httpx.create_ssl_context(trust_env=False)
        trusted.set_alpn_protocols(["http/1.1"])
        self._client = httpx.AsyncClient(
            transport=_Transport(_Pool(self._backend, trusted)),
            follow_redirects=False,
            trust_env=False,
            # Compressed events would wait for each other, and a small bomb would unfold here.
            headers={"accept-encoding": "identity"},
            # Reading has no timeout here: the turn's driver knows what is meaningful.
            timeout=httpx.Timeout(None, connect=connect_timeout_s),
        )

    @asynccontextmanager
    async def open(self, request: HttpRequest) -> AsyncIterator[HttpResponse]:
        """Sends the request and waits for the headers.

        Leaving the context closes the stream; cancellation closes it at once.

        Raises:
            EndpointError: no connection, or it broke before the headers; `EndpointNotAllowed` when
                the guard refuses it, and nothing was sent.
        """
        try:
            self._check(request.url)
            outgoing = self._client.build_request(
                request.method, request.url, headers=list(request.headers), content=request.body
            )
            response = await self._client.send(outgoing, stream=True)
        except EndpointNotAllowed as exc:
            # The reason is for the operator; whoever asked learns only that it was refused.
            _log.warning("endpoint.refused", extra=fields(reason=exc.reason.value))
            raise EndpointError(type(exc).__name__) from exc
        except _FAILURES as exc:
            raise EndpointError(_name_of(exc)) from exc
        answer = HttpResponse(
            response, secrets_in(request.headers), self._error_body_timeout_s, self._large
        )
        try:
            yield answer
        finally:
            answer.let_go()
            await response.aclose()

    @property
    def guard(self) -> Guard:
        """What may be reached now."""
        return self._backend.guard

    def follow(self, guard: Guard) -> None:
        """Lets a changed configuration hold from the next request on."""
        self._backend.guard = guard

    async def close(self) -> None:
        """Closes all connections."""
        await self._client.aclose()

    def _check(self, text: str) -> None:
        url = httpx.URL(text)
        refusal = self._backend.guard.refusal_of_url(
            url.scheme, url.raw_host.decode("ascii"), url.port, has_user_info=bool(url.userinfo)
        )
        if refusal is not None:
            raise EndpointNotAllowed(refusal)


def _name_of(exc: Exception) -> str:
    """The class name of what went wrong; a refused connection by its own name, deep inside."""
    cause: BaseException | None = exc
    while cause is not None:
        if isinstance(cause, ConnectionRefusedError):
            return ConnectionRefusedError.__name__
        cause = cause.__cause__ or cause.__context__
    return type(exc).__name__

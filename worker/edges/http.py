"""Streaming from providers over HTTP.

Comes in: an `HttpRequest` value. Goes out: status, headers and the body's bytes as they arrive.
httpx's exceptions end here as `EndpointError`. Only `worker.app` constructs it; `worker.turn`
knows it as a port.

One client a process (a client costs 30 ms and its own pool), HTTP/1.1 only (one HTTP/2 connection
starves streams behind a slow reader), no redirects (an endpoint must not send us elsewhere), no
proxies or certificates from the environment.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from shared.errors import EndpointError
from worker.providers.requests import HttpRequest

CONNECT_TIMEOUT_S = 10.0
"""Connecting over any distance takes under 1 s; ten allow for one lost SYN and its retries."""
MAX_ERROR_BODY_BYTES = 64 * 1024
"""What is read of an answer that is no stream: more than any provider's error body."""


class HttpResponse:
    """An answer whose headers have arrived."""

    __slots__ = ("_response", "headers", "status")

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.headers = tuple((k.lower(), v) for k, v in response.headers.items())

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives, decoded from its content encoding.

        Raises:
            EndpointError: the connection broke. Cancelling closes the connection.
        """
        try:
            async for data in self._response.aiter_bytes():
                yield data
        except (httpx.HTTPError, httpx.StreamError) as exc:
            raise EndpointError(type(exc).__name__) from exc

    async def error_body(self) -> bytes:
        """The first `MAX_ERROR_BODY_BYTES` of the body, or what came of it before it broke."""
        parts: list[bytes] = []
        size = 0
        try:
            async for data in self._response.aiter_bytes():
                parts.append(data)
                size += len(data)
                if size >= MAX_ERROR_BODY_BYTES:
                    break
        except (httpx.HTTPError, httpx.StreamError):
            pass
        return b"".join(parts)[:MAX_ERROR_BODY_BYTES]


class HttpEdge:
    """The process's HTTP client."""

    __slots__ = ("_client",)

    def __init__(self) -> None:
        self._client = httpx.AsyncClient(
            http2=False,
            follow_redirects=False,
            trust_env=False,
            # Reading has no timeout here: the turn's driver knows what is meaningful.
            timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
            # httpx's 100 connections would make the 101st stream wait for the pool.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=100),
        )

    @asynccontextmanager
    async def open(self, request: HttpRequest) -> AsyncIterator[HttpResponse]:
        """Sends the request and waits for the headers.

        Leaving the context closes the stream; cancellation closes it at once.

        Raises:
            EndpointError: no connection, or it broke before the headers.
        """
        try:
            _check_port(request.url)
            outgoing = self._client.build_request(
                request.method, request.url, headers=list(request.headers), content=request.body
            )
            response = await self._client.send(outgoing, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            raise EndpointError(_name_of(exc)) from exc
        try:
            yield HttpResponse(response)
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Closes all connections."""
        await self._client.aclose()


def _check_port(url: str) -> None:
    """Refuses a port that does not exist: the loop would raise `OverflowError` in a group."""
    if (httpx.URL(url).port or 0) > 65535:
        raise httpx.InvalidURL("the port is above 65535")


def _name_of(exc: Exception) -> str:
    """The class name of what went wrong; a refused connection by its own name, deep inside."""
    cause: BaseException | None = exc
    while cause is not None:
        if isinstance(cause, ConnectionRefusedError):
            return ConnectionRefusedError.__name__
        cause = cause.__cause__ or cause.__context__
    return type(exc).__name__

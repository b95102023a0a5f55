"""The HTTP client of MCP servers, over the guarded network.

Comes in: the guard of the configured servers. Goes out: a client for the MCP SDK, which speaks
through httpx2, a fork of httpx with the same words. Only `worker.edges.mcp` imports it, and only
where a server is configured: httpx2 comes with the extra `mcp`.

A server is reached where the operator named it and nowhere else: redirects beyond its origin are
not followed (the SDK), a name that points elsewhere inside is refused (the guard), and neither
proxies nor certificates come from the environment.
"""

import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Final

import httpcore
import httpx
import httpx2

from worker.edges.guard import Guard, guard_of
from worker.edges.network import GuardedBackend, Resolve, resolve

CONNECT_S: Final = 10.0
READ_S: Final = 300.0
"""The SDK's own: a server may hold a stream of events open and say nothing."""
MAX_JSON_BYTES: Final = 4 * 1024 * 1024
"""Of an answer that is one document; the SDK bounds events itself, at 1 MiB each."""

_CONNECT = (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.UnsupportedProtocol)
_READ = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError)


def guard_of_servers(addresses: Mapping[str, str]) -> Guard:
    """What the clients of these servers may reach: their hosts and ports, besides public HTTPS.

    Raises:
        ConfigError: an address cannot be read.
    """
    return guard_of("", addresses, variable="TURNFLEET_MCP")


def guarded_client(
    guard: Guard, resolver: Resolve = resolve, *, tls: ssl.SSLContext | None = None
) -> httpx2.AsyncClient:
    """A client for `streamable_http_client`, which must be closed.

    Args:
        guard: what may be reached.
        resolver: finds the addresses of a name.
        tls: whom to trust; by default the bundle that comes with the client.
    """
    return httpx2.AsyncClient(
        transport=_Transport(guard, resolver, tls or httpx.create_ssl_context(trust_env=False)),
        trust_env=False,
        timeout=httpx2.Timeout(READ_S, connect=CONNECT_S, write=CONNECT_S, pool=CONNECT_S),
    )


class _Transport(httpx2.AsyncBaseTransport):
    """httpx2 over httpcore's pool with our network below."""

    def __init__(self, guard: Guard, resolver: Resolve, tls: ssl.SSLContext) -> None:
        self._guard = guard
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls, network_backend=GuardedBackend(guard, resolver)
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        refusal = self._guard.refusal_of_url(
            url.scheme, url.raw_host.decode("ascii"), url.port, has_user_info=bool(url.userinfo)
        )
        if refusal is not None:
            raise httpx2.ConnectError(f"the address is not allowed: {refusal}", request=request)
        body = await request.aread()
        try:
            answer = await self._pool.handle_async_request(
                httpcore.Request(
                    method=request.method,
                    url=httpcore.URL(
                        scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
                    ),
                    headers=request.headers.raw,
                    content=body,
                    extensions=request.extensions,
                )
            )
        except _CONNECT as exc:
            raise httpx2.ConnectError(type(exc).__name__, request=request) from exc
        except _READ as exc:
            raise httpx2.ReadError(type(exc).__name__, request=request) from exc
        kind = dict(answer.headers).get(b"content-type", b"")
        limit = MAX_JSON_BYTES if kind.startswith(b"application/json") else None
        return httpx2.Response(
            answer.status, headers=answer.headers, stream=_Body(answer, request, limit)
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Body(httpx2.AsyncByteStream):
    """A response's bytes as httpx2 wants them."""

    def __init__(
        self, response: httpcore.Response, request: httpx2.Request, limit_bytes: int | None
    ) -> None:
        self._response = response
        self._request = request
        self._limit_bytes = limit_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for data in self._response.aiter_stream():
                size += len(data)
                if self._limit_bytes is not None and size > self._limit_bytes:
                    raise httpx2.ReadError("the answer is too long", request=self._request)
                yield data
        except _READ as exc:
            raise httpx2.ReadError(type(exc).__name__, request=self._request) from exc

    async def aclose(self) -> None:
        await self._response.aclose()

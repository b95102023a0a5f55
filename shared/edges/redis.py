"""Connections to Redis or Valkey, and the check that the server keeps what it accepts.

Comes in: a URL. Goes out: clients with bounded waits, facts about the server, and our own errors
instead of redis-py's. Edges and composition roots of every process may import it.

How the connections are set up, and why, was measured: a pool that blocks (the plain one holds its
lock while it connects, so that twenty commands fail one after another), `OSError` among the retried
errors (redis-py does not retry a refused connect), and time limits on every socket (a half-open
connection stays silent for ever).
"""

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import msgspec
import redis.exceptions as errors
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

from shared.edges.batching import BatchingRedis
from shared.edges.connections import CANCELLABLE
from shared.errors import ConfigError, StoreError, StoreFull, StoreUnavailable, StoreUnsafe

MIN_VERSION = (7, 0)
"""The first Redis with script flags (`allow-oom`). Valkey reports 7.2.4 in its place."""
MAX_CONNECTIONS = 64
"""A worker's 100 streams append now and then; 64 of them at the same instant is plenty."""
SOCKET_TIMEOUT_S = 5.0
"""Longer than any command of ours takes on a busy server, shorter than a lease."""
CONNECT_TIMEOUT_S = 1.0
POOL_WAIT_S = 2
HEALTH_CHECK_S = 10
"""An idle connection is tried before use after this long: silent drops of a NAT."""
RETRIES = 1
"""redis-py retries a command, inside it a health check, inside that each connect, so the waits
multiply: half a second for a server that refuses. Who must outlast an outage loops above this,
where it can be stopped."""
CALL_TIMEOUT_S = 10.0
"""The longest a call waits, retries included; who can wait longer asks again."""
MAX_BLOCK_S = 2.0
"""The longest blocking read; its client waits `SOCKET_TIMEOUT_S` longer before it gives up. Seven
seconds of silence are then noticed, and an idle reader asks once in two."""

PASSING = ("MISCONF", "BUSY ", "NOREPLICAS", "MASTERDOWN", "UNBLOCKED")
"""Refusals that end by themselves or with an operator's help: a full disk, a script that runs, a
primary without its replicas, a blocking read in a server that becomes a replica. Whoever waits for
a server waits for these, too."""

OF_PIPELINE = " of pipeline caused error: "
"""What redis-py puts between a command of a pipeline and the server's words."""

TLS: dict[str, Any] = {
    "ssl_cert_reqs": "required",
    "ssl_check_hostname": True,  # redis-py 5 compares no names unless it is told to
    "ssl_min_version": ssl.TLSVersion.TLSv1_2,
}
"""For `rediss://`; the address adds `?ssl_ca_certs=/path/to/ca.pem` for a CA of one's own."""

SCHEMES = ("redis", "rediss", "unix")
EXAMPLE = "redis://:password@host:6379/0, rediss://... or unix:///run/redis.sock"


class ServerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a server says of itself."""

    flavor: str
    version: str
    mode: str
    role: str
    eviction: str
    has_aof: bool


def safe_url(url: str) -> str:
    """The URL without its password and query, for messages and logs."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "(unreadable URL)"
    user = "***@" if "@" in parts.netloc else ""
    return f"{parts.scheme}://{user}{parts.hostname or ''}{port}{parts.path}"


def check_url(url: str) -> str:
    """Passes a URL that redis-py will understand.

    Raises:
        ConfigError: wrong scheme, port or database number; the message shows no password.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as exc:
        raise ConfigError(f"TURNFLEET_REDIS_URL is no URL ({exc}); write {EXAMPLE}") from None
    name = safe_url(url)
    if "sentinel" in parts.scheme:
        raise ConfigError(
            f"TURNFLEET_REDIS_URL={name}: Sentinel is not asked by turnfleet; "
            "name an address that follows the primary, such as a Service or a TCP proxy"
        )
    if parts.scheme not in SCHEMES:
        raise ConfigError(f"TURNFLEET_REDIS_URL={name} has no known scheme; write {EXAMPLE}")
    if parts.scheme == "unix" and not parts.path:
        raise ConfigError(f"TURNFLEET_REDIS_URL={name} names no socket; write {EXAMPLE}")
    if parts.scheme == "unix" and parts.hostname:
        raise ConfigError(f"TURNFLEET_REDIS_URL={name}: a socket's path begins with a third slash")
    if parts.scheme != "unix" and not parts.hostname:
        raise ConfigError(f"TURNFLEET_REDIS_URL={name} names no host; write {EXAMPLE}")
    database = parts.path.strip("/")
    if parts.scheme != "unix" and database and not database.isdigit():
        raise ConfigError(f"TURNFLEET_REDIS_URL={name}: the database is a number, such as /0")
    return url


def connection_pool(
    url: str, *, blocking: bool = False, max_connections: int = MAX_CONNECTIONS
) -> BlockingConnectionPool:
    """A pool of connections.

    Args:
        url: see `EXAMPLE`.
        blocking: for blocking reads: their sockets wait longer than the read, and nothing is sent
            twice behind the reader's back, since the reader has its own loop.
        max_connections: the most connections that are open at once.

    Raises:
        ConfigError: the URL cannot be used.
    """
    retries = 0 if blocking else RETRIES
    options: dict[str, Any] = {
        "max_connections": max_connections,
        "timeout": POOL_WAIT_S,
        "socket_timeout": SOCKET_TIMEOUT_S + (MAX_BLOCK_S if blocking else 0.0),
        "socket_connect_timeout": CONNECT_TIMEOUT_S,
        "health_check_interval": HEALTH_CHECK_S,
        "retry": Retry(ExponentialBackoff(cap=0.5, base=0.05), retries),
        "retry_on_error": [errors.ConnectionError, errors.TimeoutError, OSError],
    }
    scheme = urlsplit(check_url(url)).scheme
    if scheme != "unix":
        options["socket_keepalive"] = True
    if scheme == "rediss":
        options |= TLS
    try:
        pool = BlockingConnectionPool.from_url(url, **options)
    except ValueError as exc:
        raise ConfigError(f"TURNFLEET_REDIS_URL={safe_url(url)}: {exc}; write {EXAMPLE}") from exc
    pool.connection_class = CANCELLABLE[pool.connection_class]
    return pool


def connect(
    url: str,
    *,
    blocking: bool = False,
    batching: bool = False,
    max_connections: int = MAX_CONNECTIONS,
) -> Redis:
    """A client that opens its connections on first use. Close it with `aclose()`.

    Blocking reads (BLPOP, XREADGROUP BLOCK) have a client of their own with `blocking=True`: they
    would hold the connections that appends wait for. `batching` is for a process that asks much at
    once: its commands go together (`shared.edges.batching`).

    Raises:
        ConfigError: the URL cannot be used.
    """
    pool = connection_pool(url, blocking=blocking, max_connections=max_connections)
    return (BatchingRedis if batching else Redis).from_pool(pool)


@contextmanager
def translated(where: str = "Redis") -> Iterator[None]:
    """Turns redis-py's exceptions into ours, in one place.

    Raises:
        ConfigError: a password or user that the server refuses.
        StoreUnavailable: nobody answers, or the server is loading, busy, read only, or cannot
            write its file.
        StoreFull: `maxmemory` is reached.
        StoreError: the server refused the command.
    """
    try:
        with _own_words():
            yield
    except (errors.AuthenticationError, errors.NoPermissionError) as exc:
        raise ConfigError(
            f"{where} refuses the user or password: {exc}; check TURNFLEET_REDIS_URL"
        ) from exc
    except (errors.ConnectionError, errors.TimeoutError, errors.ReadOnlyError, OSError) as exc:
        raise StoreUnavailable(f"{where} does not answer: {_in_words(exc)}") from exc
    except errors.OutOfMemoryError as exc:
        raise StoreFull(f"{where} has no memory left: {_in_words(exc)}") from exc
    except errors.RedisError as exc:
        if str(exc).startswith(PASSING):
            raise StoreUnavailable(f"{where} cannot serve now: {_in_words(exc)}") from exc
        raise StoreError(f"{where} refused a command: {_in_words(exc)}") from exc


@contextmanager
def _own_words() -> Iterator[None]:
    """Lets an error of a pipeline say what the server said, and no more.

    redis-py puts the whole command before it: nobody would know a full disk by its first word, and
    what people wrote would stand in a log.
    """
    try:
        yield
    except errors.RedisError as exc:
        _, is_of_pipeline, said = str(exc).rpartition(OF_PIPELINE)
        if is_of_pipeline:
            exc.args = (said.strip("()',\""),)
        raise


async def within(call: Any) -> Any:
    """Awaits a command within `CALL_TIMEOUT_S`, in our own errors.

    Args:
        call: what a client's method returned; redis-py types it as an answer or an awaitable.

    Raises:
        StoreUnavailable, StoreFull, StoreError, ConfigError: see `translated`.
    """
    with translated():
        async with asyncio.timeout(CALL_TIMEOUT_S):
            return await call


async def server_facts(client: Redis, where: str = "Redis") -> ServerFacts:
    """Asks a server what it is.

    Raises:
        StoreUnavailable: nobody answers.
        ConfigError: user or password are refused.
    """
    with translated(where):
        async with asyncio.timeout(CALL_TIMEOUT_S):
            info: dict[str, Any] = await client.info()
    flavor = str(info.get("server_name", "redis"))
    return ServerFacts(
        flavor=flavor,
        version=str(info.get(f"{flavor}_version", info.get("redis_version", "0"))),
        mode=str(info.get("redis_mode", "standalone")),
        role=str(info.get("role", "master")),
        eviction=str(info.get("maxmemory_policy", "unknown")),
        has_aof=str(info.get("aof_enabled", "0")) == "1",
    )


def check_facts(facts: ServerFacts, where: str, *, allow_unsafe: bool = False) -> None:
    """Passes a server that keeps what it accepts.

    Raises:
        ConfigError: too old, or a cluster.
        StoreUnsafe: it may forget accepted work, and that was not allowed.
    """
    version = tuple(int(part) for part in facts.version.split(".")[:2] if part.isdigit())
    if version < MIN_VERSION:
        raise ConfigError(
            f"{where} is {facts.flavor} {facts.version}; "
            "Redis 7.0 and Valkey 7.2 are the oldest that work"
        )
    if facts.mode == "sentinel":
        raise ConfigError(
            f"{where} is a Sentinel, which keeps no data; "
            "name an address that follows the primary, such as a Service or a TCP proxy"
        )
    if facts.mode == "cluster":
        raise ConfigError(f"{where} is a cluster, which arq cannot use; name a single server")
    problems = []
    if facts.role not in ("master", "primary"):
        problems.append("it is a replica; name the primary")
    if facts.eviction != "noeviction":
        problems.append(f"maxmemory-policy is {facts.eviction}; set it to noeviction")
    if not facts.has_aof:
        problems.append("it has no append-only file; set appendonly to yes")
    if problems and not allow_unsafe:
        raise StoreUnsafe(
            f"{where} would lose accepted work: {'; '.join(problems)} "
            "(or set TURNFLEET_ALLOW_UNSAFE_REDIS=true and accept that)"
        )


async def check_server(client: Redis, url: str, *, allow_unsafe: bool = False) -> ServerFacts:
    """Refuses to start on a server that is away, too old, or would lose accepted work.

    Raises:
        StoreUnavailable, StoreUnsafe, ConfigError: one line that says what to do.
    """
    where = f"Redis at {safe_url(url)}"
    try:
        facts = await server_facts(client, where)
    except StoreUnavailable as exc:
        raise StoreUnavailable(
            f"{exc}; start it, correct TURNFLEET_REDIS_URL, or unset it for the embedded server"
        ) from exc
    check_facts(facts, where, allow_unsafe=allow_unsafe)
    return facts


def _in_words(exc: Exception) -> str:
    return " ".join(str(exc).split()).rstrip(".") or type(exc).__name__

"""`turnfleet console`: the pages for operators, and local channels to talk to the bot.

Comes in: settings and where to listen. Goes out: a web server until Ctrl-C. It is the composition
root of `ops.console`.
"""

import asyncio
import contextlib
import errno
import ipaddress
import signal
import socket
import time
from collections.abc import Iterator
from typing import Annotated, Final

import typer
import uvicorn

from ops.cli.output import say
from ops.cli.session import database, fleet, settings_now
from ops.cli.turn_replay import replays_of
from ops.console.access import MIN_TOKEN_CHARS, Access
from ops.console.app import console_app
from ops.console.desk import Desk
from shared.config import Settings
from shared.edges.backlog import Backlog
from shared.errors import ConfigError, TurnfleetError
from shared.logs import start_logs

HOST: Final = "127.0.0.1"
PORT: Final = 8750
"""Nobody's default that we know of; `turnfleet up` takes a free one where it is taken."""
GRACE_S: Final = 2
"""Watchers hold their connections open for ever; nothing is lost when they are cut."""
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def console(
    host: Annotated[
        str, typer.Option(help="Where to listen; beyond loopback with a token.")
    ] = HOST,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0 takes a free one.")] = PORT,
    or_free: Annotated[
        bool, typer.Option("--or-free", help="Take a free port where this one is taken.")
    ] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Allow to replay, mute, resolve, and talk.")
    ] = False,
) -> None:
    """Serves the console until Ctrl-C. It only shows, unless --write is given."""
    settings = settings_now()
    access = access_of(settings, host)
    logs = start_logs("console", settings)
    with logs.until_the_end(TurnfleetError, OSError):
        asyncio.run(_serve(access, host, port, or_free=or_free, write=write))


def access_of(settings: Settings, host: str) -> Access:
    """The rules of access for a console that listens there.

    Raises:
        ConfigError: it would be open to a network without a token, or the token is too short.
    """
    token = settings.console_token
    if token is not None and len(token) < MIN_TOKEN_CHARS:
        raise ConfigError(
            f"TURNFLEET_CONSOLE_TOKEN has fewer than {MIN_TOKEN_CHARS} characters; "
            "make one: python -c 'import secrets; print(secrets.token_urlsafe())'"
        )
    if is_loopback(host):
        return Access(token=token, hosts=_LOOPBACK | {host.lower()})
    if token is None:
        raise ConfigError(
            f"--host {host} is open to a network: set TURNFLEET_CONSOLE_TOKEN, "
            "or listen on 127.0.0.1"
        )
    return Access(token=token)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    if host.lower() == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


async def _serve(access: Access, host: str, port: int, *, or_free: bool, write: bool) -> None:
    async with fleet() as link, database() as shown, contextlib.AsyncExitStack() as stack:
        writable = await stack.enter_async_context(database(read_only=False)) if write else None
        desk = Desk(
            cell=link.settings.cell,
            records=link.records,
            queue=link.queue,
            channel=link.channel,
            database=shown,
            replays=replays_of(link),
            backlog=Backlog(link.redis, link.keys),
            now_ms=_now_ms,
            writable=writable,
            sentry_url=link.settings.sentry_url,
        )
        listener = listen(host, port, or_free=or_free)
        config = uvicorn.Config(
            console_app(desk, access),
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_S,
        )
        address = f"[{host}]" if ":" in host else host
        say(f"The console is at http://{address}:{listener.getsockname()[1]}/")
        server = _Server(config)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, server.end)
        await server.serve(sockets=[listener])


class _Server(uvicorn.Server):
    """Uvicorn without its own signal handlers: they raise the signal again, and we end with 0."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Captures none."""
        yield

    def end(self) -> None:
        """Ends: running answers get a moment, watchers are cut."""
        self.should_exit = True


def listen(host: str, port: int, *, or_free: bool = False) -> socket.socket:
    """A listening socket.

    Args:
        host: an address of this machine.
        port: 0 takes a free one.
        or_free: takes a free one where somebody listens on this one.

    Raises:
        ConfigError: somebody listens there, or it is no address of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        # Here, not by the web server later: two may bind one port, and only one may listen.
        listener.listen()
    except OSError as exc:
        listener.close()
        if or_free and exc.errno == errno.EADDRINUSE:
            say(f"Port {port} is taken: the console takes a free one.")
            return listen(host, 0)
        raise ConfigError(
            f"cannot listen on {host}:{port}: {exc.strerror}; --port 0 takes a free one"
        ) from exc
    return listener


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

"""Serving the rehearsal provider, as a process of its own or inside a running loop.

Comes in: host, port, folder of scenarios. Goes out: the URL where it listens. The socket listens
before the URL is told, so a client may connect as soon as it knows the URL.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import uvicorn

from ops.rehearsal.app import Provider, build_app
from ops.rehearsal.faults import Faults
from ops.rehearsal.scenarios import SCENARIOS, load_scenarios

BACKLOG = 1024
"""Connections that may wait: a benchmark opens hundreds of streams at once."""
STOP_S = 1
"""What open streams get when the server stops; a silent one would hold it for minutes."""


class _Server(uvicorn.Server):
    """A server that leaves signals to whoever runs the loop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def open_socket(host: str, port: int) -> tuple[socket.socket, str]:
    """Listens, and names the URL; port 0 takes a free one."""
    listener = socket.create_server((host, port), backlog=BACKLOG)
    return listener, f"http://{host}:{listener.getsockname()[1]}"


def configured(scenarios: Path = SCENARIOS) -> tuple[Provider, uvicorn.Config]:
    """A provider and the configuration that serves it."""
    provider = Provider(load_scenarios(scenarios), Faults())
    config = uvicorn.Config(
        build_app(provider),
        # A scenario that cuts the stream leaves its body open on purpose; uvicorn logs that as
        # an error at level error.
        log_level="critical",
        lifespan="off",
        timeout_graceful_shutdown=STOP_S,
        timeout_keep_alive=60,
    )
    return provider, config


async def serve(listener: socket.socket, config: uvicorn.Config) -> None:
    """Serves until SIGINT or SIGTERM. Cancelled, it drops open streams."""
    await uvicorn.Server(config).serve(sockets=[listener])


@contextlib.asynccontextmanager
async def rehearsing(scenarios: Path = SCENARIOS) -> AsyncIterator[tuple[str, Provider]]:
    """Serves on a free port of this machine inside the running loop, until the block ends."""
    listener, url = open_socket("127.0.0.1", 0)
    provider, config = configured(scenarios)
    server = _Server(config)
    async with asyncio.TaskGroup() as group:
        group.create_task(server.serve(sockets=[listener]), name="rehearsal-server")
        try:
            yield url, provider
        finally:
            server.should_exit = True
            server.force_exit = True

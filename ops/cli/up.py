"""`turnfleet up`: a whole fleet on this machine, until Ctrl-C.

Comes in: the settings. Goes out: an embedded server (unless one is configured), a gateway, workers,
a recorder, and the rehearsal provider where that is the provider and nobody else runs it. Their
JSON logs go to stdout; what a person needs to know goes to stderr.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec
import typer

from ops.cli.exits import Exit
from ops.cli.output import progress, say
from ops.cli.session import settings_now
from ops.rehearsal.discord.server import TOKEN
from ops.store.engine import database_url
from ops.up import LONGEST_PAUSE_S, Change, Phase, Service, Supervisor
from shared.config import Settings, data_dir
from shared.edges.credentials import make_opening_keys
from shared.edges.embedded import EmbeddedServer
from shared.edges.records import TurnRecords
from shared.edges.redis import check_server, connect, safe_url
from shared.errors import StoreError, TurnfleetError
from shared.keys import Keys
from shared.logs import fields, start_logs, watch_loop

WORKERS: Final = 2
"""One may die and the other goes on."""
MAX_WORKERS: Final = 64
REHEARSAL: Final = "rehearsal"
DISCORD: Final = "fake-discord"
CONSOLE: Final = "console"
CONSOLE_PORT: Final = 8750
"""As `turnfleet console` has it; a free one where somebody listens there already."""
READY_S: Final = 60.0
"""Python on a slow, busy machine needs seconds per process."""
LOOK_S: Final = 0.2
GUARD_S: Final = 0.5
"""How soon a dead embedded server is noticed."""
STOP_MARGIN_S: Final = 10.0
"""Beyond what running turns get: closing connections, ending the interpreter."""
RANK_WORKER, RANK_GATEWAY, RANK_RECORDER = 0, 1, 2
"""Workers stop first and drain while their segments are delivered; reports are written last."""

_log = logging.getLogger(__name__)


def up(
    workers: Annotated[
        int, typer.Option("-w", "--workers", min=1, max=MAX_WORKERS, help="How many workers.")
    ] = WORKERS,
    console: Annotated[
        bool, typer.Option(help="Also serve the console on this machine, to look and to talk.")
    ] = True,
    discord_rehearsal: Annotated[
        bool, typer.Option(help="Answer on a fake Discord here instead of the real one.")
    ] = False,
) -> None:
    """Runs a whole fleet here until Ctrl-C, and restarts what dies.

    Ends with 2 when a process cannot start; its own line says why.
    """
    settings = settings_now()
    database_url(settings.database_url, data_dir(settings))
    logs = start_logs("up", settings)
    with logs.until_the_end(TurnfleetError, OSError), _server(settings) as (url, server):
        asyncio.run(_check(settings, url))
        services = services_of(
            settings,
            url,
            workers=workers,
            console_port=CONSOLE_PORT if console else None,
            discord_port=_free_port() if discord_rehearsal else None,
        )
        is_good = asyncio.run(_run(settings, url, server, services))
    if not is_good:
        raise typer.Exit(Exit.BAD_INPUT)


def services_of(
    settings: Settings,
    url: str,
    *,
    workers: int,
    console_port: int | None = None,
    discord_port: int | None = None,
) -> list[Service]:
    """The services of a fleet on this machine, the embedded server aside.

    Args:
        settings: of the fleet.
        url: of its server.
        workers: how many.
        console_port: where the console listens on loopback, or on a free port where somebody else
            does; None starts none.
        discord_port: where a fake Discord listens on loopback; None starts none.
    """
    services = []
    is_rehearsal = settings.provider == REHEARSAL and REHEARSAL not in settings.endpoints
    port = _free_port() if is_rehearsal else None
    environment = _environment(settings, url, rehearsal_port=port, discord_port=discord_port)

    def service(name: str, *words: str, rank: int, grace_s: float, is_quiet: bool = False) -> None:
        services.append(
            Service(
                name=name,
                command=(sys.executable, "-m", *words),
                environment=environment,
                stop_rank=rank,
                grace_s=grace_s + STOP_MARGIN_S,
                is_quiet=is_quiet,
            )
        )

    if port is not None:
        words = ("ops.rehearsal", "--port", str(port))
        service(REHEARSAL, *words, rank=RANK_RECORDER, grace_s=0, is_quiet=True)
    if discord_port is not None:
        words = ("ops.rehearsal.discord", "--port", str(discord_port))
        service(DISCORD, *words, rank=RANK_RECORDER, grace_s=0, is_quiet=True)
    service("gateway", "gateway", rank=RANK_GATEWAY, grace_s=settings.drain_s)
    service("recorder", "ops", "recorder", rank=RANK_RECORDER, grace_s=0)
    for number in range(1, workers + 1):
        service(f"worker-{number}", "worker", rank=RANK_WORKER, grace_s=settings.drain_s)
    if console_port is not None:
        # On loopback, for whoever has this machine: it may act, as the command line may.
        more = ("console", "--port", str(console_port), "--or-free", "--write")
        service(CONSOLE, "ops", *more, rank=RANK_WORKER, grace_s=0, is_quiet=True)
    return services


def _environment(
    settings: Settings, url: str, *, rehearsal_port: int | None, discord_port: int | None
) -> dict[str, str]:
    """What all services are told: this process's own, and where everybody is."""
    endpoints = dict(settings.endpoints)
    if rehearsal_port is not None:
        endpoints[REHEARSAL] = f"http://127.0.0.1:{rehearsal_port}"
    environment = {
        **os.environ,
        "TURNFLEET_REDIS_URL": url,
        "TURNFLEET_ENDPOINTS": msgspec.json.encode(endpoints).decode(),
    }
    if discord_port is not None:
        environment |= {
            "TURNFLEET_FRONT": "discord",
            "TURNFLEET_DISCORD_TOKEN": TOKEN,
            "TURNFLEET_DISCORD_REST_URL": f"http://127.0.0.1:{discord_port}/api/v10",
        }
    return environment


@contextlib.contextmanager
def _server(settings: Settings) -> Iterator[tuple[str, EmbeddedServer | None]]:
    if settings.redis_url is not None:
        yield settings.redis_url, None
        return
    make_opening_keys(settings)
    with EmbeddedServer(data_dir(settings)) as server:
        yield server.url, server


async def _check(settings: Settings, url: str) -> None:
    client = connect(url)
    try:
        await check_server(client, url, allow_unsafe=settings.allow_unsafe_redis)
    finally:
        await client.aclose()


async def _run(
    settings: Settings, url: str, server: EmbeddedServer | None, services: list[Service]
) -> bool:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    watch_loop(loop)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    supervisor = Supervisor(services, on_change=_tell)
    async with asyncio.TaskGroup() as group:
        background = [group.create_task(_announce(settings, url, services), name="announce")]
        if server is not None:
            background.append(group.create_task(_guard(server), name="guard"))
        is_good = await supervisor.run(stop)
        for task in background:
            task.cancel()
    if stop.is_set():
        say("turnfleet is down.")
    return is_good


async def _guard(server: EmbeddedServer) -> None:
    """Starts the embedded server again when it died: the same socket, the same data.

    Where that fails, on a full disk for one, it is tried again after a pause that grows.
    """
    pause_s = GUARD_S
    while True:
        await asyncio.sleep(pause_s)
        if await asyncio.to_thread(server.is_alive):
            pause_s = GUARD_S
            continue
        _log.warning("server.died")
        try:
            # In this thread although it blocks: the server ends with the thread that starts it.
            server.start()
        except TurnfleetError as exc:
            _log.error("server.not_restarted", extra=fields(why=str(exc)))
            if pause_s == GUARD_S:
                say(f"{exc}; it is tried again")
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
        else:
            _log.warning("server.restarted")
            if pause_s > GUARD_S:
                say("The server is back.")
            pause_s = GUARD_S


async def _announce(settings: Settings, url: str, services: list[Service]) -> None:
    """Says once that everything has reported itself, and what one can do now."""
    client = connect(url)
    records = TurnRecords(client, Keys(settings.cell, settings.partitions))
    silent = {REHEARSAL, DISCORD, CONSOLE}
    wanted = {service.name for service in services if service.name not in silent}
    try:
        with progress("starting") as update:
            async with asyncio.timeout(READY_S):
                while (count := await _reported(records)) < len(wanted):
                    update(f"starting: {count} of {len(wanted)} processes")
                    await asyncio.sleep(LOOK_S)
    except TimeoutError:
        say(f"Not everything is up after {READY_S:g} s; look at the logs, or: turnfleet doctor")
    else:
        names = ", ".join(service.name for service in services)
        say(f"turnfleet is up at {safe_url(url)}: {names}.")
        say('Talk to it from another terminal: turnfleet turns send "hello". Ctrl-C stops it.')
        for port in (service.command[-1] for service in services if service.name == DISCORD):
            base = f"http://127.0.0.1:{port}/rehearsal"
            say(f"Speak on the fake Discord: curl -d hello {base}/say; look: curl {base}/messages")
    finally:
        await client.aclose()


async def _reported(records: TurnRecords) -> int:
    try:
        return len(await records.processes())
    except StoreError:
        return 0


def _tell(change: Change) -> None:
    if change.phase is Phase.REFUSED:
        say(f"{change.service} cannot start; its line above says why.")
    elif change.phase is Phase.DIED:
        say(f"{change.service} died (code {change.code}) and is started again.")


def _free_port() -> int:
    """A port of loopback where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

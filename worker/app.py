"""The worker process: composition, life and orderly end.

Comes in: settings and the environment's keys. Goes out: a running worker. `worker.__main__` imports
it, and `turnfleet worker` starts that.
"""

import asyncio
import contextlib
import logging
import os
import random
import secrets
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import msgspec
from redis.asyncio import Redis

from shared.config import CrashPolicy, Record, Settings, data_dir
from shared.configuration.loading import Loaded
from shared.edges.alerts import Alerts
from shared.edges.choices import ChoicesStore, is_subscribed
from shared.edges.credentials import CredentialStore, opening_keys_path
from shared.edges.health import Answer, Path, serving, verdict
from shared.edges.history import ChannelHistory
from shared.edges.live_configuration import LiveConfiguration
from shared.edges.metering import OwnGauges, count_report, count_turn, metrics_path, scale_path
from shared.edges.overview import Overview
from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords, this_process
from shared.edges.redis import check_server, connect
from shared.edges.reporter import Reporter, new_report_id, reporter_of, summary_sender
from shared.edges.spending import Spending
from shared.edges.spool import SPOOL
from shared.errors import ConfigError
from shared.i18n import Texts, load_texts
from shared.keys import Keys
from shared.logs import fields, watch_loop
from shared.metrics import DRAINING, LOOP_LAG, SLOTS, STREAMS, Metrics
from shared.secrets import Secret
from shared.summaries import TurnSummary
from shared.turns import TurnRequest
from worker.edges.accounts import Accounts
from worker.edges.attachments import Attachments
from worker.edges.clock import SystemClock
from worker.edges.context import ChannelContext
from worker.edges.fleet.checkup import living, readiness
from worker.edges.fleet.lease import Lease
from worker.edges.fleet.mishaps import Mishap, report_of
from worker.edges.fleet.stalls import Stalls
from worker.edges.fleet.worker import FleetWorker
from worker.edges.following import LiveEndpoints, follow
from worker.edges.guard import guard_of
from worker.edges.http import HttpEdge
from worker.edges.key_places import PlacedKeys
from worker.edges.keys import KeyPools
from worker.edges.mcp import McpServers, prefixes
from worker.edges.outbox import Outbox
from worker.edges.rules import OutputRules
from worker.edges.sealed_keys import SealedKeys
from worker.edges.tools import Toolbox, installed_tools
from worker.edges.traffic import FleetTraffic
from worker.providers.endpoints import server_keys
from worker.providers.quirks import CUSTOM, PROVIDERS
from worker.tasks import run_turn
from worker.turn.ports import TimeLimits
from worker.turn.runner import TurnRunner

log = logging.getLogger(__name__)


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is made of."""

    settings: Settings
    live: LiveConfiguration
    environ: Mapping[str, str]
    worker_id: str
    redis: Redis
    blocking: Redis
    queue: TurnQueue
    records: TurnRecords
    reporter: Reporter
    http: HttpEdge
    clock: SystemClock
    texts: Texts
    tools: Toolbox
    metrics: Metrics


def provider_keys(environ: Mapping[str, str]) -> list[Secret]:
    """The deployment's own keys of variables, which no text of this process may show."""
    every = {**PROVIDERS, CUSTOM.name: CUSTOM}
    rows = {row.key_env: name for name, row in every.items() if row.key_env}
    return [key for variable in sorted(rows) for key in server_keys(rows[variable], environ)]


def server_secrets(loaded: Loaded, environ: Mapping[str, str]) -> list[Secret]:
    """The same with the keys that the file names by their places: beside those of the settings."""
    return [*provider_keys(environ), *PlacedKeys(lambda: loaded, environ).every()]


async def serve(loaded: Loaded, environ: Mapping[str, str]) -> None:
    """Runs a worker until SIGTERM or SIGINT, then drains. SIGHUP reads the configuration again.

    Raises:
        ConfigError, StoreUnavailable, StoreUnsafe: it cannot start.
    """
    settings = loaded.settings
    async with _parts(loaded, environ) as parts:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, parts.live.ask)
        following = asyncio.create_task(parts.live.run(), name="configuration")
        watch_loop(asyncio.get_running_loop(), parts.reporter.crashed)
        resending = asyncio.create_task(parts.reporter.run(), name="reporter")
        servers = McpServers(settings.mcp, parts.tools)
        tending = asyncio.create_task(servers.run(), name="mcp servers")
        worker = _worker(parts)
        stalls = Stalls(Overview(parts.queue), lambda: worker.has_free_slot)
        looking = asyncio.create_task(stalls.run(), name="stalls")
        log.info("worker.started", extra=fields(worker_id=parts.worker_id, slots=settings.slots))
        try:
            await servers.first_tries()
            async with serving(settings.health_listen, _paths(worker, stalls, parts)):
                await worker.serve()
        finally:
            await _end(looking)
            await _end(following)
            await _end(tending)
            await _end(resending)
            await parts.records.forget_process(parts.worker_id)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _paths(worker: FleetWorker, stalls: Stalls, parts: Parts) -> dict[str, Path]:
    """What the health server shows."""

    async def healthz() -> Answer:
        return verdict(await living(worker, parts.redis, stalls))

    async def readyz() -> Answer:
        return verdict(await readiness(worker, parts.redis))

    async def look() -> None:
        metrics.set(SLOTS, parts.settings.slots)
        metrics.set(STREAMS, len(worker.holdings))
        metrics.set(DRAINING, worker.is_draining)
        metrics.set(LOOP_LAG, worker.loop_lag_s)

    metrics = parts.metrics
    own = OwnGauges(metrics, parts.reporter, data_dir(parts.settings) / SPOOL)
    return {
        "/healthz": healthz,
        "/readyz": readyz,
        "/metrics": metrics_path(metrics, look, own.look),
        "/scale": scale_path(parts.records),
    }


def _worker(parts: Parts) -> FleetWorker:
    async def on_mishap(mishap: Mishap) -> None:
        record = await parts.records.turn(mishap.turn_id)
        report = report_of(
            mishap,
            record,
            report_id=new_report_id(),
            now_ms=parts.clock.epoch_ms(),
            worker_id=parts.worker_id,
        )
        await parts.reporter.report(report)

    started_ms = parts.clock.epoch_ms()

    async def on_beat(worker: FleetWorker) -> None:
        now_ms = parts.clock.epoch_ms()
        own = this_process(parts.worker_id, "worker", started_ms=started_ms, now_ms=now_ms)
        record = msgspec.structs.replace(
            own,
            slots=parts.settings.slots,
            running=len(worker.holdings),
            config_digest=parts.live.current.digest,
            config_error=parts.live.error,
            is_draining=worker.is_draining,
            is_cordoned=worker.is_cordoned,
            loop_lag_ms=round(worker.loop_lag_s * 1000),
            looked_ms=round((time.monotonic() - worker.looked_s) * 1000),
        )
        await parts.records.report_process(record)

    return FleetWorker(
        [run_turn],
        queue=parts.queue,
        blocking=parts.blocking,
        settings=parts.settings,
        worker_id=parts.worker_id,
        on_mishap=on_mishap,
        on_beat=on_beat,
        ctx={
            "runner": _runner(parts),
            "outbox_of": _outbox_of(parts),
            "count": _count(parts),
        },
    )


def _outbox_of(parts: Parts) -> Callable[[Lease], Outbox]:
    """The way back of a turn, through the output rules."""
    alerts = Alerts(parts.redis, parts.queue.keys)
    rules = OutputRules(parts.live.loaded, parts.texts, alerts.send)

    def outbox_of(lease: Lease) -> Outbox:
        return Outbox(
            parts.queue,
            parts.records,
            lease,
            obey=rules.of(lease.request),
            shows_previews=not rules.are_there,
        )

    return outbox_of


def _count(parts: Parts) -> Callable[[TurnSummary], Awaitable[None]]:
    """Counts a turn that has ended: here, and in the database."""
    send = summary_sender(parts.redis, parts.queue.keys)

    async def count(summary: TurnSummary) -> None:
        count_turn(parts.metrics, summary)
        await send(summary)

    return count


def _runner(parts: Parts) -> TurnRunner:
    settings = parts.settings
    endpoints = LiveEndpoints(parts.live)
    return TurnRunner(
        provider=parts.http,
        reporter=parts.reporter,
        keys=KeyPools(
            parts.redis,
            parts.queue.keys,
            endpoints,
            parts.environ,
            SealedKeys(
                CredentialStore(parts.redis, parts.queue.keys),
                opening_keys_path(settings),
                endpoints,
            ),
            PlacedKeys(parts.live.loaded, parts.environ).of,
            parts.queue.pause,
        ),
        accounts=_accounts(parts),
        context=ChannelContext(
            ChannelHistory(parts.redis, parts.queue.keys),
            Attachments(parts.http),
            parts.live.loaded,
        ),
        traffic=FleetTraffic(parts.redis, parts.queue.keys),
        tools=parts.tools,
        limits=TimeLimits(
            first_byte_s=settings.first_byte_s,
            between_chunks_s=settings.between_chunks_s,
            whole_stream_s=settings.whole_stream_s,
            turn_deadline_s=settings.turn_deadline_s,
        ),
        clock=parts.clock,
        say=parts.texts.text,
        worker_id=parts.worker_id,
        new_report_id=new_report_id,
        jitter=random.random,
        may_supersede=settings.crash_policy == CrashPolicy.SUPERSEDE,
        records_always=settings.record == Record.ALWAYS,
    )


def _accounts(parts: Parts) -> Accounts:
    choices = ChoicesStore(parts.redis, parts.queue.keys)

    async def subscribed(request: TurnRequest) -> bool:
        return await is_subscribed(choices, parts.live.current, request.route)

    spending = Spending(parts.redis, parts.queue.keys)
    alerts = Alerts(parts.redis, parts.queue.keys)
    return Accounts(
        spending, parts.live.loaded, subscribed, parts.clock.epoch_ms, alert=alerts.send
    )


@contextlib.asynccontextmanager
async def _parts(loaded: Loaded, environ: Mapping[str, str]) -> AsyncIterator[Parts]:
    settings = loaded.settings
    if settings.redis_url is None:
        raise ConfigError(
            "TURNFLEET_REDIS_URL is not set: start the worker with `turnfleet up`, "
            "or name a server, such as redis://localhost:6379/0"
        )
    tools = Toolbox(installed_tools(), settings.tools, coming=prefixes(settings.mcp))
    keys = Keys(settings.cell, settings.partitions)
    worker_id = f"worker-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    redis = connect(settings.redis_url, batching=True)
    blocking = connect(settings.redis_url, blocking=True)
    http = HttpEdge(guard_of(settings.private_endpoints, settings.endpoints))
    live = LiveConfiguration(environ, loaded, redis, keys)
    queue = TurnQueue(redis, keys, settings)
    follow(live, http, queue)
    try:
        await check_server(redis, settings.redis_url, allow_unsafe=settings.allow_unsafe_redis)
        metrics = Metrics("worker")
        reporter = reporter_of(
            settings,
            redis,
            keys,
            worker_id,
            secrets=server_secrets(loaded, environ),
            on_report=count_report(metrics),
        )
        try:
            yield Parts(
                settings=settings,
                live=live,
                environ=environ,
                worker_id=worker_id,
                redis=redis,
                blocking=blocking,
                queue=queue,
                records=TurnRecords(redis, keys),
                reporter=reporter,
                http=http,
                clock=SystemClock(),
                texts=load_texts(),
                tools=tools,
                metrics=metrics,
            )
        finally:
            reporter.close()
    finally:
        await http.close()
        await blocking.aclose()
        await redis.aclose()

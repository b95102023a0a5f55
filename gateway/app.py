"""The gateway process: composition, life and orderly end.

Comes in: settings and a stop. Goes out: a running gateway. `gateway.__main__` imports it, and
`turnfleet gateway` starts that.

The local channel is always served, so that `turnfleet turns send` and the console can talk to the
bot; `front = discord` serves Discord beside it.
"""

import asyncio
import contextlib
import functools
import logging
import os
import secrets
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Final

import msgspec

from gateway.changes import Changes
from gateway.edges.admissions import KeyedAdmissions
from gateway.edges.channel_memory import ChannelMemory
from gateway.edges.checkup import Checkup
from gateway.edges.departures import Departures
from gateway.edges.discord import DiscordFront
from gateway.edges.metering import MeteredAdmissions, measure_discord
from gateway.edges.mishaps import event_mishap
from gateway.edges.neighbours import Neighbours
from gateway.edges.pace import Pace
from gateway.edges.speaking import ToldChoices
from gateway.edges.waiting import Waiting
from gateway.intake import Intake
from gateway.inward import Inward
from gateway.notices import Notices
from gateway.outward import Outward, Shared
from gateway.recall import Recall
from gateway.telling import Regrets, Teller
from gateway.typist import Typist
from shared.config import data_dir
from shared.configuration.choices import ChoicesPort
from shared.configuration.loading import Loaded
from shared.edges.choices import ChoicesStore, LiveChoices
from shared.edges.credentials import CredentialStore
from shared.edges.forgetting import OPERATORS, Forgetter
from shared.edges.health import Answer, Path, serving, verdict
from shared.edges.history import ChannelHistory
from shared.edges.live_configuration import LiveConfiguration
from shared.edges.metering import CellGauges, OwnGauges, count_report, metrics_path, scale_path
from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords, this_process
from shared.edges.redis import check_server, connect
from shared.edges.reporter import reporter_of
from shared.edges.spool import SPOOL
from shared.errors import ConfigError, StoreError
from shared.i18n import load_texts
from shared.keys import Keys
from shared.logs import fields
from shared.metrics import DISCORD_LOAD, LOOP_LAG, Metrics
from shared.turns import Front

logger = logging.getLogger(__name__)

BEAT_S: Final = 2.0
"""How often the process says that it lives; the record is gone after five of these."""
BLOCKING_CONNECTIONS: Final = 8
"""Blocking reads beside one per partition: prompts, and room for one that is being replaced."""

Run = Callable[[], Coroutine[None, None, None]]
"""What runs until it is cancelled."""


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What a gateway is made of, each part once."""

    shared: Shared
    live: LiveConfiguration
    waiting: Waiting
    outward: Outward
    inward: Inward
    recall: Recall
    departures: Departures
    neighbours: Neighbours


async def serve(
    loaded: Loaded, stop: asyncio.Event, environ: Mapping[str, str] = os.environ
) -> None:
    """Runs a gateway until `stop`, then drains: nothing new is read, what is in hand is finished.

    SIGHUP reads the configuration again.

    Raises:
        ConfigError, StoreUnavailable, StoreUnsafe: it cannot start, or Discord refuses the token.
    """
    async with _parts(loaded, environ) as parts:
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            # Not where loops have no signals, and not beside the main thread.
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, parts.live.ask)
        fronts = parts.outward.fronts
        logger.info(
            "gateway.started",
            extra=fields(
                process_id=parts.shared.process_id,
                partitions=parts.shared.settings.partitions,
                fronts=[front.value for front in fronts],
            ),
        )
        try:
            await _run(parts, stop)
        except* ConfigError as refused:
            raise ConfigError(str(_first(refused))) from refused
        finally:
            for front in fronts.values():
                await front.close()
    logger.info("gateway.stopped")


async def _run(parts: Parts, stop: asyncio.Event) -> None:
    """Takes prompts and delivers until `stop`, then drains; cancelled, it does not drain."""
    settings, outward, fronts = parts.shared.settings, parts.outward, parts.outward.fronts
    checkup = Checkup(parts.shared.redis, stop)
    async with (
        asyncio.TaskGroup() as group,
        outward.running(),
        parts.shared.typist.running(),
        serving(settings.health_listen, _paths(checkup, parts)),
    ):
        around = outward.surroundings()
        background = [
            group.create_task(run(), name=name) for name, run in _background(parts, checkup).items()
        ]
        takers = [group.create_task(_take(parts, name), name="intake") for name in fronts]
        for name, front in fronts.items():
            for left in await parts.waiting.left_behind(is_local=name is Front.LOCAL):
                parts.shared.typist.adopt(front, left)
        deliverers = [
            group.create_task(
                outward.partition(number, around).run(stop, drain_s=settings.drain_s),
                name=f"partition {number}",
            )
            for number in range(settings.partitions)
        ]
        await stop.wait()
        logger.info("gateway.draining")
        for task in takers:
            task.cancel()  # a prompt in hand is not handled, and comes again
        await asyncio.wait(takers)
        for front in fronts.values():
            await front.leave()  # another gateway hears what is said from here on
        await asyncio.wait(deliverers)
        for task in background:
            task.cancel()


def _background(parts: Parts, checkup: Checkup) -> dict[str, Run]:
    """What runs beside intake and delivery, until both have ended."""
    runs: dict[str, Run] = {
        "reporter": parts.shared.reporter.run,
        "beat": functools.partial(_beat, parts),
        "configuration": parts.live.run,
        "recall": parts.recall.run,
        "checkup": checkup.run,
        "departures": parts.departures.run,
    }
    if Front.DISCORD in parts.outward.fronts:
        runs["neighbours"] = parts.neighbours.run
    return runs


@contextlib.asynccontextmanager
async def _parts(loaded: Loaded, environ: Mapping[str, str]) -> AsyncIterator[Parts]:
    settings = loaded.settings
    if settings.redis_url is None:
        raise ConfigError(
            "TURNFLEET_REDIS_URL is not set: start the gateway with `turnfleet up`, "
            "or name a server, such as redis://localhost:6379/0"
        )
    keys = Keys(settings.cell, settings.partitions)
    process_id = f"gateway-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    redis = connect(settings.redis_url, batching=True)
    blocking = connect(
        settings.redis_url,
        blocking=True,
        max_connections=settings.partitions + BLOCKING_CONNECTIONS,
    )
    live = LiveConfiguration(environ, loaded, redis, keys)
    queue = TurnQueue(redis, keys, settings)
    live.on_change(lambda changed: queue.follow(changed.settings))
    try:
        await check_server(redis, settings.redis_url, allow_unsafe=settings.allow_unsafe_redis)
        metrics = Metrics("gateway")
        reporter = reporter_of(settings, redis, keys, process_id, on_report=count_report(metrics))
        try:
            texts = load_texts()
            waiting = Waiting(queue, texts, process_id, tell=reporter.report)
            shared = Shared(
                settings=settings,
                keys=keys,
                redis=redis,
                blocking=blocking,
                queue=queue,
                reporter=reporter,
                texts=texts,
                notices=Notices(texts),
                memory=ChannelMemory(ChannelHistory(redis, keys)),
                metrics=metrics,
                process_id=process_id,
                typist=Typist(waiting),
            )
            yield _composed(shared, live, waiting)
        finally:
            reporter.close()
    finally:
        await blocking.aclose()
        await redis.aclose()


def _composed(shared: Shared, live: LiveConfiguration, waiting: Waiting) -> Parts:
    """The parts that need no end, from those that do. Raises `ConfigError`."""
    redis, keys, queue = shared.redis, shared.keys, shared.queue
    outward, records = Outward(shared), TurnRecords(redis, keys)
    recall = _recall(shared, outward, records)
    changes = Changes(recall, outward.fleet, outward.channels, outward.clock.now_s)
    forgetter = Forgetter(redis, keys, queue, leaves=OPERATORS)
    store = ChoicesStore(redis, keys)
    return Parts(
        shared=shared,
        live=live,
        waiting=waiting,
        outward=outward,
        inward=Inward(
            queue=queue,
            records=records,
            store=store,
            choices=LiveChoices(store, live.loaded),
            pace=Pace(redis, keys, live.loaded),
            texts=shared.texts,
            loaded=live.loaded,
        ),
        recall=recall,
        departures=Departures(changes.heed, forgetter, tell=shared.reporter.report),
        neighbours=Neighbours(redis, keys, shared.process_id, changes.heed),
    )


def _recall(shared: Shared, outward: Outward, records: TurnRecords) -> Recall:
    """Admissions: they outlive a server's memory, know whose key a turn runs on, are counted."""
    metered = MeteredAdmissions(shared.queue.admit, shared.metrics)
    credentials = CredentialStore(shared.redis, shared.keys)
    keyed = KeyedAdmissions(metered.admit, credentials, shared.redis, shared.keys)
    tellers = {
        name: Teller(front, outward.budget_of(name), asyncio.sleep)
        for name, front in outward.fronts.items()
    }
    regrets = Regrets(tellers, shared.notices, shared.typist, records)
    return Recall(keyed.admit, outward.fleet, regrets.tell)


def _paths(checkup: Checkup, parts: Parts) -> dict[str, Path]:
    """What the health server shows."""

    async def healthz() -> Answer:
        return verdict(checkup.living())

    async def readyz() -> Answer:
        return verdict(await checkup.readiness())

    async def look() -> None:
        metrics.set(LOOP_LAG, checkup.lag_s)
        metrics.set(DISCORD_LOAD, outward.budget_of(Front.DISCORD).load)
        measure_discord(outward.fronts.get(Front.DISCORD), metrics, outward.refusals.count)

    shared, outward, metrics = parts.shared, parts.outward, parts.shared.metrics
    cell = CellGauges(metrics, shared.redis, shared.keys, shared.queue.policy.wait_ms)
    own = OwnGauges(metrics, shared.reporter, data_dir(shared.settings) / SPOOL)
    return {
        "/healthz": healthz,
        "/readyz": readyz,
        "/metrics": metrics_path(metrics, look, own.look, cell.look),
        "/scale": scale_path(parts.inward.records),
    }


async def _take(parts: Parts, name: Front) -> None:
    """Takes what comes from a front, until it closes. Cancelled, what is in hand comes again."""
    shared, outward, inward = parts.shared, parts.outward, parts.inward
    front = outward.fronts[name]
    choices: ChoicesPort = inward.choices
    if isinstance(front, DiscordFront):
        choices = ToldChoices(choices, front)
    heed = shared.memory.heeding(parts.departures.heed)
    if name is Front.DISCORD:
        heed = parts.neighbours.telling(heed)
    intake = Intake(
        front,
        parts.recall.admit,
        inward.records,
        shared.typist,
        shared.notices,
        choices,
        inward.pace,
        shared.memory,
        absorb=outward.echoes.absorb,
        heed=heed,
        budget=outward.budget_of(name),
        tell=lambda error, event: shared.reporter.report(event_mishap(error, event)),
        now_ms=_now_ms,
        sleep=asyncio.sleep,
    )
    if isinstance(front, DiscordFront):
        front.answer(inward.desk(intake).take)
    await front.connect()
    for turn_id, route in await outward.fleet.silent():
        if route.front is name:  # its gateway died, and the sign with it
            shared.typist.start(
                turn_id, front, route.channel_id, reply_to=route.reply_to, locale=route.locale
            )
    await intake.run()


async def _beat(parts: Parts) -> None:
    process_id, started_ms = parts.shared.process_id, _now_ms()
    while True:
        own = this_process(process_id, "gateway", started_ms=started_ms, now_ms=_now_ms())
        record = msgspec.structs.replace(
            own, config_digest=parts.live.current.digest, config_error=parts.live.error
        )
        try:
            await parts.inward.records.report_process(record)
        except StoreError:  # whatever it is, deliveries do not hang on this report
            logger.debug("gateway.beat_failed", exc_info=True)
        await asyncio.sleep(BEAT_S)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _first(group: BaseExceptionGroup[ConfigError]) -> BaseException:
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found

"""The gateway process: composition, life and orderly end.

Comes in: settings and a stop. Goes out: a running gateway. `gateway.__main__` imports it, and
`turnfleet gateway` starts that.

The local channel is always served, so that `turnfleet turns send` and the console can talk to the
bot; `front = discord` serves Discord beside it.
"""

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import socket
import time
from collections.abc import AsyncIterator, Mapping
from typing import Final

import msgspec
from redis.asyncio import Redis

from gateway.changes import Changes
from gateway.edges.admissions import KeyedAdmissions
from gateway.edges.channel_memory import ChannelMemory
from gateway.edges.checkup import Checkup
from gateway.edges.departures import Departures
from gateway.edges.discord import DiscordFront
from gateway.edges.metering import MeteredAdmissions, measure_discord
from gateway.edges.neighbours import Neighbours
from gateway.edges.pace import Pace
from gateway.edges.waiting import Waiting
from gateway.front import ChannelFront
from gateway.intake import Intake
from gateway.inward import Inward
from gateway.notices import Notices
from gateway.outward import Outward, Shared
from gateway.recall import Recall
from gateway.telling import Regrets, Teller
from gateway.typist import Typist
from shared.config import Settings, data_dir
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
from shared.edges.reporter import Reporter, stream_sender
from shared.edges.spool import Spool
from shared.errors import ConfigError, StoreError
from shared.i18n import load_texts
from shared.keys import Keys
from shared.logs import fields
from shared.metrics import DISCORD_LOAD, LOOP_LAG, Metrics
from shared.secrets import Secret
from shared.turns import Front

logger = logging.getLogger(__name__)

BEAT_S: Final = 2.0
"""How often the process says that it lives; the record is gone after five of these."""
BLOCKING_CONNECTIONS: Final = 8
"""Blocking reads beside one per partition: prompts, and room for one that is being replaced."""


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What a gateway is made of."""

    settings: Settings
    live: LiveConfiguration
    keys: Keys
    redis: Redis
    blocking: Redis
    queue: TurnQueue
    reporter: Reporter
    notices: Notices
    process_id: str
    metrics: Metrics


async def serve(
    loaded: Loaded, stop: asyncio.Event, environ: Mapping[str, str] = os.environ
) -> None:
    """Runs a gateway until `stop`, then drains: nothing new is read, what is in hand is finished.

    SIGHUP reads the configuration again.

    Raises:
        ConfigError, StoreUnavailable, StoreUnsafe: it cannot start, or Discord refuses the token.
    """
    settings = loaded.settings
    async with _parts(loaded, environ) as parts:
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            # Not where loops have no signals, and not beside the main thread.
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, parts.live.ask)
        waiting = Waiting(parts.queue, load_texts(), tell=parts.reporter.report)
        typist = Typist(waiting)
        outward = _outward(parts, typist)
        fronts = outward.fronts
        recall = _recall(parts, outward, typist)
        logger.info(
            "gateway.started",
            extra=fields(
                process_id=parts.process_id,
                partitions=settings.partitions,
                fronts=[front.value for front in fronts],
            ),
        )
        try:
            checkup = Checkup(parts.redis, stop)
            paths = _paths(checkup, parts, outward)
            async with (
                asyncio.TaskGroup() as group,
                outward.running(),
                typist.running(),
                serving(settings.health_listen, paths),
            ):
                around = outward.surroundings()
                background = [
                    group.create_task(parts.reporter.run(), name="reporter"),
                    group.create_task(_beat(parts), name="beat"),
                    group.create_task(parts.live.run(), name="configuration"),
                    group.create_task(recall.run(), name="recall"),
                    group.create_task(checkup.run(), name="checkup"),
                ]
                background.append(
                    group.create_task(_departures(parts, outward, recall).run(), name="departures")
                )
                if Front.DISCORD in fronts:
                    neighbours = _neighbours(parts, outward, recall)
                    background.append(group.create_task(neighbours.run(), name="neighbours"))
                takers = [
                    group.create_task(_take(parts, front, recall, outward, typist), name="intake")
                    for front in fronts.values()
                ]
                for front in fronts.values():
                    is_local = not isinstance(front, DiscordFront)
                    for left in await waiting.left_behind(is_local=is_local):
                        typist.adopt(front, left)
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
        except* ConfigError as refused:
            raise ConfigError(str(_first(refused))) from refused
        finally:
            for front in fronts.values():
                await front.close()
    logger.info("gateway.stopped")


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
    own = [Secret(settings.discord_token)] if settings.discord_token else []
    try:
        await check_server(redis, settings.redis_url, allow_unsafe=settings.allow_unsafe_redis)
        spool = Spool(data_dir(settings) / "spool", process_id)
        metrics = Metrics("gateway")
        reporter = Reporter(
            stream_sender(redis, keys), spool, secrets=own, on_report=count_report(metrics)
        )
        try:
            yield Parts(
                settings=settings,
                live=live,
                keys=keys,
                redis=redis,
                blocking=blocking,
                queue=queue,
                reporter=reporter,
                notices=Notices(load_texts()),
                process_id=process_id,
                metrics=metrics,
            )
        finally:
            reporter.close()
    finally:
        await blocking.aclose()
        await redis.aclose()


def _paths(checkup: Checkup, parts: Parts, outward: Outward) -> dict[str, Path]:
    """What the health server shows."""

    async def healthz() -> Answer:
        return verdict(checkup.living())

    async def readyz() -> Answer:
        return verdict(await checkup.readiness())

    async def look() -> None:
        metrics.set(LOOP_LAG, checkup.lag_s)
        metrics.set(DISCORD_LOAD, outward.budget_of(Front.DISCORD).load)
        measure_discord(outward.fronts.get(Front.DISCORD), metrics, outward.refusals.count)

    metrics, wait_ms = parts.metrics, parts.queue.policy.wait_ms
    cell = CellGauges(metrics, parts.redis, parts.keys, wait_ms)
    own = OwnGauges(metrics, parts.reporter, data_dir(parts.settings) / "spool")
    return {
        "/healthz": healthz,
        "/readyz": readyz,
        "/metrics": metrics_path(metrics, look, own.look, cell.look),
        "/scale": scale_path(TurnRecords(parts.redis, parts.keys)),
    }


def _outward(parts: Parts, typist: Typist) -> Outward:
    return Outward(
        Shared(
            settings=parts.settings,
            keys=parts.keys,
            redis=parts.redis,
            blocking=parts.blocking,
            queue=parts.queue,
            reporter=parts.reporter,
            notices=parts.notices,
            metrics=parts.metrics,
            process_id=parts.process_id,
            typist=typist,
        )
    )


def _recall(parts: Parts, outward: Outward, typist: Typist) -> Recall:
    """Admissions that outlive a server's memory."""
    tellers = {
        name: Teller(front, outward.budget_for(front), asyncio.sleep)
        for name, front in outward.fronts.items()
    }
    regrets = Regrets(tellers, parts.notices, typist, TurnRecords(parts.redis, parts.keys))
    return Recall(_keyed(parts).admit, outward.fleet, regrets.tell)


def _departures(parts: Parts, outward: Outward, recall: Recall) -> Departures:
    """What changes in Discord means, the month after which a guild is forgotten included."""
    forgetter = Forgetter(parts.redis, parts.keys, parts.queue, leaves=OPERATORS)
    return Departures(_changes(outward, recall).heed, forgetter, tell=parts.reporter.report)


def _neighbours(parts: Parts, outward: Outward, recall: Recall) -> Neighbours:
    """The other gateways of the bot, which hear of other guilds."""
    heed = _changes(outward, recall).heed
    return Neighbours(parts.redis, parts.keys, parts.process_id, heed)


def _changes(outward: Outward, recall: Recall) -> Changes:
    return Changes(recall, outward.fleet, outward.channels, outward.clock.now_s)


async def _take(
    parts: Parts, front: ChannelFront, recall: Recall, outward: Outward, typist: Typist
) -> None:
    live = parts.live
    memory = ChannelMemory(ChannelHistory(parts.redis, parts.keys))
    heed = memory.heeding(_departures(parts, outward, recall).heed)
    if isinstance(front, DiscordFront):
        heed = _neighbours(parts, outward, recall).telling(heed)
    intake = Intake(
        front,
        recall.admit,
        TurnRecords(parts.redis, parts.keys),
        typist,
        parts.notices,
        LiveChoices(ChoicesStore(parts.redis, parts.keys), live.loaded),
        Pace(parts.redis, parts.keys, live.loaded),
        memory,
        absorb=outward.echoes.absorb,
        heed=heed,
        budget=outward.budget_for(front),
        now_ms=_now_ms,
        sleep=asyncio.sleep,
    )
    if isinstance(front, DiscordFront):
        front.answer(_inward(parts).desk(intake).take)
    await front.connect()
    for turn_id, route in await outward.fleet.silent():
        if (route.front is Front.DISCORD) == isinstance(front, DiscordFront):
            # Its gateway died, and the sign with it.
            typist.start(
                turn_id, front, route.channel_id, reply_to=route.reply_to, locale=route.locale
            )
    await intake.run()


def _keyed(parts: Parts) -> KeyedAdmissions:
    """The queue, for turns that are told whose key they run on."""
    metered = MeteredAdmissions(parts.queue.admit, parts.metrics)
    store = CredentialStore(parts.redis, parts.keys)
    return KeyedAdmissions(metered.admit, store, parts.redis, parts.keys)


def _inward(parts: Parts) -> Inward:
    return Inward(queue=parts.queue, texts=load_texts(), loaded=parts.live.loaded)


async def _beat(parts: Parts) -> None:
    records = TurnRecords(parts.redis, parts.keys)
    started_ms = _now_ms()
    while True:
        own = this_process(parts.process_id, "gateway", started_ms=started_ms, now_ms=_now_ms())
        record = msgspec.structs.replace(
            own, config_digest=parts.live.current.digest, config_error=parts.live.error
        )
        try:
            await records.report_process(record)
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

"""`turnfleet recorder`: the process that writes what the fleet reports into the database.

Comes in: settings. Goes out: rows of `error_logs`. It is the composition root of `ops.recorder`.
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
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec
from redis.asyncio import Redis

from ops.cli.session import redis_url, settings_now
from ops.recorder import Recorder, Reported
from ops.store.engine import Database, database_url
from ops.store.errors import write_reports
from ops.store.fingerprint import fingerprint
from ops.store.forgotten import Forgotten, without
from ops.store.lines import FileShelf
from ops.store.migrate import upgrade
from ops.store.mirror import Mirror, Standing
from ops.store.overflow import Overflow
from ops.store.retention import forget_old
from ops.store.storms import Storms
from ops.triage.alarm import Alarm
from shared.config import Settings, data_dir
from shared.edges.alerts import Alerts
from shared.edges.health import Answer, Path, serving, verdict
from shared.edges.metering import OwnGauges, metrics_path
from shared.edges.records import TurnRecords, this_process
from shared.edges.redis import check_server, connect, within
from shared.edges.reporter import crash_keeper, reporter_of
from shared.edges.sentry import Sentry
from shared.edges.spool import SPOOL
from shared.edges.streams import GroupReader
from shared.errors import StoreError, TurnfleetError
from shared.failures import ErrorReport, Severity
from shared.keys import RECORDER_GROUP, Keys
from shared.logs import fields, secrets_of, start_logs, watch_loop
from shared.metrics import BURIED, PERSIST_LAG, PERSISTED, SHELVED, Metrics

BEAT_S: Final = 2.0
"""How often the process says that it lives; the record is gone after five of these."""
TIDY_FIRST_S: Final = 600.0
"""After a start there is more urgent work, and the tables are there by then."""
TIDY_EVERY_S: Final = 86_400.0
"""Retention is in days. Two recorders do it twice, which changes nothing."""
WATCH_EVERY_S: Final = 15.0
"""Between looks for what an operator should see: three queries, some milliseconds each."""
MIRROR_EVERY_S: Final = 15.0
"""What a lost server may cost of settings and credentials."""
TROUBLE_CHARS: Final = 300
LOST_WORDS: Final = {
    Standing.LOST: (
        "Redis has lost its settings and credentials: `turnfleet db restore-redis` gives them back."
    ),
    Standing.OLD: (
        "Redis was started from an old dump, its settings and credentials are of then: `turnfleet "
        "db restore-redis` brings them up to date, `turnfleet db accept-redis` keeps them."
    ),
}
JITTER: Final = (0.7, 1.3)
"""Two recorders that lost one database come back apart."""

_log = logging.getLogger(__name__)


def recorder() -> None:
    """Runs a recorder until SIGTERM or Ctrl-C: error reports become rows of the database."""
    settings = settings_now()
    url = redis_url(settings)
    database_url(settings.database_url, data_dir(settings))
    keep = crash_keeper(settings, f"recorder-{os.getpid()}")
    logs = start_logs("recorder", settings, on_crash=keep)
    with logs.until_the_end(TurnfleetError, OSError):
        asyncio.run(_run(settings, url))


class _Parts(msgspec.Struct, frozen=True, kw_only=True):
    keys: Keys
    redis: Redis
    blocking: Redis
    database: Database
    process_id: str
    shelf: FileShelf
    troubles: dict[str, str] = msgspec.field(default_factory=dict)
    """What else keeps it from its work, by part."""
    sentry: Sentry | None


async def _run(settings: Settings, url: str) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with _parts(settings, url) as parts:
        await check_server(parts.redis, url, allow_unsafe=settings.allow_unsafe_redis)
        metrics = Metrics("recorder")
        reporter = reporter_of(settings, parts.redis, parts.keys, parts.process_id)
        own = OwnGauges(metrics, reporter, data_dir(settings) / SPOOL)
        recording = _recorder(parts)
        watch_loop(loop, reporter.crashed)
        _log.info("recorder.started", extra=fields(database=parts.database.name))
        async with (
            asyncio.TaskGroup() as group,
            serving(settings.health_listen, _paths(parts, recording, metrics, own)),
        ):
            background = [
                group.create_task(reporter.run(), name="reporter"),
                group.create_task(_beat(parts, recording), name="beat"),
                group.create_task(_tidy(parts.database), name="tidy"),
                group.create_task(_watch(parts), name="alarm"),
                group.create_task(_mirror(parts), name="mirror"),
                group.create_task(
                    Forgotten(parts.database, parts.redis, parts.keys).run(), name="forgotten"
                ),
            ]
            await recording.run(stop)
            for task in background:
                task.cancel()
        reporter.close()
        with contextlib.suppress(StoreError):
            await TurnRecords(parts.redis, parts.keys).forget_process(parts.process_id)
    _log.info("recorder.stopped")


@contextlib.asynccontextmanager
async def _parts(settings: Settings, url: str) -> AsyncIterator[_Parts]:
    redis, blocking = connect(url), connect(url, blocking=True)
    keys = Keys(settings.cell, settings.partitions)
    database = Database(database_url(settings.database_url, data_dir(settings)))
    host = socket.gethostname()
    sentry = None
    if settings.sentry_dsn is not None:
        known = secrets_of(settings)
        sentry = Sentry(settings.sentry_dsn, secrets=known, clock_s=time.monotonic)
    try:
        yield _Parts(
            keys=keys,
            redis=redis,
            blocking=blocking,
            database=database,
            process_id=f"recorder-{host}-{os.getpid()}-{secrets.token_hex(4)}",
            shelf=FileShelf(
                Overflow(data_dir(settings) / "overflow"),
                database,
                Forgotten(database, redis, keys).digests,
            ),
            sentry=sentry,
        )
    finally:
        if sentry is not None:
            await asyncio.to_thread(sentry.close)
        await database.close()
        await blocking.aclose()
        await redis.aclose()


def _recorder(parts: _Parts) -> Recorder:
    # The host's name, not the process's: after a restart the first entries are those in hand.
    reader = GroupReader(
        parts.redis,
        parts.blocking,
        stream=parts.keys.errors,
        group=RECORDER_GROUP,
        consumer=f"recorder-{socket.gethostname()}",
    )

    storms = Storms()
    forgotten = Forgotten(parts.database, parts.redis, parts.keys)

    async def write(reports: Sequence[Reported]) -> int:
        reports = without(reports, await forgotten.digests())
        rows = [storms.calmed(one) if isinstance(one, ErrorReport) else one for one in reports]
        new = await write_reports(parts.database, rows, datetime.now(UTC))
        if parts.sentry is not None and new:
            for one in reports:
                if isinstance(one, ErrorReport) and one.severity is Severity.ERROR:
                    parts.sentry.capture(one, fingerprint(one))
        return new

    async def prepare() -> None:
        await upgrade(parts.database)

    return Recorder(
        reader,
        write,
        prepare,
        buried=parts.keys.buried,
        jitter=lambda: random.uniform(*JITTER),
        shelf=parts.shelf,
    )


def _paths(parts: _Parts, recording: Recorder, metrics: Metrics, own: OwnGauges) -> dict[str, Path]:
    """What the health server shows."""

    async def healthz() -> Answer:
        return verdict({})

    async def readyz() -> Answer:
        # Not the database: while it is away reports wait in the stream, and nothing else is ill.
        try:
            await within(parts.redis.ping())
        except StoreError as exc:
            return verdict({"redis": str(exc)})
        return verdict({})

    async def look() -> None:
        metrics.set(PERSISTED, recording.written)
        metrics.set(BURIED, recording.buried)
        metrics.set(SHELVED, recording.shelved)
        first: list[tuple[bytes, object]] = await within(
            parts.redis.xrange(parts.keys.errors, count=1)
        )
        oldest_ms = int(first[0][0].split(b"-")[0]) if first else _now_ms()
        metrics.set(PERSIST_LAG, max(0.0, (_now_ms() - oldest_ms) / 1000))

    return {
        "/healthz": healthz,
        "/readyz": readyz,
        "/metrics": metrics_path(metrics, look, own.look),
    }


async def _tidy(database: Database) -> None:
    """Forgets what is old, once a day; what fails is tried the day after."""
    await asyncio.sleep(TIDY_FIRST_S)
    while True:
        try:
            gone = await forget_old(database, datetime.now(UTC))
        except StoreError as exc:
            _log.warning("recorder.not_tidied", extra=fields(why=str(exc)))
        else:
            _log.info("recorder.tidied", extra=fields(rows=gone))
        await asyncio.sleep(TIDY_EVERY_S)


async def _watch(parts: _Parts) -> None:
    """Raises alerts. Two recorders raise each once: Redis remembers."""
    alarm = Alarm(parts.database, Alerts(parts.redis, parts.keys).send)
    while True:
        await asyncio.sleep(WATCH_EVERY_S)
        await alarm.look(datetime.now(UTC))


async def _mirror(parts: _Parts) -> None:
    """Keeps the mirror; what fails is tried at the next look."""
    mirror = Mirror(parts.database, parts.redis, parts.keys)
    while True:
        await asyncio.sleep(MIRROR_EVERY_S)
        try:
            seen = await mirror.follow(datetime.now(UTC))
        except StoreError as exc:
            # A missing right, say: nobody would notice until the mirror is needed.
            parts.troubles["mirror"] = str(exc)
            _log.debug("recorder.not_mirrored", extra=fields(why=str(exc)))
            continue
        parts.troubles["mirror"] = LOST_WORDS.get(seen.standing, "")
        if seen.standing is not Standing.CURRENT:
            run = "turnfleet db restore-redis"
            _log.error("recorder.redis_forgot", extra=fields(standing=seen.standing, run=run))
        elif seen.changed or seen.removed:
            _log.info("recorder.mirrored", extra=fields(changed=seen.changed, removed=seen.removed))


async def _beat(parts: _Parts, recording: Recorder) -> None:
    records = TurnRecords(parts.redis, parts.keys)
    started_ms = _now_ms()
    while True:
        record = this_process(parts.process_id, "recorder", started_ms=started_ms, now_ms=_now_ms())
        # Each once: a database that is away keeps both from their work, with the same words.
        troubles = dict.fromkeys((recording.trouble, parts.shelf.trouble, *parts.troubles.values()))
        trouble = " ".join(filter(None, troubles))
        record = msgspec.structs.replace(record, trouble=trouble[:TROUBLE_CHARS])
        try:
            await records.report_process(record)
        except StoreError:
            _log.debug("recorder.beat_failed")
        await asyncio.sleep(BEAT_S)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

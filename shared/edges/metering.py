"""What the processes of a fleet are asked over HTTP: `/metrics`, and the scaling signal `/scale`.

Comes in: a process's own metrics, and the cell in Redis. Goes out: answers of the health server.
Composition roots import it.
"""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path as FilePath
from typing import Final

from redis.asyncio import Redis

from shared.edges.health import Answer, Path, json_answer, verdict
from shared.edges.records import TurnRecords
from shared.edges.redis import within
from shared.edges.reporter import Reporter
from shared.errors import StoreError
from shared.failures import ErrorReport
from shared.keys import Keys
from shared.logs import lines_dropped
from shared.metrics import (
    CONTENT_TYPE,
    COST,
    DURATION,
    ERRORS,
    FIRST_BYTE,
    FIRST_SEGMENT,
    LOG_DROPS,
    OLDEST_AGE,
    OTHER,
    PENDING,
    PROCESSES,
    QUEUE_DEPTH,
    QUEUE_WAIT,
    REDACTIONS,
    REPORTS_LOST,
    SPEED,
    SPOOLED,
    TOKENS,
    TURNS,
    Metrics,
)
from shared.summaries import TurnSummary

Refresh = Callable[[], Awaitable[None]]
MIN_SPEED_S: Final = 0.2
"""An answer that came at once, as from a cache, says nothing about a model's speed."""


def metrics_path(metrics: Metrics, *refresh: Refresh) -> Path:
    """The answer of `/metrics`: gauges are looked up when somebody asks.

    What cannot be looked up now keeps its last value, so that an outage of Redis does not take the
    process's own numbers away.
    """

    async def ask() -> Answer:
        for look in refresh:
            try:
                await look()
            except StoreError:
                continue
        return Answer(body=metrics.text(), kind=CONTENT_TYPE)

    return ask


def scale_path(records: TurnRecords) -> Path:
    """The answer of `/scale`: how many turns wait and run, by the queue's own count.

    No stream's lag: that is nil after acknowledgements out of order, and a scaler would take it for
    nothing to do. While Redis is away it answers 503, so that a scaler keeps what it has.
    """

    async def ask() -> Answer:
        try:
            load = await records.load()
        except StoreError:
            return verdict({"redis": "it does not answer"})
        return json_answer({"backlog": load.load, "queued": load.queued, "running": load.running})

    return ask


class CellGauges:
    """What a gateway shows of the whole cell: every gateway the same.

    Args:
        metrics: of the gateway.
        redis: short commands.
        keys: the key names of the cell.
        wait_ms: how long a turn may wait: the queue keeps the ends of these times.
    """

    def __init__(self, metrics: Metrics, redis: Redis, keys: Keys, wait_ms: int) -> None:
        self._metrics = metrics
        self._redis = redis
        self._keys = keys
        self._wait_ms = wait_ms
        self._records = TurnRecords(redis, keys)

    async def look(self) -> None:
        """Looks at the queue, the streams and the processes. Raises `StoreError`."""
        load = await self._records.load()
        self._metrics.set(QUEUE_DEPTH, load.queued, state="waiting")
        self._metrics.set(QUEUE_DEPTH, load.running, state="running")
        first: list[tuple[bytes, float]] = await within(
            self._redis.zrange(self._keys.waiting, 0, 0, withscores=True)
        )
        oldest_ms = first[0][1] - self._wait_ms if first else float("inf")
        self._metrics.set(OLDEST_AGE, max(0.0, time.time() - oldest_ms / 1000))
        for name, streams in self._streams().items():
            lengths = [await within(self._redis.xlen(stream)) for stream in streams]
            self._metrics.set(PENDING, sum(lengths), stream=name)
        alive = Counter((one.role, one.version) for one in await self._records.processes())
        self._metrics.forget(PROCESSES)
        for (role, version), count in alive.items():
            self._metrics.set(PROCESSES, count, role=role, version=version)

    def _streams(self) -> dict[str, Iterable[str]]:
        keys = self._keys
        return {
            "out": [keys.out(number) for number in range(keys.partitions)],
            "errors": [keys.errors],
            "buried": [keys.buried],
            "dead": [keys.dead],
        }


class OwnGauges:
    """What every process shows of itself.

    Args:
        metrics: of the process.
        reporter: its way for reports.
        spool: the directory where they wait while Redis is away.
    """

    def __init__(self, metrics: Metrics, reporter: Reporter, spool: FilePath) -> None:
        self._metrics = metrics
        self._reporter = reporter
        self._spool = spool

    async def look(self) -> None:
        """Looks at the logs, the reporter and the disk."""
        self._metrics.set(LOG_DROPS, lines_dropped())
        self._metrics.set(REPORTS_LOST, self._reporter.lost)
        self._metrics.set(SPOOLED, sum(_size(path) for path in self._spool.glob("*.ndjson")))


def _size(path: FilePath) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # sent, and gone
        return 0


def count_report(metrics: Metrics) -> Callable[[ErrorReport], None]:
    """What a reporter calls for each report, redacted."""

    def count(report: ErrorReport) -> None:
        metrics.add(
            ERRORS,
            category=report.category,
            error_type=report.error_type,
            provider=report.provider or OTHER,
            stage=report.stage,
        )
        removed = report.metadata.get("redactions")
        if isinstance(removed, dict):
            for kind, times in removed.items():
                metrics.add(REDACTIONS, times, kind=kind)

    return count


def count_turn(metrics: Metrics, summary: TurnSummary) -> None:
    """Adds a turn that has ended."""
    of = {"provider": summary.provider, "model": summary.model}
    queued_s, usage = _s(summary.queued_ms), summary.usage
    first_byte_s, elapsed_s = _s(summary.first_byte_ms), _s(summary.elapsed_ms)
    metrics.add(TURNS, outcome=summary.state, **of)
    metrics.observe(QUEUE_WAIT, queued_s)
    metrics.observe(FIRST_BYTE, first_byte_s, **of)
    metrics.observe(DURATION, elapsed_s, **of)
    if summary.first_segment_ms is not None:
        metrics.observe(FIRST_SEGMENT, (queued_s or 0.0) + summary.first_segment_ms / 1000, **of)
    for direction in ("input", "output", "reasoning", "cache_read", "cache_write"):
        metrics.add(TOKENS, getattr(usage, direction) or 0, direction=direction, **of)
    metrics.add(COST, float(usage.cost or 0.0), **of)
    if usage.output and first_byte_s is not None and elapsed_s is not None:
        streamed_s = elapsed_s - first_byte_s
        if streamed_s >= MIN_SPEED_S:
            metrics.observe(SPEED, usage.output / streamed_s, **of)


def _s(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000

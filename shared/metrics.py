"""What a fleet is measured by: every metric, and the values that its labels may take.

Comes in: numbers from composition roots and edges. Goes out: the text that Prometheus scrapes.
`docs/metrics.md` lists the same metrics, and a test compares. Not for pure rooms.

A label has few values, whoever chooses them: providers and models of a fleet are counted up to a
limit and are `other` beyond, and nobody's id is ever a label (rows of the database have those).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from shared import __version__

SECONDS: Final = tuple(round(0.01 * 2**step, 2) for step in range(14))
"""0.01 s to 81.92 s, doubling: the buckets that OpenTelemetry's GenAI conventions advise."""
RATES: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)
OTHER: Final = "other"
MAX_VALUES: Final = 40
"""Values of one label in one process. Models are the longest list: a deployment uses a dozen."""
CONTENT_TYPE: Final = CONTENT_TYPE_LATEST


class Kind(StrEnum):
    """What a metric's number does."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One metric.

    `by` names the processes that show it. `values` bounds a label to a closed set; a label that is
    not named there is bounded by `MAX_VALUES`.
    """

    name: str
    kind: Kind
    says: str
    by: tuple[str, ...]
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = SECONDS


_WORKER, _GATEWAY, _RECORDER = ("worker",), ("gateway",), ("recorder",)
_ALL = ("gateway", "worker", "recorder")
_ANSWER = ("provider", "model")


def _counter(name: str, says: str, by: tuple[str, ...], *labels: str) -> Metric:
    return Metric(
        name=f"turnfleet_{name}_total", kind=Kind.COUNTER, says=says, by=by, labels=labels
    )


def _gauge(name: str, says: str, by: tuple[str, ...], *labels: str) -> Metric:
    return Metric(name=f"turnfleet_{name}", kind=Kind.GAUGE, says=says, by=by, labels=labels)


def _seconds(name: str, says: str, by: tuple[str, ...], *labels: str) -> Metric:
    return Metric(
        name=f"turnfleet_{name}_seconds", kind=Kind.HISTOGRAM, says=says, by=by, labels=labels
    )


BUILD: Final = _gauge("build_info", "1, with the version that runs.", _ALL, "version")
LOOP_LAG: Final = _gauge(
    "event_loop_lag_seconds", "How late the loop was lately.", ("gateway", "worker")
)
DISCORD_LOAD: Final = _gauge(
    "discord_request_load",
    "Requests asked of Discord, as a part of what the bot is allowed.",
    ("gateway",),
)
DISCORD_SHARDS: Final = _gauge(
    "discord_shards", "Shards of the bot that this gateway has.", _GATEWAY, "state"
)
DISCORD_STARTS: Final = _gauge(
    "discord_session_starts_left",
    "Sessions that the bot may still begin today, as Discord said last.",
    _GATEWAY,
    "total",
)
DISCORD_REFUSED: Final = _gauge(
    "discord_refused_requests",
    "Requests that Discord refused within ten minutes, of all gateways.",
    _GATEWAY,
)
LOG_DROPS: Final = _gauge("log_drops", "Log lines lost to a blocked stdout, since the start.", _ALL)
REPORTS_LOST: Final = _gauge(
    "error_reports_lost", "Reports that neither Redis nor the disk took, since the start.", _ALL
)
SPOOLED: Final = _gauge("spooled_bytes", "Reports on this disk that wait for Redis.", _ALL)

QUEUE_DEPTH: Final = _gauge("queue_depth", "Turns of the cell that wait or run.", _GATEWAY, "state")
OLDEST_AGE: Final = _gauge(
    "queue_oldest_age_seconds", "Age of the turn that has waited longest.", _GATEWAY
)
PENDING: Final = _gauge(
    "stream_entries", "Entries of a stream that nobody has taken out.", _GATEWAY, "stream"
)
PROCESSES: Final = _gauge(
    "processes", "Processes that reported lately.", _GATEWAY, "role", "version"
)
SLOTS: Final = _gauge("worker_slots", "Turns that this worker can run at once.", _WORKER)
STREAMS: Final = _gauge("active_streams", "Turns that run here.", _WORKER)
DRAINING: Final = _gauge("draining", "1 while this worker takes nothing new.", _WORKER)

TURNS: Final = _counter(
    "turns", "Turns that ended here, by how.", _WORKER, "provider", "model", "outcome"
)
QUEUE_WAIT: Final = _seconds("queue_wait", "From admission to a worker.", _WORKER)
FIRST_BYTE: Final = _seconds(
    "first_byte", "From the claim to the provider's first byte.", _WORKER, *_ANSWER
)
FIRST_SEGMENT: Final = _seconds(
    "ttfs", "From admission to the first segment on the stream.", _WORKER, *_ANSWER
)
DURATION: Final = _seconds("turn_duration", "From the claim to the end.", _WORKER, *_ANSWER)
TOKENS: Final = _counter(
    "tokens", "Tokens that providers reported.", _WORKER, "provider", "model", "direction"
)
COST: Final = _counter(
    "cost_usd", "Cost where a provider reported it.", _WORKER, "provider", "model"
)
SPEED: Final = Metric(
    name="turnfleet_output_tokens_per_second",
    kind=Kind.HISTOGRAM,
    says="Output tokens by the time after the first byte.",
    by=_WORKER,
    labels=_ANSWER,
    buckets=RATES,
)
ERRORS: Final = _counter(
    "errors",
    "Reports of failed attempts and stages, expected or not.",
    ("gateway", "worker"),
    "category",
    "error_type",
    "provider",
    "stage",
)
REDACTIONS: Final = _counter(
    "redactions", "Secrets found in reports and removed.", ("gateway", "worker"), "kind"
)

ADMISSIONS: Final = _counter("admissions", "Prompts, by what became of them.", _GATEWAY, "answer")
DELIVERY_LAG: Final = _seconds(
    "delivery_lag", "From the stream to Discord's receipt, for each event.", _GATEWAY
)

PERSISTED: Final = _gauge("reports_persisted", "Rows written since the start.", _RECORDER)
BURIED: Final = _gauge("reports_buried", "Entries that nobody could store.", _RECORDER)
SHELVED: Final = _gauge(
    "reports_shelved", "Reports moved from Redis into files, to be stored later.", _RECORDER
)
PERSIST_LAG: Final = _gauge(
    "errors_persist_lag_seconds", "Age of the oldest report that is not in the database.", _RECORDER
)

EVERY: Final[tuple[Metric, ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, Metric)
)


class Metrics:
    """The metrics of one process.

    Args:
        role: `gateway`, `worker` or `recorder`; it shows what `Metric.by` says.
    """

    def __init__(self, role: str) -> None:
        self._registry = CollectorRegistry()
        self._seen: dict[str, set[str]] = {}
        self._made = {one.name: _made(one, self._registry) for one in EVERY if role in one.by}
        self.set(BUILD, 1, version=__version__)

    def add(self, metric: Metric, amount: float = 1, /, **labels: str) -> None:
        """Counts up. What is no number or negative counts nothing."""
        found = self._child(metric, labels)
        if isinstance(found, Counter) and amount >= 0:
            found.inc(amount)

    def set(self, metric: Metric, value: float, /, **labels: str) -> None:
        """Sets a gauge."""
        found = self._child(metric, labels)
        if isinstance(found, Gauge):
            found.set(value)

    def observe(self, metric: Metric, value: float | None, /, **labels: str) -> None:
        """Adds to a histogram; None, and what only a clock that was set back can say, adds none."""
        if value is None or value < 0:
            return
        found = self._child(metric, labels)
        if isinstance(found, Histogram):
            found.observe(value)

    def forget(self, metric: Metric) -> None:
        """Drops every labelled value of a gauge, before it is set anew."""
        self._made[metric.name].clear()

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self._registry)

    def _child(self, metric: Metric, labels: Mapping[str, str]) -> Counter | Gauge | Histogram:
        made = self._made[metric.name]
        if not metric.labels:
            return made
        return made.labels(**{name: self._bounded(name, labels[name]) for name in metric.labels})

    def _bounded(self, label: str, value: str) -> str:
        """The value, or `other` once the label has had its share."""
        seen = self._seen.setdefault(label, set())
        if value in seen:
            return value
        if len(seen) >= MAX_VALUES or not value:
            return OTHER
        seen.add(value)
        return value


def _made(metric: Metric, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    if metric.kind is Kind.HISTOGRAM:
        return Histogram(
            metric.name, metric.says, metric.labels, registry=registry, buckets=metric.buckets
        )
    kind = Counter if metric.kind is Kind.COUNTER else Gauge
    return kind(metric.name, metric.says, metric.labels, registry=registry)

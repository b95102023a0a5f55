"""Error reports as rows: what a database keeps of them.

Comes in: `ErrorReport` values of any reporter, old ones too. Goes out: dictionaries by column name
for `error_logs` and `error_groups`. Pure but for the moment, which is handed in.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final, cast

from ops.store.fingerprint import GROUP_VERSION, group_hash
from shared.failures import STACK_CHARS, ErrorReport, Severity
from shared.redaction import clean, clip, redact_value
from shared.summaries import TurnSummary
from shared.turns import AttemptUsage, CostSource, Target, TurnState

Row = dict[str, object]

CLOCK_TOLERANCE: Final = timedelta(hours=24)
"""A reporter's clock may be wrong, and a spool may be late; beyond a day its row would hide among
the old ones or live for ever."""
TITLE_CHARS: Final = 200
SUPERSEDED: Final = "superseded"
"""The state of an attempt that another one followed. No state of a turn is called so."""
SEVERITIES: Final = {Severity.WARNING: 30, Severity.ERROR: 40}

_SAME_NAMES: Final = (
    "id",
    "error_type",
    "stage",
    "http_status",
    "provider_code",
    "turn_id",
    "attempt",
    "guild_id",
    "channel_id",
    "user_id",
    "provider",
    "model",
    "serving_provider",
    "endpoint_host",
    "key_id",
    "elapsed_ms",
    "chunks",
    "segments_sent",
    "schema_version",
)

_FAILURE_NAMES: Final = (
    "id",
    "error_type",
    "turn_id",
    "attempt",
    "guild_id",
    "user_id",
    "provider",
    "model",
    "key_id",
)


def makes_a_row(report: ErrorReport) -> bool:
    """Whether the failure needs an operator. Expected ones stay in the logs."""
    return report.severity is Severity.ERROR


def error_row(report: ErrorReport, received: datetime) -> Row:
    """The row of a report. Cleaned again: not every writer of the stream is a reporter of ours."""
    created, metadata = _moment(report, received)
    source = report.credential_source
    row: Row = {name: _cleaned(getattr(report, name)) for name in _SAME_NAMES}
    return row | {
        "created_at": created,
        "received_at": received,
        "severity": SEVERITIES[report.severity],
        "category": report.category.value,
        "fault": report.fault.value,
        "group_hash": group_hash(report),
        "error_message": clip(clean(report.message), STACK_CHARS),
        "stack_trace": report.stack_trace and clip(clean(report.stack_trace), STACK_CHARS),
        "retryable": int(report.retryable),
        "credential_source": source.value if source else None,
        "worker_id": clean(report.worker_id or ""),
        "worker_version": clean(report.worker_version or ""),
        "notice": "shown" if report.shown else "none",
        "error_metadata": metadata,
    }


def failure_row(report: ErrorReport, received: datetime) -> Row:
    """The short row of a failed attempt, expected or not."""
    created, _ = _moment(report, received)
    source = report.credential_source
    row: Row = {name: _cleaned(getattr(report, name)) for name in _FAILURE_NAMES}
    return row | {
        "created_at": created,
        "category": report.category.value,
        "is_expected": int(not makes_a_row(report)),
        "group_hash": group_hash(report),
        "credential_source": source.value if source else None,
        "worker_version": clean(report.worker_version or ""),
    }


def usage_rows(summary: TurnSummary, received: datetime) -> list[Row]:
    """The rows of an ended turn in the ledger: one for each attempt, the last one with its end.

    An attempt that was followed by another is `superseded`: paid for, and not what people read.
    """
    last = _attempt_row(summary, _last_attempt(summary), received)
    last |= {
        "state": summary.state.value,
        "serving_provider": _cleaned(summary.serving_provider),
    }
    earlier = [_attempt_row(summary, one, received) for one in summary.attempts[:-1]]
    return [*earlier, last]


def _last_attempt(summary: TurnSummary) -> AttemptUsage:
    """The attempt that ended the turn; a worker of before sends only its sums."""
    target = Target(provider=summary.provider, model=summary.model)
    own = AttemptUsage(
        attempt=summary.attempt,
        target=target,
        key_id=summary.key_id,
        usage=summary.usage,
        cost_source=CostSource.UNKNOWN if summary.usage.cost is None else CostSource.REPORTED,
    )
    return summary.attempts[-1] if summary.attempts else own


def _attempt_row(summary: TurnSummary, one: AttemptUsage, received: datetime) -> Row:
    usage = one.usage
    return {
        "id": clean(f"{summary.turn_id}/{one.attempt}"),
        "created_at": _near(summary.ended_ms, received) or received,
        "turn_id": clean(summary.turn_id),
        "attempt": one.attempt,
        "state": SUPERSEDED,
        "guild_id": summary.guild_id,
        "user_id": summary.user_id,
        "provider": clean(one.target.provider),
        "model": clean(one.target.model),
        "serving_provider": None,
        "key_id": _cleaned(one.key_id),
        "credential_source": summary.credential_source.value,
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "reasoning_tokens": usage.reasoning,
        "cache_read_tokens": usage.cache_read,
        "cache_write_tokens": usage.cache_write,
        "cost": usage.cost,
        "cost_source": None if usage.cost is None else one.cost_source.value,
    }


def stats_rows(rows: Iterable[tuple[Row, str]]) -> list[Row]:
    """Counts ended turns, each with its worker's version, by hour and what they have in common."""
    counts: dict[tuple[object, ...], Row] = {}
    for row, version in rows:
        if row["state"] == SUPERSEDED:
            continue
        created = cast("datetime", row["created_at"])
        common: Row = {
            "bucket": created.replace(minute=0, second=0, microsecond=0),
            "guild_id": row["guild_id"] or 0,
            "provider": row["provider"],
            "model": row["model"],
            "key_id": row["key_id"] or "",
            "worker_version": version,
        }
        entry = counts.setdefault(
            tuple(common.values()), common | {"turns": 0, "failed": 0, "cancelled": 0}
        )
        for name, is_so in (
            ("turns", True),
            ("failed", row["state"] in {TurnState.FAILED, TurnState.DEAD}),
            ("cancelled", row["state"] == TurnState.CANCELLED),
        ):
            entry[name] = cast("int", entry[name]) + int(is_so)
    return [counts[key] for key in sorted(counts, key=str)]


def sighting(report: ErrorReport, received: datetime) -> Row:
    """What a failure adds to its cause.

    An expected one says nothing that upstream said: that may be for the owner of a personal key.
    """
    created, _ = _moment(report, received)
    title = report.message if makes_a_row(report) else ""
    return {
        "id": report.id,
        "group_hash": group_hash(report),
        "created_at": created,
        "title": clean(title) or f"{report.error_type} from {report.provider or report.stage}",
        "category": report.category.value,
        "error_type": clean(report.error_type),
        "worker_version": clean(report.worker_version or ""),
    }


def group_rows(sightings: Iterable[Row]) -> list[Row]:
    """One row per cause of these failures, ordered by hash so that two writers never deadlock."""
    members: dict[str, list[Row]] = {}
    for row in sightings:
        members.setdefault(str(row["group_hash"]), []).append(row)
    return [_group_row(name, members[name]) for name in sorted(members)]


def _group_row(name: str, members: list[Row]) -> Row:
    ordered = sorted(members, key=lambda row: cast("datetime", row["created_at"]))
    first, last = ordered[0], ordered[-1]
    return {
        "group_hash": name,
        "group_version": GROUP_VERSION,
        "title": str(first["title"])[:TITLE_CHARS],
        "category": first["category"],
        "error_type": first["error_type"],
        "first_seen": first["created_at"],
        "last_seen": last["created_at"],
        "first_version": first["worker_version"],
        "last_version": last["worker_version"],
        "seen_count": len(ordered),
    }


def _moment(report: ErrorReport, received: datetime) -> tuple[datetime, dict[str, object]]:
    metadata = redact_value(report.metadata)
    kept = dict(metadata) if isinstance(metadata, dict) else {}
    created = _near(report.created_ms, received)
    if created is None:
        # As text: a wrong clock may claim more than 64 bits.
        return received, kept | {"claimed_ms": str(report.created_ms)}
    return created, kept


def _near(claimed_ms: int, received: datetime) -> datetime | None:
    """The moment that a process claims, None if its clock is surely wrong."""
    try:
        moment = datetime.fromtimestamp(claimed_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return moment if abs(moment - received) <= CLOCK_TOLERANCE else None


def _cleaned(value: object) -> object:
    return clean(value) if isinstance(value, str) else value

"""Questions about failures: which, how many, whose, what else happened to that turn.

Comes in: filters. Goes out: records of the operators' database. The CLI and the console ask here,
so that both show the same. Every query has a limit and walks an index, newest first.
"""

import math
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Row, Select, and_, case, func, or_, select

from ops.store.engine import Database
from ops.store.tables import error_groups, error_logs, turn_failures, turn_stats

MAX_ROWS: Final = 1_000
"""Rows of one answer; more is an export, which pages."""
MIN_ID_CHARS: Final = 4
"""The shortest part of an id that a person may give."""
MIN_SPIKE: Final = 10
"""Errors in a window that are worth waking somebody: fewer are chance."""
USUAL: Final = timedelta(hours=24)
"""What a window is compared with: a day, so that the hours of the day even out."""
_HASH_CHARS: Final = 32


class ErrorFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which errors. None does not filter; `text` looks into messages, whatever the case."""

    since: datetime | None = None
    until: datetime | None = None
    cause: str | None = None
    """A cause's word, or its group's hash or the beginning of it."""
    category: str | None = None
    guild_id: int | None = None
    channel_id: int | None = None
    user_id: int | None = None
    provider: str | None = None
    model: str | None = None
    key_id: str | None = None
    worker_id: str | None = None
    turn_id: str | None = None
    text: str | None = None
    before: tuple[datetime, int] | None = None
    """`created_at` and `seq` of the last record of the page before."""
    limit: int = 50


class ErrorRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A row of `error_logs`."""

    seq: int
    id: str
    created_at: datetime
    received_at: datetime
    severity: int
    category: str
    error_type: str
    stage: str
    fault: str
    group_hash: str
    error_message: str
    stack_trace: str | None
    http_status: int | None
    provider_code: str | None
    retryable: bool
    turn_id: str | None
    attempt: int | None
    guild_id: int | None
    channel_id: int | None
    user_id: int | None
    provider: str | None
    model: str | None
    serving_provider: str | None
    endpoint_host: str | None
    credential_source: str | None
    key_id: str | None
    worker_id: str
    worker_version: str
    elapsed_ms: int | None
    chunks: int | None
    segments_sent: int | None
    notice: str
    error_metadata: dict[str, object]
    schema_version: int


class CauseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A row of `error_groups`: one cause, and what was decided about it."""

    group_hash: str
    group_version: int
    title: str
    category: str
    error_type: str
    status: str
    muted_until: datetime | None
    resolved_in: str | None
    note: str | None
    first_seen: datetime
    last_seen: datetime
    first_version: str
    last_version: str
    seen_count: int
    resolved_at: datetime | None
    regressed_at: datetime | None


class TopCause(msgspec.Struct, frozen=True, kw_only=True):
    """A cause within a window: how often, and how far it reaches."""

    group_hash: str
    error_type: str
    category: str
    title: str
    status: str
    regressed_at: datetime | None
    errors: int
    guilds: int
    keys: int
    first_at: datetime
    last_at: datetime


class Spike(msgspec.Struct, frozen=True, kw_only=True):
    """An open cause that is much more frequent now than it was: `usual` errors per window."""

    group_hash: str
    error_type: str
    category: str
    title: str
    errors: int
    usual: float


class RateBy(StrEnum):
    """What rates can be told apart by."""

    MODEL = "model"
    PROVIDER = "provider"
    GUILD = "guild"
    KEY = "key"
    VERSION = "version"


_RATE_COLUMNS: Final = {
    RateBy.MODEL: "model",
    RateBy.PROVIDER: "provider",
    RateBy.GUILD: "guild_id",
    RateBy.KEY: "key_id",
    RateBy.VERSION: "worker_version",
}
"""The column that both tables have for it."""


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """Turns and failures of a model, a guild, ... `value` '' is none (a DM, no key).

    `failures` are attempts that need an operator, `expected` those that do not; a turn that failed
    once and then succeeded has one of them, and is no failed turn.
    """

    value: str
    turns: int = 0
    failed_turns: int = 0
    cancelled: int = 0
    failures: int = 0
    expected: int = 0

    @property
    def per_1000(self) -> float | None:
        """Failed turns per 1,000; None where no turn ended."""
        return round(1000 * self.failed_turns / self.turns, 1) if self.turns else None


class ErrorDetail(msgspec.Struct, frozen=True, kw_only=True):
    """An error with its cause and everything else that failed in the same turn, in order."""

    error: ErrorRecord
    cause: CauseRecord | None
    turn: list[ErrorRecord]


async def list_errors(database: Database, wanted: ErrorFilter) -> list[ErrorRecord]:
    """The errors that match, the newest first."""
    statement = (
        select(error_logs)
        .where(*_conditions(wanted))
        .order_by(error_logs.c.created_at.desc(), error_logs.c.seq.desc())
        .limit(min(wanted.limit, MAX_ROWS))
    )
    async with database.begin() as connection:
        result = await connection.execute(statement)
        return [_error(row) for row in result]


async def top_causes(database: Database, wanted: ErrorFilter) -> list[TopCause]:
    """The causes of the errors that match, the most frequent first."""
    logs, groups = error_logs.c, error_groups.c
    counted = (
        select(
            logs.group_hash,
            func.count().label("errors"),
            func.count(logs.guild_id.distinct()).label("guilds"),
            func.count(logs.key_id.distinct()).label("keys"),
            func.min(logs.created_at).label("first_at"),
            func.max(logs.created_at).label("last_at"),
        )
        .where(*_conditions(wanted))
        .group_by(logs.group_hash)
        .subquery()
    )
    statement = (
        select(counted, groups.error_type, groups.category, groups.title, groups.status)
        .add_columns(groups.regressed_at)
        .join(error_groups, groups.group_hash == counted.c.group_hash)
        .order_by(counted.c.errors.desc(), counted.c.group_hash)
        .limit(min(wanted.limit, MAX_ROWS))
    )
    async with database.begin() as connection:
        result = await connection.execute(statement)
        return [TopCause(**row._mapping) for row in result]


async def spikes(
    database: Database, *, now: datetime, window: timedelta, factor: float
) -> list[Spike]:
    """The open causes whose last window has `factor` times the usual errors, the worst first.

    Usual is the mean per window of the day before; what has fewer than `MIN_SPIKE` errors is none.
    """
    logs, groups = error_logs.c, error_groups.c
    is_recent = logs.created_at >= now - window
    counted = (
        select(
            logs.group_hash,
            func.sum(case((is_recent, 1), else_=0)).label("recent"),
            func.count().label("total"),
        )
        .where(logs.created_at >= now - window - USUAL, logs.created_at < now)
        .group_by(logs.group_hash)
        .subquery()
    )
    statement = (
        select(groups.group_hash, groups.error_type, groups.category, groups.title)
        .add_columns(counted.c.recent, counted.c.total)
        .join(counted, groups.group_hash == counted.c.group_hash)
        .where(_is_heard(now), counted.c.recent >= MIN_SPIKE)
    )
    async with database.begin() as connection:
        rows = [dict(row._mapping) for row in await connection.execute(statement)]
    found = []
    for row in rows:
        recent, total = int(row.pop("recent")), int(row.pop("total"))
        usual = (total - recent) * (window / USUAL)
        if recent >= factor * usual:
            found.append(Spike(**row, errors=recent, usual=round(usual, 2)))
    return sorted(found, key=_deviation, reverse=True)


def _is_heard(now: datetime) -> ColumnElement[bool]:
    """Causes that may wake somebody: open ones, and those whose mute has ended."""
    groups = error_groups.c
    return or_(groups.status == "open", and_(groups.status == "muted", groups.muted_until <= now))


def _deviation(spike: Spike) -> float:
    """How far beyond chance: errors of one cause come about as a Poisson process does."""
    return (spike.errors - spike.usual) / math.sqrt(max(spike.usual, 1.0))


async def find_error(database: Database, part: str) -> list[ErrorRecord]:
    """The errors whose id is this, begins or ends with it: two at most, so that one is sure."""
    if len(part) < MIN_ID_CHARS or not part.replace("-", "").isalnum():
        return []
    ids = error_logs.c.id
    for matches in (ids == part, ids.startswith(part, autoescape=True), ids.endswith(part)):
        statement = select(error_logs).where(matches).order_by(ids).limit(2)
        async with database.begin() as connection:
            found = [_error(row) for row in await connection.execute(statement)]
        if found:
            return found
    return []


async def error_detail(database: Database, error: ErrorRecord) -> ErrorDetail:
    """An error with its cause and the history of its turn."""
    async with database.begin() as connection:
        group = error_groups.c.group_hash == error.group_hash
        row = (await connection.execute(select(error_groups).where(group))).first()
    turn: list[ErrorRecord] = []
    if error.turn_id is not None:
        turn = await list_errors(database, ErrorFilter(turn_id=error.turn_id, limit=MAX_ROWS))
    cause = CauseRecord(**row._mapping) if row is not None else None
    return ErrorDetail(error=error, cause=cause, turn=turn[::-1])


async def rates(
    database: Database, by: RateBy, *, since: datetime, guild_id: int | None = None
) -> list[Rate]:
    """Ended turns and failures by one of their facts, the most failures per turn first."""
    name = _RATE_COLUMNS[by]
    stats, failures = turn_stats.c, turn_failures.c
    hour = since.replace(minute=0, second=0, microsecond=0)
    turns = select(
        stats[name], func.sum(stats.turns), func.sum(stats.failed), func.sum(stats.cancelled)
    ).where(stats.bucket >= hour)
    failed = select(failures[name], func.count(), func.sum(failures.is_expected)).where(
        failures.created_at >= hour
    )
    if guild_id is not None:
        turns = turns.where(stats.guild_id == guild_id)
        failed = failed.where(failures.guild_id == guild_id)
    async with database.begin() as connection:
        ended = list(await connection.execute(turns.group_by(stats[name])))
        counted = list(await connection.execute(failed.group_by(failures[name])))
    found: dict[str, Rate] = {}
    for value, *numbers in ended:
        whole, lost, stopped = map(int, numbers)
        found[_named(value)] = Rate(
            value=_named(value), turns=whole, failed_turns=lost, cancelled=stopped
        )
    for value, attempts, expected in counted:
        old = found.get(_named(value)) or Rate(value=_named(value))
        found[old.value] = msgspec.structs.replace(
            old, failures=int(attempts) - int(expected), expected=int(expected)
        )
    return sorted(found.values(), key=lambda rate: (-(rate.per_1000 or 0.0), rate.value))


def _named(value: object) -> str:
    return str(value) if value else ""


async def count_errors(database: Database) -> int:
    """How many errors are stored."""
    statement: Select[Any] = select(func.count()).select_from(error_logs)
    async with database.begin() as connection:
        return int((await connection.execute(statement)).scalar_one())


def _conditions(wanted: ErrorFilter) -> list[ColumnElement[bool]]:
    logs = error_logs.c
    equal = {
        logs.category: wanted.category,
        logs.guild_id: wanted.guild_id,
        logs.channel_id: wanted.channel_id,
        logs.user_id: wanted.user_id,
        logs.provider: wanted.provider,
        logs.model: wanted.model,
        logs.key_id: wanted.key_id,
        logs.worker_id: wanted.worker_id,
        logs.turn_id: wanted.turn_id,
    }
    conditions = [column == value for column, value in equal.items() if value is not None]
    if wanted.since is not None:
        conditions.append(logs.created_at >= wanted.since)
    if wanted.until is not None:
        conditions.append(logs.created_at < wanted.until)
    if wanted.cause is not None:
        conditions.append(_is_cause(wanted.cause))
    if wanted.text is not None:
        conditions.append(logs.error_message.icontains(wanted.text, autoescape=True))
    if wanted.before is not None:
        moment, seq = wanted.before
        conditions.append(
            or_(logs.created_at < moment, and_(logs.created_at == moment, logs.seq < seq))
        )
    return conditions


def _is_cause(cause: str) -> ColumnElement[bool]:
    logs = error_logs.c
    if len(cause) == _HASH_CHARS:
        return logs.group_hash == cause
    return or_(logs.error_type == cause, logs.group_hash.startswith(cause, autoescape=True))


def _error(row: Row[Any]) -> ErrorRecord:
    values = dict(row._mapping)
    return ErrorRecord(**{**values, "retryable": bool(values["retryable"])})

"""Errors as rows: which match, one of them with everything around it.

Comes in: filters. Goes out: records of `error_logs`, newest first; every query has a limit and
walks an index. The CLI and the console ask here, so that both show the same.
"""

from datetime import datetime
from typing import Any, Final

import msgspec
from sqlalchemy import ColumnElement, Row, Select, Table, and_, func, or_, select

from ops.store.causes import MIN_HASH_CHARS
from ops.store.engine import Database
from ops.store.tables import error_groups, error_logs

MAX_ROWS: Final = 1_000
"""Rows of one answer; more is an export, which pages."""
MIN_ID_CHARS: Final = 4
"""The shortest part of an id that a person may give."""
_HASH_CHARS: Final = 32
ATTRIBUTES: Final = (
    "category",
    "guild_id",
    "user_id",
    "provider",
    "model",
    "key_id",
    "turn_id",
)
"""What `error_logs` and `turn_failures` both know of a failure, and a filter may name."""


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


class ErrorDetail(msgspec.Struct, frozen=True, kw_only=True):
    """An error with its cause and everything else that failed in the same turn, in order."""

    error: ErrorRecord
    cause: CauseRecord | None
    turn: list[ErrorRecord]


async def list_errors(database: Database, wanted: ErrorFilter) -> list[ErrorRecord]:
    """The errors that match, the newest first."""
    statement = (
        select(error_logs)
        .where(*conditions(wanted))
        .order_by(error_logs.c.created_at.desc(), error_logs.c.seq.desc())
        .limit(min(wanted.limit, MAX_ROWS))
    )
    async with database.begin() as connection:
        result = await connection.execute(statement)
        return [_error(row) for row in result]


async def find_error(database: Database, part: str) -> list[ErrorRecord]:
    """The errors whose id is this, begins or ends with it: two at most, so that one is sure."""
    if len(part) < MIN_ID_CHARS or not part.replace("-", "").isalnum():
        return []
    ids = error_logs.c.id
    for matches in (ids == part, ids.startswith(part, autoescape=True), ids.endswith(part)):
        # The ids alone first: they stand in an index, which a part in the middle walks through.
        names = select(ids).where(matches).order_by(ids).limit(2)
        async with database.begin() as connection:
            known = list((await connection.execute(names)).scalars())
            whole = select(error_logs).where(ids.in_(known)).order_by(ids)
            if known:
                return [_error(row) for row in await connection.execute(whole)]
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


async def count_errors(database: Database) -> int:
    """How many errors are stored."""
    statement: Select[Any] = select(func.count()).select_from(error_logs)
    async with database.begin() as connection:
        return int((await connection.execute(statement)).scalar_one())


def conditions(wanted: ErrorFilter) -> list[ColumnElement[bool]]:
    """What a row of `error_logs` must fulfil."""
    logs = error_logs.c
    conditions = conditions_of(error_logs, wanted, *ATTRIBUTES, "channel_id", "worker_id")
    if wanted.text is not None:
        conditions.append(logs.error_message.icontains(wanted.text, autoescape=True))
    if wanted.before is not None:
        moment, seq = wanted.before
        conditions.append(
            or_(logs.created_at < moment, and_(logs.created_at == moment, logs.seq < seq))
        )
    return conditions


def conditions_of(table: Table, wanted: ErrorFilter, *names: str) -> list[ColumnElement[bool]]:
    """What a row must fulfil in time and cause, and in the columns of these names."""
    columns = table.c
    values = {name: getattr(wanted, name) for name in names}
    found = [columns[name] == value for name, value in values.items() if value is not None]
    if wanted.since is not None:
        found.append(columns.created_at >= wanted.since)
    if wanted.until is not None:
        found.append(columns.created_at < wanted.until)
    if wanted.cause is not None:
        found.append(is_cause(table, wanted.cause))
    return found


def is_cause(table: Table, cause: str) -> ColumnElement[bool]:
    """Whether a row is of this cause: its word, its hash, or enough of the beginning of that."""
    logs = table.c
    if len(cause) == _HASH_CHARS:
        whole: ColumnElement[bool] = logs.group_hash == cause
        return whole
    if len(cause) < MIN_HASH_CHARS:
        word: ColumnElement[bool] = logs.error_type == cause
        return word
    return or_(logs.error_type == cause, logs.group_hash.startswith(cause, autoescape=True))


def _error(row: Row[Any]) -> ErrorRecord:
    values = dict(row._mapping)
    return ErrorRecord(**{**values, "retryable": bool(values["retryable"])})

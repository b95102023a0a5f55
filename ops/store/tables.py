"""The tables of the operators' store: one row per error that needs somebody, one per cause.

Comes in: nothing. Goes out: SQLAlchemy tables, the one place where queries get their names from.
`migrations/` builds them; a test compares both. `error_logs` has no foreign keys: its rows outlive
what they mention.
"""

from typing import Final

from sqlalchemy import CheckConstraint, Column, Index, Integer, MetaData, Table, Text, text

from ops.store.types import Facts, Moment, Real, SmallInt, WideInt

SCHEMA: Final = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_name)s_key",
        "ck": "%(table_name)s_%(constraint_name)s",
    }
)

error_logs: Final = Table(
    "error_logs",
    SCHEMA,
    # A number of our own: a random key as the primary one doubled the file and made the top causes
    # ten times slower on SQLite. `id` is the reporter's, and makes a repeated delivery harmless.
    Column("seq", WideInt, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("created_at", Moment, nullable=False),
    Column("received_at", Moment, nullable=False),
    Column("severity", SmallInt, nullable=False),
    Column("category", Text, nullable=False),
    Column("error_type", Text, nullable=False),
    Column("stage", Text, nullable=False),
    Column("fault", Text, nullable=False),
    Column("group_hash", Text, nullable=False),
    Column("error_message", Text, nullable=False),
    Column("stack_trace", Text),
    Column("http_status", SmallInt),
    Column("provider_code", Text),
    Column("retryable", SmallInt, nullable=False, server_default=text("0")),
    Column("turn_id", Text),
    Column("attempt", Integer),
    Column("guild_id", WideInt),
    Column("channel_id", WideInt),
    Column("user_id", WideInt),
    Column("provider", Text),
    Column("model", Text),
    Column("serving_provider", Text),
    Column("endpoint_host", Text),
    Column("credential_source", Text),
    Column("key_id", Text),
    Column("worker_id", Text, nullable=False, server_default=text("''")),
    Column("worker_version", Text, nullable=False, server_default=text("''")),
    Column("elapsed_ms", WideInt),
    Column("chunks", WideInt),
    Column("segments_sent", WideInt),
    Column("notice", Text, nullable=False, server_default=text("'none'")),
    Column("error_metadata", Facts, nullable=False, server_default=text("'{}'")),
    Column("schema_version", SmallInt, nullable=False, server_default=text("1")),
    CheckConstraint("severity IN (30, 40, 50)", name="severity_check"),
    CheckConstraint("notice IN ('shown', 'suppressed', 'none')", name="notice_check"),
    CheckConstraint("length(group_hash) = 32", name="group_hash_check"),
    sqlite_strict=True,
)
_logs = error_logs.c
Index("error_logs_created", _logs.created_at)
Index("error_logs_group", _logs.group_hash, _logs.created_at)
Index("error_logs_model", _logs.provider, _logs.model, _logs.created_at)
Index("error_logs_worker", _logs.worker_version, _logs.worker_id, _logs.created_at)
_given_guild, _given_key, _given_turn = (
    column.is_not(None) for column in (_logs.guild_id, _logs.key_id, _logs.turn_id)
)
Index(
    "error_logs_guild",
    _logs.guild_id,
    _logs.created_at,
    postgresql_where=_given_guild,
    sqlite_where=_given_guild,
)
Index(
    "error_logs_key",
    _logs.key_id,
    _logs.created_at,
    postgresql_where=_given_key,
    sqlite_where=_given_key,
)
Index("error_logs_turn", _logs.turn_id, postgresql_where=_given_turn, sqlite_where=_given_turn)

error_groups: Final = Table(
    "error_groups",
    SCHEMA,
    Column("group_hash", Text, primary_key=True),
    Column("group_version", SmallInt, nullable=False),
    Column("title", Text, nullable=False),
    Column("category", Text, nullable=False),
    Column("error_type", Text, nullable=False),
    Column("status", Text, nullable=False, server_default=text("'open'")),
    Column("muted_until", Moment),
    Column("resolved_in", Text),
    Column("note", Text),
    Column("first_seen", Moment, nullable=False),
    Column("last_seen", Moment, nullable=False),
    Column("first_version", Text, nullable=False),
    Column("last_version", Text, nullable=False),
    Column("seen_count", WideInt, nullable=False, server_default=text("0")),
    Column("resolved_at", Moment),
    Column("regressed_at", Moment),
    CheckConstraint("status IN ('open', 'muted', 'resolved')", name="status_check"),
    sqlite_strict=True,
)
Index("error_groups_last_seen", error_groups.c.status, error_groups.c.last_seen)

error_group_aliases: Final = Table(
    "error_group_aliases",
    SCHEMA,
    # Causes that an operator found to be one: what comes with the first hash counts for the second.
    Column("from_hash", Text, primary_key=True),
    Column("to_hash", Text, nullable=False),
    sqlite_strict=True,
)

turn_failures: Final = Table(
    "turn_failures",
    SCHEMA,
    # Every failed attempt, expected or not, in a hundred bytes: what rates and spikes count.
    Column("seq", WideInt, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("created_at", Moment, nullable=False),
    Column("category", Text, nullable=False),
    Column("error_type", Text, nullable=False),
    Column("is_expected", SmallInt, nullable=False),
    Column("group_hash", Text, nullable=False),
    Column("turn_id", Text),
    Column("attempt", Integer),
    Column("guild_id", WideInt),
    Column("user_id", WideInt),
    Column("provider", Text),
    Column("model", Text),
    Column("key_id", Text),
    Column("credential_source", Text),
    Column("worker_version", Text, nullable=False, server_default=text("''")),
    sqlite_strict=True,
)
Index("turn_failures_created", turn_failures.c.created_at)
Index("turn_failures_cause", turn_failures.c.error_type, turn_failures.c.created_at)
Index("turn_failures_guild", turn_failures.c.guild_id, turn_failures.c.created_at)
Index("turn_failures_turn", turn_failures.c.turn_id)
Index("turn_failures_group", turn_failures.c.group_hash, turn_failures.c.created_at)

turn_stats: Final = Table(
    "turn_stats",
    SCHEMA,
    # The denominators of rates: ended turns by hour. 0 and '' stand for what a turn did not have.
    Column("bucket", Moment, primary_key=True),
    Column("guild_id", WideInt, primary_key=True, autoincrement=False),
    Column("provider", Text, primary_key=True),
    Column("model", Text, primary_key=True),
    Column("key_id", Text, primary_key=True),
    Column("worker_version", Text, primary_key=True),
    Column("turns", WideInt, nullable=False, server_default=text("0")),
    Column("failed", WideInt, nullable=False, server_default=text("0")),
    Column("cancelled", WideInt, nullable=False, server_default=text("0")),
    sqlite_strict=True,
)

usage_ledger: Final = Table(
    "usage_ledger",
    SCHEMA,
    # Tokens and cost, null where the provider did not say: a count is never made up.
    Column("seq", WideInt, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, unique=True),
    Column("created_at", Moment, nullable=False),
    Column("turn_id", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("guild_id", WideInt),
    Column("user_id", WideInt, nullable=False),
    Column("provider", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("serving_provider", Text),
    Column("key_id", Text),
    Column("credential_source", Text, nullable=False),
    Column("input_tokens", WideInt),
    Column("output_tokens", WideInt),
    Column("reasoning_tokens", WideInt),
    Column("cache_read_tokens", WideInt),
    Column("cache_write_tokens", WideInt),
    Column("cost", Real),
    # reported, priced; null in rows of before and where the cost is unknown.
    Column("cost_source", Text),
    sqlite_strict=True,
)
# With all that sums of a month look at: from the index alone they take half the time.
Index(
    "usage_ledger_created",
    *(
        usage_ledger.c[name]
        for name in (
            "created_at",
            "state",
            "model",
            "provider",
            "guild_id",
            "user_id",
            "key_id",
            "credential_source",
            "input_tokens",
            "output_tokens",
            "reasoning_tokens",
            "cache_read_tokens",
            "cache_write_tokens",
            "cost",
            "cost_source",
        )
    ),
)
Index("usage_ledger_guild", usage_ledger.c.guild_id, usage_ledger.c.created_at)
Index("usage_ledger_user", usage_ledger.c.user_id, usage_ledger.c.created_at)
Index(
    "usage_ledger_model", usage_ledger.c.provider, usage_ledger.c.model, usage_ledger.c.created_at
)

redis_mirror: Final = Table(
    "redis_mirror",
    SCHEMA,
    # What Redis alone would hold for good: settings, personas, sealed credentials. Values are as
    # Redis has them, in base64; `field` is '' where the key is no hash.
    Column("key", Text, primary_key=True),
    Column("field", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("changed_at", Moment, nullable=False),
    sqlite_strict=True,
)

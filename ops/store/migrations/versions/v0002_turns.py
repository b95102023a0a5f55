"""Builds turn_failures, turn_stats and usage_ledger, and lets resolved causes come back."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from ops.store.types import Moment, Real, SmallInt, WideInt

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

SUMMED = [
    "created_at",
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
]
"""What sums of the ledger look at."""
INDEXES = (
    ("turn_failures_created", "turn_failures", ["created_at"]),
    ("turn_failures_cause", "turn_failures", ["error_type", "created_at"]),
    ("turn_failures_guild", "turn_failures", ["guild_id", "created_at"]),
    ("usage_ledger_created", "usage_ledger", SUMMED),
    ("usage_ledger_guild", "usage_ledger", ["guild_id", "created_at"]),
    ("usage_ledger_user", "usage_ledger", ["user_id", "created_at"]),
    ("usage_ledger_model", "usage_ledger", ["provider", "model", "created_at"]),
)
"""Name, table and columns."""


def upgrade() -> None:
    """Makes the tables and their indexes; adds two moments to each cause."""
    op.add_column("error_groups", sa.Column("resolved_at", Moment))
    op.add_column("error_groups", sa.Column("regressed_at", Moment))
    _create_turn_failures()
    _create_turn_stats()
    _create_usage_ledger()
    for name, table, columns in INDEXES:
        op.create_index(name, table, columns)


def _create_turn_failures() -> None:
    op.create_table(
        "turn_failures",
        sa.Column("seq", WideInt, autoincrement=True, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("category", sa.Text, nullable=False),
        sa.Column("error_type", sa.Text, nullable=False),
        sa.Column("is_expected", SmallInt, nullable=False),
        sa.Column("group_hash", sa.Text, nullable=False),
        sa.Column("turn_id", sa.Text),
        sa.Column("attempt", sa.Integer),
        sa.Column("guild_id", WideInt),
        sa.Column("user_id", WideInt),
        sa.Column("provider", sa.Text),
        sa.Column("model", sa.Text),
        sa.Column("key_id", sa.Text),
        sa.Column("credential_source", sa.Text),
        sa.Column("worker_version", sa.Text, nullable=False, server_default=sa.text("''")),
        sa.PrimaryKeyConstraint("seq", name=op.f("turn_failures_pkey")),
        sa.UniqueConstraint("id", name=op.f("turn_failures_id_key")),
        sqlite_strict=True,
    )


def _create_turn_stats() -> None:
    op.create_table(
        "turn_stats",
        sa.Column("bucket", Moment, nullable=False),
        sa.Column("guild_id", WideInt, nullable=False),
        sa.Column("provider", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("key_id", sa.Text, nullable=False),
        sa.Column("worker_version", sa.Text, nullable=False),
        sa.Column("turns", WideInt, nullable=False, server_default=sa.text("0")),
        sa.Column("failed", WideInt, nullable=False, server_default=sa.text("0")),
        sa.Column("cancelled", WideInt, nullable=False, server_default=sa.text("0")),
        sa.PrimaryKeyConstraint(
            "bucket",
            "guild_id",
            "provider",
            "model",
            "key_id",
            "worker_version",
            name=op.f("turn_stats_pkey"),
        ),
        sqlite_strict=True,
    )


def _create_usage_ledger() -> None:
    op.create_table(
        "usage_ledger",
        sa.Column("seq", WideInt, autoincrement=True, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("turn_id", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("guild_id", WideInt),
        sa.Column("user_id", WideInt, nullable=False),
        sa.Column("provider", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("serving_provider", sa.Text),
        sa.Column("key_id", sa.Text),
        sa.Column("credential_source", sa.Text, nullable=False),
        sa.Column("input_tokens", WideInt),
        sa.Column("output_tokens", WideInt),
        sa.Column("reasoning_tokens", WideInt),
        sa.Column("cache_read_tokens", WideInt),
        sa.Column("cache_write_tokens", WideInt),
        sa.Column("cost", Real),
        sa.PrimaryKeyConstraint("seq", name=op.f("usage_ledger_pkey")),
        sa.UniqueConstraint("id", name=op.f("usage_ledger_id_key")),
        sqlite_strict=True,
    )

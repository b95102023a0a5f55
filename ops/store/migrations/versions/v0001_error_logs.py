"""Builds error_logs and error_groups."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from ops.store.types import Facts, Moment, SmallInt, WideInt

revision: str = "0001"
down_revision: str | None = None
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

INDEXES = (
    ("error_logs_created", "error_logs", ["created_at"], None),
    ("error_logs_group", "error_logs", ["group_hash", "created_at"], None),
    ("error_logs_model", "error_logs", ["provider", "model", "created_at"], None),
    ("error_logs_worker", "error_logs", ["worker_version", "worker_id", "created_at"], None),
    ("error_logs_guild", "error_logs", ["guild_id", "created_at"], "guild_id IS NOT NULL"),
    ("error_logs_key", "error_logs", ["key_id", "created_at"], "key_id IS NOT NULL"),
    ("error_logs_turn", "error_logs", ["turn_id"], "turn_id IS NOT NULL"),
    ("error_groups_last_seen", "error_groups", ["status", "last_seen"], None),
)
"""Name, table, columns, and the rows that it holds (None: all)."""


def upgrade() -> None:
    """Makes the tables and their indexes."""
    _create_error_logs()
    _create_error_groups()
    for name, table, columns, where in INDEXES:
        condition = sa.text(where) if where else None
        op.create_index(name, table, columns, postgresql_where=condition, sqlite_where=condition)


def _create_error_logs() -> None:
    op.create_table(
        "error_logs",
        sa.Column("seq", WideInt, autoincrement=True, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("received_at", Moment, nullable=False),
        sa.Column("severity", SmallInt, nullable=False),
        sa.Column("category", sa.Text, nullable=False),
        sa.Column("error_type", sa.Text, nullable=False),
        sa.Column("stage", sa.Text, nullable=False),
        sa.Column("fault", sa.Text, nullable=False),
        sa.Column("group_hash", sa.Text, nullable=False),
        sa.Column("error_message", sa.Text, nullable=False),
        sa.Column("stack_trace", sa.Text),
        sa.Column("http_status", SmallInt),
        sa.Column("provider_code", sa.Text),
        sa.Column("retryable", SmallInt, nullable=False, server_default=sa.text("0")),
        sa.Column("turn_id", sa.Text),
        sa.Column("attempt", sa.Integer),
        sa.Column("guild_id", WideInt),
        sa.Column("channel_id", WideInt),
        sa.Column("user_id", WideInt),
        sa.Column("provider", sa.Text),
        sa.Column("model", sa.Text),
        sa.Column("serving_provider", sa.Text),
        sa.Column("endpoint_host", sa.Text),
        sa.Column("credential_source", sa.Text),
        sa.Column("key_id", sa.Text),
        sa.Column("worker_id", sa.Text, nullable=False, server_default=sa.text("''")),
        sa.Column("worker_version", sa.Text, nullable=False, server_default=sa.text("''")),
        sa.Column("elapsed_ms", WideInt),
        sa.Column("chunks", WideInt),
        sa.Column("segments_sent", WideInt),
        sa.Column("notice", sa.Text, nullable=False, server_default=sa.text("'none'")),
        sa.Column("error_metadata", Facts, nullable=False, server_default=sa.text("'{}'")),
        sa.Column("schema_version", SmallInt, nullable=False, server_default=sa.text("1")),
        sa.CheckConstraint("severity IN (30, 40, 50)", name=op.f("error_logs_severity_check")),
        sa.CheckConstraint(
            "notice IN ('shown', 'suppressed', 'none')", name=op.f("error_logs_notice_check")
        ),
        sa.CheckConstraint("length(group_hash) = 32", name=op.f("error_logs_group_hash_check")),
        sa.PrimaryKeyConstraint("seq", name=op.f("error_logs_pkey")),
        sa.UniqueConstraint("id", name=op.f("error_logs_id_key")),
        sqlite_strict=True,
    )


def _create_error_groups() -> None:
    op.create_table(
        "error_groups",
        sa.Column("group_hash", sa.Text, nullable=False),
        sa.Column("group_version", SmallInt, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("category", sa.Text, nullable=False),
        sa.Column("error_type", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False, server_default=sa.text("'open'")),
        sa.Column("muted_until", Moment),
        sa.Column("resolved_in", sa.Text),
        sa.Column("note", sa.Text),
        sa.Column("first_seen", Moment, nullable=False),
        sa.Column("last_seen", Moment, nullable=False),
        sa.Column("first_version", sa.Text, nullable=False),
        sa.Column("last_version", sa.Text, nullable=False),
        sa.Column("seen_count", WideInt, nullable=False, server_default=sa.text("0")),
        sa.CheckConstraint(
            "status IN ('open', 'muted', 'resolved')", name=op.f("error_groups_status_check")
        ),
        sa.PrimaryKeyConstraint("group_hash", name=op.f("error_groups_pkey")),
        sqlite_strict=True,
    )

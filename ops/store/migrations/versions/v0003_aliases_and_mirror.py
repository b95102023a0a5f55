"""Builds error_group_aliases and redis_mirror, and finds failures by cause and turn."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from ops.store.types import Moment

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Makes both tables and the indexes."""
    op.create_table(
        "error_group_aliases",
        sa.Column("from_hash", sa.Text, nullable=False),
        sa.Column("to_hash", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("from_hash", name=op.f("error_group_aliases_pkey")),
        sqlite_strict=True,
    )
    op.create_table(
        "redis_mirror",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("field", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("changed_at", Moment, nullable=False),
        sa.PrimaryKeyConstraint("key", "field", name=op.f("redis_mirror_pkey")),
        sqlite_strict=True,
    )
    op.create_index("turn_failures_turn", "turn_failures", ["turn_id"])
    op.create_index("turn_failures_group", "turn_failures", ["group_hash", "created_at"])

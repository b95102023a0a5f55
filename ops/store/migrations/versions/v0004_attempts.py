"""Tells in the ledger how a cost is known, and sums attempts that were superseded apart."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

SUMMED = [
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
]
"""What sums of the ledger look at."""


def upgrade() -> None:
    """Adds the column, and makes the index of sums anew with it and the state."""
    op.add_column("usage_ledger", sa.Column("cost_source", sa.Text))
    op.drop_index("usage_ledger_created", "usage_ledger")
    op.create_index("usage_ledger_created", "usage_ledger", SUMMED)

"""Brings a database to this version's schema.

Comes in: a `Database`. Goes out: revisions, before and after. Safe to run in several processes at
once: one works, the others wait and find nothing to do. Downgrades do not exist; a release reads
the schema before it.
"""

from typing import Final

import msgspec
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from ops.store.engine import Database

LOCK: Final = 7_865_117
"""The number of our advisory lock on PostgreSQL; SQLite's write lock is enough there."""


class SchemaState(msgspec.Struct, frozen=True, kw_only=True):
    """Where a database stands, and where this version wants it. None is an empty database."""

    current: str | None
    wanted: str

    @property
    def is_current(self) -> bool:
        """Whether there is nothing to do."""
        return self.current == self.wanted


async def schema_state(database: Database) -> SchemaState:
    """Where the database stands."""
    async with database.begin() as connection:
        return await connection.run_sync(_state)


async def upgrade(database: Database) -> SchemaState:
    """Runs the missing migrations in one transaction. Returns where the database stood before."""
    async with database.begin() as connection:
        return await connection.run_sync(_upgrade)


def _upgrade(connection: Connection) -> SchemaState:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
    before = _state(connection)
    if not before.is_current:
        command.upgrade(_config(connection), "head")
    return before


def _state(connection: Connection) -> SchemaState:
    wanted = ScriptDirectory.from_config(_config(connection)).get_current_head()
    current = MigrationContext.configure(connection).get_current_revision()
    return SchemaState(current=current, wanted=str(wanted))


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", "ops.store:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config

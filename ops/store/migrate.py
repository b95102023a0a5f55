"""Brings a database to this version's schema.

Comes in: a `Database`. Goes out: revisions, before and after. Safe to run in several processes at
once: one works, the others wait and find nothing to do. Downgrades do not exist: a release works on
the schema of the one after it, and leaves it as it is.
"""

import contextlib
from collections.abc import Iterator
from typing import Final

import msgspec
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, text

from ops.store.engine import Database
from shared.errors import StoreUnavailable

LOCK: Final = 7_865_117
"""The number of our advisory lock on PostgreSQL; SQLite's write lock is enough there."""


class SchemaState(msgspec.Struct, frozen=True, kw_only=True):
    """Where a database stands, and where this version wants it. None is an empty database."""

    current: str | None
    wanted: str
    is_newer: bool = False
    """It has a revision that this version does not know: a newer one made it."""

    @property
    def is_current(self) -> bool:
        """Whether it is just as this version wants it."""
        return self.current == self.wanted

    @property
    def is_due(self) -> bool:
        """Whether an upgrade has anything to do."""
        return not self.is_current and not self.is_newer


async def schema_state(database: Database) -> SchemaState:
    """Where the database stands.

    Raises:
        StoreUnavailable: nobody answers, or what is written there of revisions makes no sense.
    """
    async with database.begin() as connection:
        with _translated(database.name):
            return await connection.run_sync(_state)


async def upgrade(database: Database) -> SchemaState:
    """Runs the missing migrations in one transaction, none where a newer version was here.

    Returns:
        Where the database stood before.

    Raises:
        StoreUnavailable: as `schema_state`.
    """
    async with database.begin() as connection:
        with _translated(database.name):
            return await connection.run_sync(_upgrade)


def _upgrade(connection: Connection) -> SchemaState:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
    before = _state(connection)
    if before.is_due:
        command.upgrade(_config(connection), "head")
    return before


def _state(connection: Connection) -> SchemaState:
    scripts = ScriptDirectory.from_config(_config(connection))
    current = MigrationContext.configure(connection).get_current_revision()
    known = {script.revision for script in scripts.walk_revisions()}
    return SchemaState(
        current=current,
        wanted=str(scripts.get_current_head()),
        is_newer=current is not None and current not in known,
    )


@contextlib.contextmanager
def _translated(name: str) -> Iterator[None]:
    try:
        yield
    except CommandError as exc:
        raise StoreUnavailable(f"the revisions of {name} cannot be read: {exc}") from exc


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", "ops.store:migrations")
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config

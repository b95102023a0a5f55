"""Migrations: both databases end with the tables that the queries expect."""

import asyncio
import stat
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, text

from ops.store.engine import Database, database_url
from ops.store.migrate import schema_state, upgrade
from ops.store.tables import SCHEMA
from shared.errors import StoreUnavailable


async def test_an_empty_database_is_brought_up_once(empty_database: Database):
    before = await upgrade(empty_database)
    assert before.current is None
    assert not before.is_current
    assert (await upgrade(empty_database)).is_current
    assert (await schema_state(empty_database)).is_current


async def test_the_migrated_schema_is_the_one_that_the_queries_use(database: Database):
    def differences(connection: Connection) -> list[object]:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return list(compare_metadata(context, SCHEMA))

    async with database.begin() as connection:
        assert await connection.run_sync(differences) == []


async def test_two_processes_may_upgrade_at_once(empty_url: str, tmp_path: Path):
    databases = [Database(database_url(empty_url, tmp_path)) for _ in range(6)]
    async with asyncio.TaskGroup() as group:
        for database in databases:
            group.create_task(upgrade(database), name="upgrade")
    for database in databases:
        assert (await schema_state(database)).is_current
        await database.close()


async def raised(database: Database, *revisions: str) -> None:
    async with database.begin() as connection:
        await connection.execute(text("DELETE FROM alembic_version"))
        for revision in revisions:
            await connection.execute(
                text("INSERT INTO alembic_version VALUES (:revision)"), {"revision": revision}
            )


async def test_a_schema_of_a_newer_version_is_left_as_it_is(database: Database):
    await raised(database, "9999")
    for state in (await upgrade(database), await schema_state(database)):
        assert (state.current, state.is_newer) == ("9999", True)
        assert not state.is_current
        assert not state.is_due


async def test_revisions_that_make_no_sense_are_said_in_our_words(database: Database):
    await raised(database, "0001", "0002")
    with pytest.raises(StoreUnavailable, match="revisions of"):
        await upgrade(database)


async def test_a_query_before_the_migration_says_what_to_run(empty_database: Database):
    with pytest.raises(StoreUnavailable, match="turnfleet db upgrade"):
        async with empty_database.begin() as connection:
            await connection.execute(text("SELECT * FROM error_logs"))


async def test_sqlite_is_strict_and_shrinks(tmp_path: Path):
    database = Database(database_url(f"sqlite:///{tmp_path}/s.db", tmp_path))
    await upgrade(database)
    async with database.begin() as connection:
        strict = await connection.execute(
            text("SELECT name FROM pragma_table_list WHERE strict AND name LIKE 'error%'")
        )
        assert set(strict.scalars()) == {"error_logs", "error_groups", "error_group_aliases"}
        vacuum = await connection.execute(text("SELECT auto_vacuum FROM pragma_auto_vacuum"))
        assert vacuum.scalar_one() == 2
        journal = await connection.execute(text("SELECT journal_mode FROM pragma_journal_mode"))
        assert journal.scalar_one() == "wal"
    await database.close()


async def test_an_sqlite_file_is_read_by_its_owner_alone(tmp_path: Path):
    file = tmp_path / "s.db"
    database = Database(database_url(f"sqlite:///{file}", tmp_path))
    await upgrade(database)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"s.db": 0o600, "s.db-wal": 0o600, "s.db-shm": 0o600}
    await database.close()


async def test_the_mode_of_an_sqlite_file_that_stands_is_its_owners_affair(tmp_path: Path):
    file = tmp_path / "s.db"
    file.touch()
    file.chmod(0o640)
    database = Database(database_url(f"sqlite:///{file}", tmp_path))
    await upgrade(database)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    await database.close()

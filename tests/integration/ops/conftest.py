"""Databases of both kinds for the operators' tests: everything runs on each of them."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ops.store.engine import Database, database_url
from ops.store.migrate import upgrade
from tests.support.postgres import fresh_database, postgres_url


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL server, one for all tests."""
    with postgres_url() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database without tables."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/store.db"
        return
    with fresh_database(request.getfixturevalue("postgres")) as url:
        yield url


@pytest.fixture
async def empty_database(empty_url: str, tmp_path: Path) -> AsyncIterator[Database]:
    """A database without tables."""
    database = Database(database_url(empty_url, tmp_path))
    yield database
    await database.close()


@pytest.fixture
async def database(empty_database: Database) -> Database:
    """A database with this version's tables."""
    await upgrade(empty_database)
    return empty_database

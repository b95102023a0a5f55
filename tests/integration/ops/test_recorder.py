"""The recorder over real servers: every report arrives exactly once, whatever dies or is away."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from redis.asyncio import Redis
from sqlalchemy import func, select

from ops.recorder import Pace, Recorder
from ops.store.engine import Database, database_url
from ops.store.errors import write_reports
from ops.store.migrate import upgrade
from ops.store.tables import error_groups, error_logs
from shared.edges.redis import connect
from shared.edges.reporter import Reporter, stream_sender
from shared.edges.spool import Spool
from shared.edges.streams import GroupReader
from shared.failures import ErrorReport, Severity
from shared.keys import RECORDER_GROUP, Keys
from shared.wire import encode_json
from tests.support.postgres import running_postgres
from tests.support.reports import a_report
from tests.support.servers import RedisServer, running_server

HASTY = Pace(
    read_block_s=0.02,
    claim_every_s=0.02,
    claim_idle_ms=20,
    first_pause_s=0.02,
    longest_pause_s=0.1,
)


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


@pytest.fixture
def keys() -> Keys:
    return Keys(f"t{secrets.token_hex(4)}")


class Bench:
    """A stream, a database, and recorders between them."""

    def __init__(self, url: str, keys: Keys, database: Database) -> None:
        self.keys = keys
        self.database = database
        self.redis: Redis = connect(url)
        self.blocking: Redis = connect(url, blocking=True)

    def recorder(self, name: str = "r1", write: object = None, pace: Pace = HASTY) -> Recorder:
        reader = GroupReader(
            self.redis,
            self.blocking,
            stream=self.keys.errors,
            group=RECORDER_GROUP,
            consumer=name,
        )

        async def store(reports: Sequence[ErrorReport]) -> int:
            return await write_reports(self.database, reports, datetime.now(UTC))

        async def prepare() -> None:
            await upgrade(self.database)

        return Recorder(
            reader,
            write or store,  # type: ignore[arg-type]  # a test's own writer
            prepare,
            buried=self.keys.buried,
            pace=pace,
        )

    async def add(self, *reports: ErrorReport) -> None:
        send = stream_sender(self.redis, self.keys)
        for report in reports:
            await send(encode_json(report))

    async def add_raw(self, fields: dict[str, bytes]) -> None:
        await self.redis.xadd(self.keys.errors, fields)  # type: ignore[arg-type]  # bytes are taken

    async def left(self) -> int:
        return int(await self.redis.xlen(self.keys.errors))

    async def rows(self) -> int:
        async with self.database.begin() as connection:
            result = await connection.execute(select(func.count()).select_from(error_logs))
            return int(result.scalar_one())

    async def seen(self) -> int:
        async with self.database.begin() as connection:
            result = await connection.execute(select(func.sum(error_groups.c.seen_count)))
            return int(result.scalar_one() or 0)

    async def run_until(self, is_done: Callable[[], Awaitable[bool]], *recorders: Recorder) -> None:
        stop = asyncio.Event()
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            for recorder in recorders:
                group.create_task(recorder.run(stop), name="recorder")
            while not await is_done():
                await asyncio.sleep(0.01)
            stop.set()

    async def drain(self, *recorders: Recorder) -> None:
        async def is_empty() -> bool:
            return await self.left() == 0

        await self.run_until(is_empty, *recorders)


@pytest.fixture
async def bench(server: RedisServer, keys: Keys, empty_database: Database) -> AsyncIterator[Bench]:
    bench = Bench(server.url, keys, empty_database)
    yield bench
    await bench.redis.aclose()
    await bench.blocking.aclose()


async def test_reports_become_rows_and_leave_the_stream(bench: Bench):
    await bench.add(*(a_report() for _ in range(450)), a_report(severity=Severity.WARNING))
    recorder = bench.recorder()
    await bench.drain(recorder)
    assert await bench.rows() == 450
    assert (recorder.written, recorder.buried) == (450, 0)
    assert await bench.redis.exists(bench.keys.buried) == 0


async def test_a_delivery_after_a_lost_acknowledgement_changes_nothing(bench: Bench):
    reports = [a_report() for _ in range(10)]
    await bench.add(*reports)
    await bench.drain(bench.recorder())
    await bench.add(*reports)
    await bench.drain(bench.recorder())
    assert await bench.rows() == await bench.seen() == 10


async def test_two_recorders_share_the_work(bench: Bench):
    await bench.add(*(a_report(provider=f"p{number % 5}") for number in range(1_000)))
    first, second = bench.recorder("r1"), bench.recorder("r2")
    await bench.drain(first, second)
    assert await bench.rows() == await bench.seen() == 1_000
    assert first.written + second.written == 1_000


@pytest.mark.parametrize(
    "poison",
    [
        pytest.param({"v": b"\x80\x04pickle"}, id="pickle"),
        pytest.param({"v": b'{"id":"cut'}, id="cut_json"),
        pytest.param({"v": b'{"id":1}'}, id="wrong_types"),
        pytest.param({"v": b'{"id":"\xed\xa0\x80"}'}, id="surrogate_bytes"),
        pytest.param({"other": b"x"}, id="no_value"),
        pytest.param({"v": b'{"id":' + b"[" * 5_000 + b"]" * 5_000 + b"}"}, id="too_deep"),
        pytest.param({"t": b'{"new":' + b"[" * 5_000 + b"]" * 5_000 + b"}"}, id="deep_summary"),
        pytest.param({"v": encode_json(a_report(guild_id=2**63))}, id="number_too_large"),
    ],
)
async def test_one_poisoned_entry_is_buried_and_the_others_are_stored(
    bench: Bench, poison: dict[str, bytes]
):
    await bench.add(*(a_report() for _ in range(120)))
    await bench.add_raw(poison)
    await bench.add(*(a_report() for _ in range(79)))
    recorder = bench.recorder()
    await bench.drain(recorder)
    assert await bench.rows() == 199
    assert recorder.buried == 1
    ((_, kept),) = await bench.redis.xrange(bench.keys.buried)
    assert kept[b"reason"]
    assert [kept[name.encode()] for name in poison] == list(poison.values())


async def test_reports_of_a_killed_recorder_are_taken_over(bench: Bench):
    await bench.add(*(a_report() for _ in range(30)))
    has_read = asyncio.Event()

    async def hang(_reports: Sequence[ErrorReport]) -> int:
        has_read.set()
        await asyncio.Event().wait()
        return 0

    doomed = asyncio.create_task(bench.recorder("doomed", hang).run(asyncio.Event()), name="doomed")
    await has_read.wait()
    doomed.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await doomed
    await bench.drain(bench.recorder("heir"))
    assert await bench.rows() == 30


async def test_a_recorder_that_comes_back_begins_with_what_it_had(bench: Bench):
    await bench.add(a_report())
    reader = GroupReader(
        bench.redis, bench.blocking, stream=bench.keys.errors, group=RECORDER_GROUP, consumer="r1"
    )
    assert len(await reader.read(block_s=0.1)) == 1
    never = Pace(read_block_s=0.02, claim_idle_ms=3_600_000, first_pause_s=0.02)
    await bench.drain(bench.recorder("r1", pace=never))
    assert await bench.rows() == 1


async def test_a_lost_group_is_made_again(bench: Bench):
    await bench.add(a_report())
    await bench.drain(bench.recorder())
    await bench.redis.xgroup_destroy(bench.keys.errors, RECORDER_GROUP)
    await bench.add(a_report())
    await bench.drain(bench.recorder())
    assert await bench.rows() == 2


def test_nothing_is_lost_while_the_database_is_down(
    server: RedisServer, keys: Keys, tmp_path: Path
):
    with running_postgres() as postgres:

        async def life() -> None:
            database = Database(database_url(postgres.url, tmp_path))
            bench = Bench(server.url, keys, database)
            await bench.add(*(a_report() for _ in range(50)))
            await bench.drain(bench.recorder("r1"))
            await asyncio.to_thread(postgres.stop)
            reports = [a_report() for _ in range(1_000)]

            async def down_then_up() -> None:
                await bench.add(*reports)
                await asyncio.sleep(0.3)
                assert await bench.left() == 1_000
                await asyncio.to_thread(postgres.start)

            async with asyncio.TaskGroup() as group:
                group.create_task(down_then_up(), name="outage")
                group.create_task(bench.drain(bench.recorder("r1"), bench.recorder("r2")))
            assert await bench.rows() == await bench.seen() == 1_050
            await database.close()
            await bench.redis.aclose()
            await bench.blocking.aclose()

        asyncio.run(life())


def test_nothing_is_lost_while_redis_is_down(tmp_path: Path):
    keys = Keys("t")
    with running_server("redis") as server:

        async def life() -> None:
            database = Database(database_url(None, tmp_path))
            bench = Bench(server.url, keys, database)
            reporter = Reporter(stream_sender(bench.redis, keys), Spool(tmp_path / "spool", "p"))
            await reporter.report(a_report())
            server.kill()
            for _ in range(6):
                await reporter.report(a_report())
            stop = asyncio.Event()
            recorder = bench.recorder()
            async with asyncio.timeout(30), asyncio.TaskGroup() as group:
                group.create_task(recorder.run(stop), name="recorder")
                await asyncio.sleep(0.1)
                await asyncio.to_thread(server.start)
                assert await reporter.resend() == 6
                while recorder.written < 7:
                    await asyncio.sleep(0.01)
                stop.set()
            assert await bench.rows() == await bench.seen() == 7
            assert reporter.lost == 0
            reporter.close()
            await database.close()
            await bench.redis.aclose()
            await bench.blocking.aclose()

        asyncio.run(life())


async def test_a_stop_ends_the_recorder_while_the_database_is_away(bench: Bench):
    recorder = Recorder(
        GroupReader(
            bench.redis,
            bench.blocking,
            stream=bench.keys.errors,
            group=RECORDER_GROUP,
            consumer="r1",
        ),
        bench.recorder()._write,
        lambda: upgrade(Database(database_url("postgresql://u@127.0.0.1:9/x", Path("/nowhere")))),
        buried=bench.keys.buried,
        pace=Pace(first_pause_s=3600, longest_pause_s=3600),
    )
    stop = asyncio.Event()
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(recorder.run(stop), name="recorder")
        await asyncio.sleep(0.1)
        stop.set()

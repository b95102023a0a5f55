"""Writing reports: once per id, in groups, refused as a whole or stored as a whole."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select

from ops.store.engine import Database, database_url
from ops.store.errors import write_reports
from ops.store.migrate import upgrade
from ops.store.tables import error_groups, error_logs
from shared.errors import StoreRejected, StoreUnavailable
from shared.failures import Severity
from tests.support.postgres import running_postgres
from tests.support.reports import a_report

NOW = datetime(2026, 5, 1, 12, 0, 0, 123_000, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)


async def rows_of(database: Database) -> list[dict[str, object]]:
    async with database.begin() as connection:
        result = await connection.execute(select(error_logs).order_by(error_logs.c.seq))
        return [dict(row) for row in result.mappings()]


async def groups_of(database: Database) -> list[dict[str, object]]:
    async with database.begin() as connection:
        result = await connection.execute(select(error_groups))
        return [dict(row) for row in result.mappings()]


async def test_a_report_becomes_a_row_with_all_its_facts(database: Database):
    report = a_report(created_ms=NOW_MS, shown=True, stack_trace="Traceback")
    assert await write_reports(database, [report], NOW) == 1
    (row,) = await rows_of(database)
    assert row["id"] == report.id
    assert row["created_at"] == NOW
    assert row["received_at"] == NOW
    assert row["error_message"] == "the key was refused"
    assert row["error_metadata"] == {"roles": ["user"], "chunks": None}
    assert (row["severity"], row["notice"], row["http_status"]) == (40, "shown", 401)
    assert (row["guild_id"], row["turn_id"]) == (1101, "m1001")


async def test_a_snowflake_of_64_bits_comes_back_whole(database: Database):
    await write_reports(database, [a_report(guild_id=2**63 - 1)], NOW)
    assert (await rows_of(database))[0]["guild_id"] == 2**63 - 1


async def test_an_expected_failure_makes_no_row(database: Database):
    assert await write_reports(database, [a_report(severity=Severity.WARNING)], NOW) == 0
    assert await rows_of(database) == []


async def test_a_repeated_delivery_changes_nothing(database: Database):
    reports = [a_report() for _ in range(5)]
    assert await write_reports(database, [*reports, reports[0]], NOW) == 5
    assert await write_reports(database, [*reports, a_report()], NOW) == 1
    assert len(await rows_of(database)) == 6
    (group,) = await groups_of(database)
    assert group["seen_count"] == 6


async def test_causes_of_a_batch_stay_apart_in_any_order(database: Database):
    providers = ("openai", "anthropic", "google", "xai", "deepseek")
    causes = ("invalid_key", "model_not_found", "server_error")
    reports = [
        a_report(provider=provider, error_type=cause)
        for _ in range(3)
        for provider in providers
        for cause in causes
    ]
    await write_reports(database, reports, NOW)
    groups = await groups_of(database)
    assert len(groups) == 15
    assert {group["seen_count"] for group in groups} == {3}


async def test_a_group_spans_its_rows_in_time_and_version(database: Database):
    early, late = NOW_MS - 60_000, NOW_MS
    await write_reports(database, [a_report(created_ms=late, worker_version="2")], NOW)
    await write_reports(
        database, [a_report(created_ms=early, worker_version="1", message="older")], NOW
    )
    (group,) = await groups_of(database)
    assert group["first_seen"] == NOW - timedelta(minutes=1)
    assert group["last_seen"] == NOW
    assert (group["first_version"], group["last_version"]) == ("1", "2")
    assert group["seen_count"] == 2


@pytest.mark.parametrize(
    "created_ms",
    [
        pytest.param(NOW_MS - 3 * 86_400_000, id="long_ago"),
        pytest.param(NOW_MS + 3 * 86_400_000, id="in_the_future"),
        pytest.param(2**62, id="no_date_at_all"),
    ],
)
async def test_a_wrong_clock_is_replaced_and_kept_as_claimed(database: Database, created_ms: int):
    await write_reports(database, [a_report(created_ms=created_ms)], NOW)
    (row,) = await rows_of(database)
    assert row["created_at"] == NOW
    metadata = row["error_metadata"]
    assert isinstance(metadata, dict)
    assert str(metadata["claimed_ms"]) == str(created_ms)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("nul \0 here", id="nul"),
        pytest.param("half \ud800 pair", id="lone_surrogate"),
        pytest.param("x" * 1_048_576, id="one_mebibyte"),
    ],
)
async def test_hostile_text_is_stored(database: Database, text: str):
    report = a_report(message=text, stack_trace=text, metadata={text[:50]: text})
    assert await write_reports(database, [report], NOW) == 1
    stored = str((await rows_of(database))[0]["error_message"])
    assert "\0" not in stored
    stored.encode()


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"guild_id": 2**63}, id="number_over_64_bits"),
        pytest.param({"guild_id": 2**200}, id="number_without_end"),
        pytest.param({"created_ms": "today"}, id="no_row_can_be_made"),
    ],
)
async def test_a_refused_report_stores_nothing_of_its_batch(
    database: Database, changes: dict[str, object]
):
    with pytest.raises(StoreRejected):
        await write_reports(database, [a_report(), a_report(**changes)], NOW)
    assert await rows_of(database) == []
    assert await groups_of(database) == []


async def test_two_writers_at_once_lose_and_double_nothing(empty_url: str, tmp_path: Path):
    databases = [Database(database_url(empty_url, tmp_path)) for _ in range(2)]
    await upgrade(databases[0])
    shared = [a_report(provider=f"p{number % 7}") for number in range(200)]
    async with asyncio.TaskGroup() as group:
        for start in range(0, 200, 20):
            for database in databases:
                batch = shared[start : start + 20]
                group.create_task(write_reports(database, batch, NOW), name="write")
    groups = await groups_of(databases[0])
    assert len(await rows_of(databases[1])) == 200
    counts = [group["seen_count"] for group in groups]
    assert sum(count for count in counts if isinstance(count, int)) == 200
    for database in databases:
        await database.close()


async def test_a_read_only_database_is_not_made(tmp_path: Path):
    database = Database(database_url(f"sqlite:///{tmp_path}/no.db", tmp_path), read_only=True)
    with pytest.raises(StoreUnavailable, match="there is no database"):
        async with database.begin():
            pass
    assert not (tmp_path / "no.db").exists()


async def test_a_reader_cannot_write(database: Database, empty_url: str, tmp_path: Path):
    reader = Database(database_url(empty_url, tmp_path), read_only=True)
    with pytest.raises(StoreUnavailable):
        await write_reports(reader, [a_report()], NOW)
    async with reader.begin() as connection:
        count = await connection.execute(select(func.count()).select_from(error_logs))
        assert count.scalar_one() == 0
    await reader.close()


def test_a_stopped_postgres_is_unavailable_and_comes_back(tmp_path: Path):
    with running_postgres() as server:

        async def life() -> None:
            database = Database(database_url(server.url, tmp_path))
            await upgrade(database)
            await write_reports(database, [a_report()], NOW)
            await asyncio.to_thread(server.stop)
            with pytest.raises(StoreUnavailable):
                await write_reports(database, [a_report()], NOW)
            await asyncio.to_thread(server.start)
            assert await write_reports(database, [a_report()], NOW) == 1
            assert len(await rows_of(database)) == 2
            await database.close()

        asyncio.run(life())

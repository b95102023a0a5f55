"""Causes as groups: storms keep their rows, merged causes count as one, expected ones are seen."""

import secrets
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import msgspec
import pytest
from sqlalchemy import delete, select

from ops.store.causes import merge
from ops.store.engine import Database
from ops.store.errors import write_reports
from ops.store.storms import Storms
from ops.store.tables import error_group_aliases, error_groups, error_logs
from ops.triage.attempts import turns_of
from ops.triage.causes import TopBy, facets, hourly, spikes, top_causes, top_values
from ops.triage.errors import ErrorFilter
from shared.failures import ErrorReport, Severity
from tests.support.reports import a_report

NOW = datetime.now(UTC)
DAY = ErrorFilter(since=NOW - timedelta(days=1))


async def groups(database: Database) -> dict[str, int]:
    async with database.begin() as connection:
        columns = (error_groups.c.error_type, error_groups.c.seen_count)
        rows = await connection.execute(select(*columns))
        return {row.error_type: row.seen_count for row in rows}


def test_the_fifty_first_of_a_minute_is_slim_and_names_one_that_is_whole():
    storms, at_ms = Storms(), 60_000 * 1_000
    reports = [a_report(created_ms=at_ms, stack_trace="Traceback") for _ in range(120)]
    calmed = [storms.calmed(one) for one in reports]
    assert [one.stack_trace is not None for one in calmed] == [True] * 50 + [False] * 70
    assert {str(one.metadata) for one in calmed[50:]} == {str({"diagnostics_of": reports[0].id})}
    assert [one.id for one in calmed] == [one.id for one in reports]
    assert [storms.calmed(one) for one in reports] == calmed, "a batch that comes again"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"worker_id": "worker-2"}, id="of another worker"),
        pytest.param({"created_ms": 60_000 * 1_001}, id="a minute later"),
        pytest.param({"error_type": "model_not_found"}, id="of another cause"),
    ],
)
def test_another_storm_has_its_own_whole_rows(other: dict[str, object]):
    storms = Storms(whole_per_minute=1)
    facts: dict[str, object] = {"created_ms": 60_000 * 1_000, "stack_trace": "Traceback"}
    storms.calmed(a_report(**facts))
    assert storms.calmed(a_report(**facts)).stack_trace is None
    assert storms.calmed(a_report(**facts | other)).stack_trace == "Traceback"


def _kind(cause: str, **changes: object) -> ErrorReport:
    return a_report(error_type=cause, **changes)


async def test_merged_causes_count_as_one_before_and_after(database: Database):
    causes = ("invalid_key", "permission_denied", "upstream_error")
    await write_reports(database, [_kind(one) for one in causes for _ in range(3)], NOW)
    hashes = {one.error_type: one.group_hash for one in await top_causes(database, DAY)}
    for gone, kept in pairwise(causes):
        found = await merge(database, hashes[gone][:10], hashes[kept])
        assert found == ([hashes[gone]], [hashes[kept]])
    await write_reports(database, [_kind(one) for one in causes], NOW)
    assert await groups(database) == {"upstream_error": 12}
    (top,) = await top_causes(database, DAY)
    assert (top.group_hash, top.errors) == (hashes["upstream_error"], 12)


@pytest.mark.parametrize("is_back", [False, True], ids=["again", "the other way round"])
async def test_a_cause_that_came_back_during_its_merge_is_merged_again(
    database: Database, is_back: bool
):
    """A writer that had looked for aliases before the merge stores the old hash after it."""
    causes = ("invalid_key", "upstream_error")
    await write_reports(database, [_kind(one) for one in causes], NOW)
    hashes = {one.error_type: one.group_hash for one in await top_causes(database, DAY)}
    gone, kept = (hashes[one] for one in causes)
    await merge(database, gone, kept)
    async with database.begin() as connection:
        await connection.execute(delete(error_group_aliases))
    await write_reports(database, [_kind(causes[0])], NOW)
    async with database.begin() as connection:
        alias = {"from_hash": gone, "to_hash": kept}
        await connection.execute(error_group_aliases.insert(), alias)
    if is_back:
        gone, kept = kept, gone
    assert await merge(database, gone, kept) == ([gone], [kept])
    await write_reports(database, [_kind(one) for one in causes], NOW)
    (top,) = await top_causes(database, DAY)
    assert (top.group_hash, top.errors) == (kept, 5)


async def test_a_cause_is_not_merged_into_itself_or_nothing(database: Database):
    await write_reports(database, [a_report()], NOW)
    (top,) = await top_causes(database, DAY)
    for into in (top.group_hash, secrets.token_hex(16), "ab"):
        await merge(database, top.group_hash, into)
    assert await groups(database) == {"invalid_key": 1}


async def test_expected_failures_have_a_cause_that_says_nothing_of_upstream(database: Database):
    secret = "what the owner of the key may see"
    expected = {"severity": Severity.WARNING, "message": secret, "error_type": "overloaded"}
    await write_reports(database, [a_report(**expected) for _ in range(12)], NOW)
    await write_reports(database, [a_report()], NOW)
    assert await groups(database) == {"overloaded": 12, "invalid_key": 1}
    assert [one.error_type for one in await top_causes(database, DAY)] == ["invalid_key"]
    first, _ = await top_causes(database, DAY, with_expected=True)
    assert (first.error_type, first.errors, first.expected, first.is_new) == (
        *("overloaded", 12, 12),
        True,
    )
    assert secret not in first.title
    now = datetime.now(UTC) + timedelta(seconds=1)
    (spike,) = await spikes(database, now=now, window=timedelta(minutes=10), factor=3)
    assert (spike.error_type, spike.errors, spike.is_expected) == ("overloaded", 12, True)
    hours = await hourly(database, [first.group_hash], now)
    assert sum(hours[first.group_hash]) == 12
    bars = await facets(database, first.group_hash, NOW - timedelta(days=1))
    assert [(bar.value, bar.count) for bar in bars["guild_id"]] == [("1101", 12)]


@pytest.mark.parametrize(
    ("by", "first"),
    [
        (TopBy.GUILD, ("7", 2, 2)),
        (TopBy.PROVIDER, ("openai", 3, 2)),
        (TopBy.MODEL, ("gpt-5", 3, 2)),
        (TopBy.KEY, ("a1b2c3d4e5f6", 3, 2)),
        (TopBy.WORKER, ("worker-1", 3, 2)),
        (TopBy.VERSION, ("0.1.0", 3, 2)),
    ],
)
async def test_errors_are_ranked_by_what_they_have_in_common(
    database: Database, by: TopBy, first: tuple[str, int, int]
):
    reports = [_kind("invalid_key", guild_id=7), _kind("upstream_error", guild_id=7), a_report()]
    await write_reports(database, reports, NOW)
    found = (await top_values(database, DAY, by))[0]
    assert (found.value, found.errors, found.causes) == first


async def test_expected_failures_are_ranked_where_they_are_asked_for(database: Database):
    busy = _kind("overloaded", guild_id=8, severity=Severity.WARNING)
    reports = [busy, msgspec.structs.replace(busy, id="another"), _kind("invalid_key", guild_id=7)]
    await write_reports(database, reports, NOW)
    (first,) = await top_values(database, DAY, TopBy.GUILD)
    assert (first.value, first.errors, first.expected) == ("7", 1, 0)
    first, _ = await top_values(database, DAY, TopBy.GUILD, with_expected=True)
    assert (first.value, first.errors, first.expected) == ("8", 2, 2)
    wanted = msgspec.structs.replace(DAY, cause="invalid_key")
    (only,) = await top_values(database, wanted, TopBy.GUILD, with_expected=True)
    assert only.value == "7"


async def test_of_too_many_turns_of_a_cause_the_latest_are_told(database: Database):
    """Redis keeps the latest, and only these can be run again."""
    reports = [
        a_report(turn_id=f"l{number}", attempt=attempt, created_ms=_ms(minutes=number))
        for number in (2, 0, 3, 1)
        for attempt in (1, 2)
    ]
    await write_reports(database, reports, NOW)
    (top,) = await top_causes(database, DAY)
    for cause in (top.group_hash, top.group_hash[:12], top.error_type):
        found = await turns_of(database, cause, NOW - timedelta(days=1), limit=2)
        assert found == {("l0", top.error_type), ("l1", top.error_type)}


def _ms(*, minutes: int) -> int:
    return int((NOW - timedelta(minutes=minutes)).timestamp() * 1000)


async def test_only_what_a_version_brought_is_new_in_it(database: Database):
    await write_reports(database, [a_report(worker_version="1.0")], NOW)
    newer = [a_report(worker_version="1.1"), _kind("upstream_error", worker_version="1.1")]
    await write_reports(database, newer, NOW)
    found = await top_causes(database, DAY, new_in="1.1")
    assert [one.error_type for one in found] == ["upstream_error"]


async def test_rows_of_a_storm_are_all_there(database: Database):
    storms = Storms(whole_per_minute=2)
    reports = [storms.calmed(a_report(stack_trace="T", created_ms=60_000_000)) for _ in range(9)]
    await write_reports(database, reports, NOW)
    async with database.begin() as connection:
        rows = (await connection.execute(select(error_logs))).mappings().all()
    assert (len(rows), sum(row["stack_trace"] is not None for row in rows)) == (9, 2)

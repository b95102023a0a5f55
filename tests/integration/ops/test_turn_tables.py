"""Failures, ended turns and their cost: counted once, asked for by rate, forgotten in time."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from sqlalchemy import func, select

from ops.store.causes import Verdict, decide
from ops.store.engine import Database
from ops.store.errors import write_reports
from ops.store.retention import RULES, forget_old
from ops.store.tables import SCHEMA, error_groups, turn_failures, usage_ledger
from ops.triage.causes import spikes, top_causes
from ops.triage.errors import ErrorFilter
from ops.triage.rates import RateBy, rates
from shared.failures import Severity
from shared.summaries import TurnSummary
from shared.turns import TurnState, Usage
from tests.support.reports import a_report

NOW = datetime(2026, 5, 1, 12, 30, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
HOUR_AGO = NOW - timedelta(hours=1)
KEPT = {"error_group_aliases", "redis_mirror"}
"""Decisions and settings, which no time makes old."""


def a_turn(number: int, **changes: object) -> TurnSummary:
    turn = TurnSummary(
        turn_id=f"m{number}",
        attempt=1,
        ended_ms=NOW_MS,
        state=TurnState.DONE,
        user_id=1301,
        channel_id=1201,
        guild_id=1101,
        provider="openai",
        model="gpt-5",
        worker_version="0.1.0",
        usage=Usage(input=10, output=5, cost=0.25),
    )
    return msgspec.structs.replace(turn, **changes)


async def count(database: Database, table: str) -> int:
    async with database.begin() as connection:
        statement = select(func.count()).select_from(SCHEMA.tables[table])
        return int((await connection.execute(statement)).scalar_one())


async def test_expected_failures_are_counted_without_a_row(database: Database):
    reports = [a_report(created_ms=NOW_MS, severity=Severity.WARNING), a_report(created_ms=NOW_MS)]
    assert await write_reports(database, reports, NOW) == 1
    assert await write_reports(database, reports, NOW) == 0
    async with database.begin() as connection:
        column = turn_failures.c.is_expected
        found = await connection.execute(select(column).order_by(column))
        assert list(found.scalars()) == [0, 1]
    assert await count(database, "error_logs") == 1


async def test_a_turn_is_counted_once_and_an_absent_count_stays_absent(database: Database):
    turns = [a_turn(1), a_turn(2, usage=Usage()), a_turn(1)]
    for _ in range(2):
        await write_reports(database, turns, NOW)
    async with database.begin() as connection:
        columns = (
            usage_ledger.c.input_tokens,
            usage_ledger.c.cost,
            usage_ledger.c.cache_read_tokens,
        )
        rows = await connection.execute(select(*columns).order_by(usage_ledger.c.turn_id))
        assert [tuple(row) for row in rows] == [(10, 0.25, None), (None, None, None)]
    (rate,) = await rates(database, RateBy.MODEL, since=HOUR_AGO)
    assert (rate.value, rate.turns, rate.per_1000) == ("gpt-5", 2, 0.0)


async def test_rates_are_per_thousand_turns_with_expected_failures_apart(database: Database):
    turns = [a_turn(number) for number in range(7)]
    turns += [a_turn(7, state=TurnState.FAILED), a_turn(8, state=TurnState.CANCELLED)]
    turns += [a_turn(9, guild_id=None, model="other", state=TurnState.FAILED)]
    reports = [a_report(created_ms=NOW_MS, severity=Severity.WARNING) for _ in range(3)]
    await write_reports(database, [*turns, *reports, a_report(created_ms=NOW_MS)], NOW)
    other, usual = await rates(database, RateBy.MODEL, since=HOUR_AGO)
    assert (other.value, other.per_1000) == ("other", 1000.0)
    assert (usual.turns, usual.failed_turns, usual.cancelled) == (9, 1, 1)
    assert (usual.failures, usual.expected, usual.per_1000) == (1, 3, 111.1)
    (guild,) = await rates(database, RateBy.GUILD, since=HOUR_AGO, guild_id=1101)
    assert (guild.value, guild.turns) == ("1101", 9)


async def test_what_failed_without_an_ended_turn_has_no_rate(database: Database):
    await write_reports(database, [a_report(created_ms=NOW_MS)], NOW)
    (rate,) = await rates(database, RateBy.VERSION, since=HOUR_AGO)
    assert (rate.turns, rate.failures, rate.per_1000) == (0, 1, None)


async def only_cause(database: Database) -> dict[str, object]:
    async with database.begin() as connection:
        (row,) = (await connection.execute(select(error_groups))).mappings()
        return dict(row)


@pytest.mark.parametrize(
    ("fixed_in", "version", "status"),
    [(None, "0.1.0", "open"), ("0.2.0", "0.1.0", "resolved"), ("0.2.0", "0.2.0", "open")],
    ids=["comes again", "an old worker still has it", "the cure is none"],
)
async def test_a_resolved_cause_that_comes_again_has_regressed(
    database: Database, fixed_in: str | None, version: str, status: str
):
    await write_reports(database, [a_report(created_ms=NOW_MS)], NOW)
    part = str((await only_cause(database))["group_hash"])[:8]
    verdict = Verdict(status="resolved", resolved_in=fixed_in, note="new key")
    assert len(await decide(database, part, verdict, NOW)) == 1
    later = NOW + timedelta(minutes=1)
    again = a_report(created_ms=NOW_MS + 60_000, worker_version=version)
    await write_reports(database, [again], later)
    cause = await only_cause(database)
    assert (cause["status"], cause["note"]) == (status, "new key")
    assert cause["regressed_at"] == (later if status == "open" else None)
    (top,) = await top_causes(database, ErrorFilter(since=HOUR_AGO))
    assert top.regressed_at == cause["regressed_at"]


@pytest.mark.parametrize(
    ("seen", "fixed_in", "again", "status"),
    [
        pytest.param("1.2", "1.2", "1.2", "open", id="the_version_that_was_seen_last"),
        pytest.param("1.2.0", "v1.2", "1.2.0", "open", id="the_same_in_other_words"),
        pytest.param("1.1", "1.2", "1.0", "resolved", id="a_still_older_worker"),
        pytest.param("1.9", "1.10", "1.9", "resolved", id="ten_is_more_than_nine"),
        pytest.param("1.1", "1.2", "1.3", "open", id="a_newer_one"),
        pytest.param("0.1.0", "7158e83", "0.2.0", "open", id="a_commit_is_no_number"),
        pytest.param("1.2rc1", "1.2", "1.2.post1", "open", id="stages"),
        pytest.param("blue", "green", "blue", "resolved", id="names_without_order"),
        pytest.param("blue", "green", "green", "open", id="the_name_of_the_cure"),
        pytest.param("green", "green", "green", "open", id="the_name_that_was_seen_last"),
    ],
)
async def test_a_cause_is_back_when_a_version_with_the_cure_reports_it(
    database: Database, seen: str, fixed_in: str, again: str, status: str
):
    first = a_report(created_ms=NOW_MS, worker_version=seen)
    await write_reports(database, [first], NOW)
    part = str((await only_cause(database))["group_hash"])
    await decide(database, part, Verdict(status="resolved", resolved_in=fixed_in), NOW)
    # One batch: what an older worker says after it hides nothing.
    batch = [
        a_report(created_ms=NOW_MS + 60_000 + n, worker_version=one)
        for n, one in enumerate((again, seen if status == "open" else again))
    ]
    await write_reports(database, batch, NOW + timedelta(minutes=1))
    assert (await only_cause(database))["status"] == status


async def test_a_mute_ends(database: Database):
    await write_reports(database, [a_report(created_ms=NOW_MS) for _ in range(12)], NOW)
    window = timedelta(minutes=10)
    part = str((await only_cause(database))["group_hash"])
    until = NOW + timedelta(minutes=5)
    await decide(database, part, Verdict(status="muted", muted_until=until), NOW)
    just_after = NOW + timedelta(seconds=1)
    assert await spikes(database, now=just_after, window=window, factor=3) == []
    assert len(await spikes(database, now=until, window=window, factor=3)) == 1


async def test_nothing_is_decided_about_several_causes_or_none(database: Database):
    await write_reports(database, [a_report(created_ms=NOW_MS)], NOW)
    for part in ("", "abc", "zzzz", "%%%%"):
        assert await decide(database, part, Verdict(status="muted"), NOW) == []
    assert (await only_cause(database))["status"] == "open"


async def test_what_is_old_is_forgotten_and_the_rest_stays(database: Database):
    await write_reports(database, [a_report(created_ms=NOW_MS), a_turn(1)], NOW)
    assert set((await forget_old(database, NOW + timedelta(days=1))).values()) == {0}
    gone = await forget_old(database, NOW + timedelta(days=31))
    assert gone == dict.fromkeys(gone, 0) | {"error_logs": 1}
    assert set(gone) == {rule.table.name for rule in RULES} == set(SCHEMA.tables) - KEPT
    await forget_old(database, NOW + timedelta(days=401))
    assert [await count(database, name) for name in gone] == [0] * len(gone)

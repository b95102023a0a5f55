"""`turnfleet usage`, `errors export` and `errors forget` over both databases."""

import asyncio
import csv
import io
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from ops.cli.errors_export import pages
from ops.cli.exits import Exit
from ops.store.engine import Database, database_url
from ops.store.errors import Record, write_reports
from ops.store.ledger import UsedBy, used
from ops.store.migrate import upgrade
from ops.triage.errors import ErrorFilter
from shared.summaries import TurnSummary
from shared.turns import AttemptUsage, CostSource, Target, TurnState, Usage
from tests.support.cli import Command
from tests.support.reports import a_report

NOW_MS = time.time_ns() // 1_000_000
TURN = TurnSummary(
    turn_id="m1",
    attempt=1,
    ended_ms=NOW_MS,
    state=TurnState.DONE,
    user_id=1301,
    channel_id=1201,
    guild_id=2**60,
    provider="openai",
    model="gpt-5",
    usage=Usage(input=100, output=40, cost=0.5),
)
UNCOUNTED = msgspec.structs.replace(TURN, turn_id="m2", usage=Usage(), guild_id=None)
ERRORS = [
    a_report(message="=cmd()", guild_id=2**60, user_id=1301, created_ms=NOW_MS),
    a_report(message="\x1b[2J old", guild_id=2**60, user_id=1302, created_ms=NOW_MS - 1000),
]


@pytest.fixture
def turnfleet(empty_url: str, tmp_path: Path) -> Command:
    records: list[Record] = [TURN, UNCOUNTED, *ERRORS]

    async def fill() -> None:
        database = Database(database_url(empty_url, tmp_path))
        await upgrade(database)
        await write_reports(database, records, datetime.now(UTC))
        await database.close()

    asyncio.run(fill())
    return Command(tmp_path, {"database_url": empty_url})


def test_sums_have_only_what_was_counted(turnfleet: Command):
    (row,) = json.loads(turnfleet("usage", "-o", "json").stdout)
    assert (row["model"], row["turns"], row["counted"]) == ("gpt-5", 2, 1)
    assert (row["input_tokens"], row["output_tokens"], row["cost"]) == (100, 40, 0.5)
    guild, direct = json.loads(turnfleet("usage", "--by", "guild", "-o", "json").stdout)
    assert (guild["guild"], direct["guild"]) == (str(2**60), "")
    assert direct["cost"] is None


SUPERSEDED = msgspec.structs.replace(
    TURN,
    turn_id="m3",
    attempt=3,
    model="gpt-5",
    attempts=(
        AttemptUsage(attempt=1, target=Target(provider="openai", model="gpt-5")),
        AttemptUsage(
            attempt=2,
            target=Target(provider="openai", model="gpt-4"),
            usage=Usage(input=50, output=7, cost=0.1),
            cost_source=CostSource.PRICED,
        ),
        AttemptUsage(
            attempt=3,
            target=Target(provider="openai", model="gpt-5"),
            usage=Usage(input=60, output=9, cost=0.2),
            cost_source=CostSource.REPORTED,
        ),
    ),
)


async def test_every_attempt_is_paid_for_and_superseded_ones_are_told_apart(database: Database):
    now = datetime.now(UTC)
    await write_reports(database, [TURN, SUPERSEDED], now)
    await write_reports(database, [SUPERSEDED], now)  # twice is once
    since = now - timedelta(days=1)
    models = {one.value: one for one in await used(database, UsedBy.MODEL, since=since)}
    five, four = models["gpt-5"], models["gpt-4"]
    assert (five.turns, five.attempts, five.counted, five.output_tokens) == (2, 3, 2, 49)
    assert five.cost == pytest.approx(0.7)
    assert five.superseded_cost is None
    assert (four.turns, four.attempts, four.output_tokens) == (0, 1, 7)
    assert four.superseded_output_tokens == 7
    assert four.superseded_cost == pytest.approx(0.1)
    (day,) = await used(database, UsedBy.DAY, since=since)
    assert day.value == datetime.fromtimestamp(NOW_MS / 1000, UTC).date().isoformat()
    assert (day.turns, day.attempts) == (2, 4)
    sources = {
        one.value: one.attempts for one in await used(database, UsedBy.COST_SOURCE, since=since)
    }
    assert sources == {"reported": 2, "priced": 1, "": 1}


def test_an_export_has_every_error_with_its_facts(turnfleet: Command):
    result = turnfleet("errors", "export")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["id"] for row in rows] == [report.id for report in ERRORS]
    assert rows[0]["error_metadata"] == {"roles": ["user"], "chunks": None}
    assert "2 errors." in result.stderr


@pytest.mark.parametrize("size", [1, 2, 3, 50])
async def test_pages_of_any_size_have_every_error_once(database: Database, size: int):
    # Several of one millisecond: the page's border must not lie between moments only.
    reports = [a_report(created_ms=NOW_MS - number // 3) for number in range(7)]
    await write_reports(database, reports, datetime.now(UTC))
    found = [one.id async for one in pages(database, ErrorFilter(limit=size))]
    assert sorted(found) == sorted(report.id for report in reports)


def test_a_csv_export_harms_no_spreadsheet(turnfleet: Command):
    out = turnfleet("errors", "export", "--format", "csv").stdout
    first, second = csv.DictReader(io.StringIO(out))
    assert first["error_message"] == "'=cmd()"
    assert "\x1b" not in second["error_message"]
    assert first["guild_id"] == str(2**60)


def test_an_anonymous_export_tells_ids_apart_and_names_none(turnfleet: Command):
    out = turnfleet("errors", "export", "--anonymise").stdout
    first, second = (json.loads(line) for line in out.splitlines())
    assert first["guild_id"] == second["guild_id"] != str(2**60)
    assert first["user_id"] != second["user_id"]
    for number in (2**60, 1301, 1302, 1201, "m1001"):
        assert str(number) not in out


@pytest.mark.parametrize("form", ["ndjson", "csv"])
def test_an_anonymous_export_names_no_id_in_its_texts(empty_url: str, tmp_path: Path, form: str):
    channel, message = 1187001234567890222, 1187001234567890444
    report = a_report(
        channel_id=channel,
        message=f"403 for /channels/{channel}/messages, turn m{message}",
        stack_trace=f"at <#{channel}>",
        metadata={"channel": str(channel), "message_id": message, "turn_id": f"m{message}"},
    )

    async def fill() -> None:
        database = Database(database_url(empty_url, tmp_path))
        await upgrade(database)
        await write_reports(database, [report], datetime.now(UTC))
        await database.close()

    asyncio.run(fill())
    turnfleet = Command(tmp_path, {"database_url": empty_url})
    out = turnfleet("errors", "export", "--anonymise", "--format", form).stdout
    assert "403 for /channels/1000000000000000001/messages" in out
    for number in (channel, message):
        assert str(number) not in out


def test_a_person_is_forgotten_and_what_failed_stays(turnfleet: Command):
    assert "4 rows" in turnfleet("errors", "forget", "--user", "1301").stderr
    rows = json.loads(turnfleet("errors", "list", "-o", "json").stdout)
    assert [row["user_id"] for row in rows] == [None, 1302]
    (row,) = json.loads(turnfleet("usage", "--by", "user", "-o", "json").stdout)
    assert (row["user"], row["turns"]) == ("", 2)


def test_a_guild_is_forgotten(turnfleet: Command):
    turnfleet("errors", "forget", "--guild", str(2**60))
    rows = json.loads(turnfleet("errors", "list", "-o", "json").stdout)
    assert [row["guild_id"] for row in rows] == [None, None]
    assert turnfleet("errors", "rate", "--guild", str(2**60)).stdout == ""


@pytest.mark.parametrize("options", [[], ["--user", "1", "--guild", "2"]])
def test_forgetting_takes_one_id(turnfleet: Command, options: list[str]):
    assert turnfleet("errors", "forget", *options).exit_code == Exit.BAD_INPUT

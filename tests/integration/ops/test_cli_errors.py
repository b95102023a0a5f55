"""`turnfleet errors` and `db` over both databases."""

import asyncio
import contextlib
import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import update

from ops.cli.exits import Exit
from ops.store.engine import Database, database_url
from ops.store.errors import write_reports
from ops.store.migrate import upgrade
from ops.store.tables import error_groups
from ops.triage.errors import ErrorFilter, ErrorRecord, list_errors
from shared.failures import ErrorReport, ReportCategory
from tests.support.cli import Command
from tests.support.house import ROOT
from tests.support.postgres import fresh_database
from tests.support.reports import a_report

NOW_MS = time.time_ns() // 1_000_000

REPORTS = [
    a_report(id="0190aaaa-0000-7000-8000-000000000001", message="key refused", turn_id="m7"),
    a_report(
        id="0190aaaa-0000-7000-8000-000000000002",
        message="100% of \x1b[31mquota_\u202e used",
        error_type="insufficient_balance",
        guild_id=1102,
        turn_id="m7",
        attempt=2,
        stack_trace="Traceback\n  one\x1b[2J",
    ),
    a_report(
        id="0190bbbb-0000-7000-8000-000000000003",
        message="=cmd()",
        category=ReportCategory.INTERNAL,
        error_type="uncaught",
        provider="google",
        model="gemini",
        guild_id=None,
        turn_id="m8",
    ),
    a_report(
        id="0190cccc-0000-7000-8000-000000000004", created_ms=NOW_MS - 7_200_000, message="old"
    ),
]


def fill(url: str, tmp_path: Path, reports: list[ErrorReport]) -> None:
    async def run() -> None:
        database = Database(database_url(url, tmp_path))
        await upgrade(database)
        await write_reports(database, reports, datetime.now(UTC))
        await database.close()

    asyncio.run(run())


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def turnfleet(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Command]:
    """The command over a database with the four errors; these tests only read."""
    home = tmp_path_factory.mktemp("home")
    with contextlib.ExitStack() as stack:
        url = f"sqlite:///{home}/store.db"
        if request.param == "postgresql":
            url = stack.enter_context(fresh_database(request.getfixturevalue("postgres")))
        fill(url, home, REPORTS)
        yield Command(home, {"database_url": url})


def ids(turnfleet: Command, *options: str) -> list[str]:
    result = turnfleet("errors", "list", "-o", "json", *options)
    assert result.exit_code == 0, result.stderr
    return [row["id"][-1] for row in json.loads(result.stdout)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param((), "1234", id="all"),
        pytest.param(("--since", "1h"), "123", id="since"),
        pytest.param(("--cause", "invalid_key"), "14", id="cause"),
        pytest.param(("--category", "internal"), "3", id="category"),
        pytest.param(("--guild", "1102"), "2", id="guild"),
        pytest.param(("--provider", "google", "--model", "gemini"), "3", id="provider_and_model"),
        pytest.param(("--turn", "m7"), "12", id="turn"),
        pytest.param(("--text", "QUOTA_"), "2", id="text_in_any_case"),
        pytest.param(("--text", "100%"), "2", id="text_is_no_pattern"),
        pytest.param(("--text", "%"), "2", id="percent_is_a_character"),
        pytest.param(("--user", "999"), "", id="nobody"),
    ],
)
def test_filters(turnfleet: Command, options: tuple[str, ...], expected: str):
    assert sorted(ids(turnfleet, *options)) == list(expected)


def test_the_newest_is_first_and_the_limit_holds(turnfleet: Command):
    assert ids(turnfleet)[-1] == "4"
    assert len(ids(turnfleet, "--limit", "2")) == 2


def test_a_group_can_be_named_by_the_beginning_of_its_hash(turnfleet: Command):
    (row,) = json.loads(turnfleet("errors", "list", "--guild", "1102", "-o", "json").stdout)
    assert ids(turnfleet, "--cause", row["group_hash"][:12]) == ["2"]
    assert ids(turnfleet, "--cause", row["group_hash"]) == ["2"]


def test_too_little_of_a_hash_names_no_group(turnfleet: Command):
    (row,) = json.loads(turnfleet("errors", "list", "--guild", "1102", "-o", "json").stdout)
    assert ids(turnfleet, "--cause", row["group_hash"][:3]) == []


@pytest.mark.parametrize(
    "words",
    [
        ("errors", "list", "--cause", ""),
        ("errors", "list", "--text", ""),
        ("errors", "export", "--key", " "),
        ("errors", "top", "--new-in", ""),
        ("errors", "mute", ""),
        ("errors", "mute", "0123abcd", "--for", ""),
        ("errors", "resolve", "0123abcd", "--in", ""),
        ("errors", "merge", "0123abcd", ""),
        ("turns", "list", "--failed", "--text", ""),
        ("fleet", "drain", ""),
    ],
    ids=" ".join,
)
def test_an_empty_word_is_refused_and_chooses_nothing(turnfleet: Command, words: tuple[str, ...]):
    """A variable of a script that is not set."""
    result = turnfleet(*words)
    assert (result.exit_code, "it is empty" in result.stderr) == (Exit.BAD_INPUT, True)


def test_hostile_text_is_harmless_in_tables_and_csv(turnfleet: Command):
    table = turnfleet("errors", "list").stdout
    assert "100% of �[31mquota_� used" in table
    rows = list(csv.DictReader(io.StringIO(turnfleet("errors", "list", "-o", "csv").stdout)))
    assert next(row for row in rows if row["id"].endswith("3"))["error_message"] == "'=cmd()"
    assert "\x1b" not in turnfleet("errors", "list", "-o", "json").stdout


def test_top_ranks_causes(turnfleet: Command):
    rows = json.loads(turnfleet("errors", "top", "-o", "json").stdout)
    assert (rows[0]["error_type"], rows[0]["errors"], rows[0]["guilds"]) == ("invalid_key", 2, 1)
    assert len(rows) == 3
    assert "invalid_key" in turnfleet("errors", "top").stdout


@pytest.mark.parametrize("part", ["0190aaaa-0000-7000-8000-000000000002", "000000000002"])
def test_show_has_the_error_its_cause_its_turn_and_its_stack(turnfleet: Command, part: str):
    detail = json.loads(turnfleet("errors", "show", part, "-o", "json").stdout)
    assert detail["error"]["error_metadata"] == {"roles": ["user"], "chunks": None}
    assert detail["cause"]["seen_count"] == 1
    assert [one["id"][-1] for one in detail["turn"]] == ["1", "2"]
    table = turnfleet("errors", "show", part).stdout
    for words in ("insufficient_balance", "Cause", "Failures of turn m7", "Stack", "one�[2J"):
        assert words in table


def test_show_of_nothing_ends_with_4(turnfleet: Command):
    result = turnfleet("errors", "show", "ffffffff")
    assert (result.exit_code, result.stdout) == (Exit.MISSING, "")


def test_show_of_several_asks_for_more(turnfleet: Command):
    result = turnfleet("errors", "show", "0190aaaa")
    assert result.exit_code == Exit.BAD_INPUT
    assert "several" in result.stderr


def test_db_upgrade_and_status(empty_url: str, tmp_path: Path):
    turnfleet = Command(tmp_path, {"database_url": empty_url})
    if empty_url.startswith("sqlite"):
        assert turnfleet("errors", "list").exit_code == Exit.BAD_INPUT
        assert turnfleet("db", "status").exit_code == Exit.BAD_INPUT
    else:
        assert turnfleet("db", "status", "--check").exit_code == Exit.FOUND
    first = json.loads(turnfleet("db", "upgrade", "-o", "json").stdout)
    again = json.loads(turnfleet("db", "upgrade", "-o", "json").stdout)
    assert (first["before"], first["result"]) == (None, "upgraded")
    assert turnfleet("db", "migrate").exit_code == 0  # as others call it
    assert again["result"] == "nothing to do"
    status = turnfleet("db", "status", "--check", "-o", "json")
    assert (status.exit_code, json.loads(status.stdout)["errors"]) == (0, 0)


def test_no_errors_is_said(empty_url: str, tmp_path: Path):
    fill(empty_url, tmp_path, [])
    result = Command(tmp_path, {"database_url": empty_url})("errors", "list")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "No errors match.\n")


def test_pages_follow_each_other_without_gap(empty_url: str, tmp_path: Path):
    moments = [NOW_MS - number % 4 for number in range(25)]
    fill(empty_url, tmp_path, [a_report(created_ms=moment) for moment in moments])

    async def pages() -> list[ErrorRecord]:
        database = Database(database_url(empty_url, tmp_path), read_only=True)
        seen: list[ErrorRecord] = []
        before = None
        while page := await list_errors(database, ErrorFilter(limit=10, before=before)):
            seen += page
            before = (page[-1].created_at, page[-1].seq)
        await database.close()
        return seen

    seen = asyncio.run(pages())
    assert len({record.id for record in seen}) == len(seen) == 25
    assert seen == sorted(seen, key=lambda one: (one.created_at, one.seq), reverse=True)


@pytest.mark.parametrize(
    ("recent", "before", "options", "is_spike"),
    [
        pytest.param(12, 0, (), True, id="new"),
        pytest.param(9, 0, (), False, id="few"),
        pytest.param(12, 720, (), False, id="usual"),
        pytest.param(12, 576, (), True, id="just_three_times"),
        pytest.param(12, 577, (), False, id="just_below"),
        pytest.param(12, 720, ("--factor", "2"), True, id="smaller_factor"),
        pytest.param(12, 0, ("--window", "30s"), False, id="shorter_window"),
    ],
)
def test_spikes(
    recent: int,
    before: int,
    options: tuple[str, ...],
    is_spike: bool,
    empty_url: str,
    tmp_path: Path,
):
    now_ms = time.time_ns() // 1_000_000
    minute = 60_000
    moments = [now_ms - minute] * recent + [now_ms - 60 * minute] * before
    fill(empty_url, tmp_path, [a_report(created_ms=moment) for moment in moments])
    turnfleet = Command(tmp_path, {"database_url": empty_url})
    result = turnfleet("errors", "spikes", "-o", "json", *options)
    assert result.exit_code == (Exit.FOUND if is_spike else 0), result.stdout
    assert [row["errors"] for row in json.loads(result.stdout)] == [recent] * is_spike


def test_a_muted_cause_is_no_spike(tmp_path: Path):
    reports = [a_report(created_ms=time.time_ns() // 1_000_000 - 60_000) for _ in range(20)]
    url = f"sqlite:///{tmp_path}/s.db"
    fill(url, tmp_path, reports)
    turnfleet = Command(tmp_path, {"database_url": url})
    assert "20" in turnfleet("errors", "spikes").stdout

    async def mute() -> None:
        database = Database(database_url(url, tmp_path))
        async with database.begin() as connection:
            await connection.execute(update(error_groups).values(status="muted"))
        await database.close()

    asyncio.run(mute())
    result = turnfleet("errors", "spikes")
    assert (result.exit_code, result.stderr) == (0, "No spikes.\n")
    assert turnfleet("errors", "spikes", "--window", "0s").exit_code == Exit.BAD_INPUT


def test_show_says_what_mends_it_and_where_else_to_look(turnfleet: Command):
    environment = {"database_url": turnfleet.environment["TURNFLEET_DATABASE_URL"]}
    home = Path(turnfleet.environment["TURNFLEET_DATA_DIR"])
    with_sentry = Command(home, environment | {"sentry_url": "https://acme.sentry.io"})
    error_id = REPORTS[0].id
    facts = json.loads(with_sentry("errors", "show", error_id, "-o", "json").stdout)
    assert facts["look_at"]["sentry"].endswith(f"/issues/?query={error_id.replace('-', '')}")
    assert facts["repairs"][0]["command"] == "turnfleet creds list"
    table = turnfleet("errors", "show", error_id).stdout
    assert "What mends it" in table
    assert f"jq -c 'select(.id == \"{error_id}\")' LOG" in table
    assert "sentry" not in table


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--by", "guild"), {"guild": "1101", "errors": 2, "causes": 1}),
        (("--by", "provider"), {"provider": "openai", "errors": 3, "causes": 2}),
        (("--new-in", "0.1.0"), {"error_type": "invalid_key", "is_new": True}),
        (("--all",), {"error_type": "invalid_key", "expected": 0}),
        (("--all", "--by", "guild"), {"guild": "1101", "errors": 2, "expected": 0}),
        (("--by", "guild", "--cause", "insufficient_balance"), {"guild": "1102", "errors": 1}),
        (("--text", "QUOTA"), {"error_type": "insufficient_balance", "errors": 1}),
        (("--by", "model", "--key", "a1b2c3d4e5f6"), {"model": "gpt-5", "errors": 3}),
    ],
    ids=["guild", "provider", "new", "all", "all by guild", "cause", "text", "key"],
)
def test_top_ranks_by_more_than_causes(
    turnfleet: Command, words: tuple[str, ...], expected: dict[str, object]
):
    first = json.loads(turnfleet("errors", "top", *words, "-o", "json").stdout)[0]
    assert {name: first[name] for name in expected} == expected
    assert turnfleet("errors", "top", *words).exit_code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("--by", "worker", "--all"),
        ("--by", "key", "--new-in", "1"),
        ("--all", "--worker", "w"),
        ("--all", "--text", "x"),
    ],
    ids=" ".join,
)
def test_top_refuses_what_does_not_go_together(turnfleet: Command, words: tuple[str, ...]):
    assert turnfleet("errors", "top", *words).exit_code == Exit.BAD_INPUT


def test_causes_are_merged_by_the_command(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/s.db"
    fill(url, tmp_path, [a_report(), a_report(error_type="permission_denied")])
    turnfleet = Command(tmp_path, {"database_url": url})
    rows = json.loads(turnfleet("errors", "top", "-o", "json").stdout)
    first, second = (row["group_hash"] for row in rows)
    assert turnfleet("errors", "merge", first, first).exit_code == Exit.BAD_INPUT
    assert turnfleet("errors", "merge", first, "0" * 32).exit_code == Exit.MISSING
    assert turnfleet("errors", "merge", first[:9], second).exit_code == 0
    (row,) = json.loads(turnfleet("errors", "top", "-o", "json").stdout)
    assert (row["group_hash"], row["errors"]) == (second, 2)


@pytest.mark.parametrize("form", ["table", "json", "ndjson", "csv"])
def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path, form: str):
    """As `| true` and `| head` are; a short answer stays in a buffer until the end."""
    fill(f"sqlite:///{tmp_path}/turnfleet.db", tmp_path, [a_report()])
    environ = {"PATH": "/usr/bin:/bin", "TURNFLEET_DATA_DIR": str(tmp_path)}
    words = [sys.executable, "-m", "ops", "errors", "list", "-o", form]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(
            words, env=environ, cwd=ROOT, stdout=closed, stderr=subprocess.PIPE, check=False
        )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.fixture
def heeds_ctrl_c() -> Iterator[None]:
    """A shell's background jobs, and all that they start, would ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_top_is_watched_until_ctrl_c(tmp_path: Path):
    fill(f"sqlite:///{tmp_path}/turnfleet.db", tmp_path, [a_report()])
    environ = {"PATH": "/usr/bin:/bin", "TURNFLEET_DATA_DIR": str(tmp_path)}
    words = [sys.executable, "-m", "ops", "errors", "top", "--watch", "-o", "ndjson"]
    with subprocess.Popen(words, env=environ, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        began_s = time.monotonic()
        assert json.loads(process.stdout.readline())["error_type"] == "invalid_key"
        assert time.monotonic() - began_s < 30, "what was found waits in a buffer for more"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == Exit.INTERRUPTED

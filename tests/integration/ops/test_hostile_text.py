"""Text of an attacker in every fact of an error, on every way out: terminal, CSV, JSON, page.

A report comes from the fleet through Redis, so each text fact may be anything. Nothing of it may be
obeyed: no escape, no bidi control, no formula, no markup; and a line of 1 MiB keeps nobody waiting.
"""

import asyncio
import csv
import io
import json
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import msgspec
import pytest

from ops.console.access import Access
from ops.console.app import console_app
from ops.console.desk import Desk
from ops.replay.turns import Replays
from ops.store.engine import Database, database_url
from ops.store.errors import write_reports
from ops.store.migrate import upgrade
from shared.config import Settings
from shared.edges.backlog import Backlog
from shared.edges.local_channel import LocalChannel
from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords
from shared.edges.redis import connect
from shared.failures import ErrorReport
from shared.keys import Keys
from tests.support.cli import Command
from tests.support.reports import a_report
from tests.support.servers import RedisServer, running_server

EVIL = (
    '=HYPERLINK("http://evil.example")|<script>alert(1)</script>\'"><img src=x onerror=alert(2)>'
    "\x1b]0;owned\x07\x1b[2J\x9b31m\r\u202e\u2066\u200b\u2028 [red]markup[/red] :bomb:"
    "\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\\x9d52;c;eA==\x9c\x1bP+q\x1b\\"
    "\u00ad\u3164\u2063\U000e0041\U000e0100\x7f\x00\ud83d;=1+1\t=1+1"
)
FORMULAS = (
    *("=1+1", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", " =1", "\u200b=1", "\uff1d1", "\u3000=1"),
    *("=cmd|' /C calc'!A0", "\t\t=cmd|' /C calc'!A0", "x;=cmd|' /C calc'!A0"),
)
UNSAFE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b\u2028\u2029\u202a-\u202e\u2060-\u206f\u3164"
    r"\U000e0000-\U000e0fff]"
)
TEXTS = [
    field.name
    for field in msgspec.structs.fields(ErrorReport)
    if field.name in {"message", "stack_trace", "error_type", "stage", "provider_code"}
    or field.name in {"provider", "model", "serving_provider", "endpoint_host", "worker_id"}
    or field.name in {"worker_version", "key_id"}
]
QUICK_S = 5.0


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


def evil_reports() -> list[ErrorReport]:
    facts: dict[str, object] = dict.fromkeys(TEXTS, EVIL)
    reports = [a_report(**facts, turn_id="m7", metadata={EVIL: [EVIL, {"x": EVIL}]})]
    reports += [a_report(message=text, error_type=text) for text in FORMULAS]
    reports.append(a_report(message="y" * 1024 * 1024, stack_trace="z" * 1024 * 1024))
    return reports


@pytest.fixture(scope="module")
def turnfleet(server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Command:
    home = tmp_path_factory.mktemp("home")

    async def fill() -> None:
        database = Database(database_url(None, home))
        await upgrade(database)
        await write_reports(database, evil_reports(), datetime.now(UTC))
        await database.close()

    asyncio.run(fill())
    return Command(home, {"redis_url": server.url})


def error_ids(turnfleet: Command) -> list[str]:
    rows = json.loads(turnfleet("errors", "list", "-o", "json").stdout)
    return [str(row["id"]) for row in rows]


@pytest.mark.parametrize("form", ["table", "json", "ndjson", "csv"])
@pytest.mark.parametrize(
    "words",
    [
        ("errors", "list"),
        ("errors", "top"),
        ("errors", "top", "--all"),
        *(
            ("errors", "top", "--by", by)
            for by in ("provider", "model", "key", "worker", "version")
        ),
        ("errors", "rate"),
        ("errors", "rate", "--by", "version"),
        ("errors", "spikes", "--factor", "1"),
        ("turns", "list", "--failed"),
        ("usage",),
    ],
    ids=" ".join,
)
def test_nothing_is_obeyed_in_lists(turnfleet: Command, words: tuple[str, ...], form: str):
    started_s = time.monotonic()
    done = turnfleet(*words, "-o", form)
    assert time.monotonic() - started_s < QUICK_S
    assert not UNSAFE.search(done.stdout + done.stderr)
    if form == "csv":
        assert_no_formula(done.stdout)


def test_nothing_is_obeyed_in_one_error(turnfleet: Command):
    for error_id in error_ids(turnfleet):
        for form in ("table", "json"):
            done = turnfleet("errors", "show", error_id, "-o", form)
            assert done.exit_code == 0
            assert not UNSAFE.search(done.stdout)


@pytest.mark.parametrize("more", [(), ("--anonymise",)], ids=["whole", "anonymous"])
def test_exports_hold_no_formula_and_all_facts(turnfleet: Command, more: tuple[str, ...]):
    text = turnfleet("errors", "export", "--format", "csv", *more).stdout
    assert not UNSAFE.search(text)
    assert_no_formula(text)
    lines = turnfleet("errors", "export", *more).stdout.splitlines()
    assert not any(UNSAFE.search(line) for line in lines)
    messages = {json.loads(line)["error_message"] for line in lines}
    assert "=1+1" in messages
    assert any("owned" in message for message in messages)


def assert_no_formula(text: str) -> None:
    """Neither for who parts cells at commas, nor for who does it at semicolons or tabs."""
    for sign in ",;\t":
        for row in csv.reader(io.StringIO(text), delimiter=sign):
            for cell in row:
                if not re.fullmatch(r"-?\d+(\.\d+)?", cell):
                    assert not re.match(r"\s*[=+\-@\uff1d]", cell), cell


async def test_nothing_is_obeyed_on_pages(server: RedisServer, turnfleet: Command):
    home = Path(turnfleet.environment["TURNFLEET_DATA_DIR"])
    redis, keys, database = connect(server.url), Keys(), Database(database_url(None, home))
    records, queue = TurnRecords(redis, keys), TurnQueue(redis, keys, Settings())
    desk = Desk(
        cell="main",
        records=records,
        queue=queue,
        channel=LocalChannel(redis, keys),
        database=database,
        replays=Replays(records, queue, lambda: 1),
        backlog=Backlog(redis, keys),
        now_ms=lambda: time.time_ns() // 1_000_000,
        sentry_url="https://acme.sentry.io",
    )
    app = console_app(desk, Access())
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        causes = (await client.get("/causes.json?all=1")).json()["causes"]
        errors = (await client.get("/errors.json")).json()["errors"]
        paths = ["/", "/causes?all=1", "/errors", "/turns", "/workers"]
        paths += [f"/causes/{one['group_hash']}" for one in causes]
        paths += [f"/errors/{one['id']}" for one in errors]
        for path in paths:
            twin = await client.get(twin_of(path))
            assert not UNSAFE.search(twin.text), path
            started_s = time.monotonic()
            answer = await client.get(path)
            assert answer.status_code == 200, path
            assert time.monotonic() - started_s < QUICK_S, path
            assert len(answer.text) < 1024 * 1024, path
            assert not UNSAFE.search(answer.text.replace("\r\n", "\n")), path
            tags = set(re.findall(r"<\s*([a-z]+)", answer.text))
            assert not tags & {"img", "iframe", "style"}, path
            assert re.findall(r"<script[^>]*>", answer.text) == [
                '<script src="/static/console.js" defer>'
            ], path
            assert not re.search(r"<[^>&]* on[a-z]+=", answer.text), path
    await redis.aclose()
    await database.close()


def twin_of(path: str) -> str:
    """The address of a page's JSON."""
    name, mark, query = path.partition("?")
    return f"{'/now' if name == '/' else name}.json{mark}{query}"

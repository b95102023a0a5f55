"""What speaks against replays that filters chose, and failed turns found by what they said."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from ops.replay.evidence import evidence
from ops.replay.turns import Change, FailedFilter, Reason, Replays
from ops.store.causes import Verdict, decide
from ops.store.engine import Database, database_url
from ops.store.errors import Record, write_reports
from ops.store.fingerprint import group_hash
from ops.store.migrate import upgrade
from shared.config import Settings
from shared.edges.queue import Admission, TurnQueue
from shared.edges.records import TurnRecords
from shared.edges.redis import connect
from shared.failures import FaultDetails
from shared.keys import Keys
from shared.messages import Message, Role
from shared.segments import TurnFailed
from shared.summaries import TurnSummary
from shared.turns import CredentialSource, Front, Route, Target, TurnRequest, TurnState
from tests.support.cli import Command
from tests.support.reports import a_report
from tests.support.servers import RedisServer, running_server

NOW = datetime.now(UTC)
FAILED = TurnFailed(
    cause="rate_limited", category="rate_limit", headline="No more requests now.", report_id="r1"
)


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


@pytest.fixture
async def replays(server: RedisServer, request: pytest.FixtureRequest) -> AsyncIterator[Replays]:
    """A cell with one failed turn, m7."""
    keys = Keys(re.sub(r"\W", "", request.node.name))
    redis = connect(server.url)
    replays = await fill(redis, keys)
    yield replays
    await redis.aclose()


async def fill(redis: object, keys: Keys) -> Replays:
    queue = TurnQueue(redis, keys, Settings(cell=keys.cell))  # type: ignore[arg-type]  # a client
    records = TurnRecords(redis, keys)  # type: ignore[arg-type]  # a client
    route = Route(front=Front.DISCORD, channel_id=5, user_id=1, guild_id=7, reply_to=7)
    request = TurnRequest(
        turn_id="m7",
        route=route,
        target=Target(provider="openai", model="gpt-5"),
        messages=[Message(role=Role.USER, content="hello")],
        created_ms=1,
    )
    assert await queue.admit(request) is Admission.ACCEPTED
    (claimed,) = await queue.claim("worker-1", 1)
    await queue.finish(claimed.token, FAILED)
    details = FaultDetails(snippet="Slow down, Org-42!", guild_id=7)
    await records.save_details("r1", details)
    return Replays(records, queue, lambda: time.time_ns() // 1_000_000)


def failure(ago_s: float = 5.0, **changes: object) -> Record:
    at_ms = int((NOW.timestamp() - ago_s) * 1000)
    return a_report(error_type="rate_limited", created_ms=at_ms, **changes)


def turn(turn_id: str = "m9", in_s: float = 600.0, **changes: object) -> Record:
    done = TurnSummary(
        turn_id=turn_id,
        attempt=1,
        ended_ms=int((NOW.timestamp() + in_s) * 1000),
        state=TurnState.DONE,
        user_id=99,
        channel_id=5,
        guild_id=7,
        provider="openai",
        model="gpt-5",
    )
    return msgspec.structs.replace(done, **changes)


@pytest.mark.parametrize(
    ("known", "change", "reason"),
    [
        pytest.param([], Change(), None, id="nothing is known"),
        pytest.param([failure()], Change(), Reason.OPEN, id="it fails"),
        pytest.param([failure(ago_s=90)], Change(), None, id="it failed a while ago"),
        pytest.param([failure(), turn()], Change(), None, id="one succeeded since"),
        pytest.param([failure(), turn(in_s=-9)], Change(), Reason.OPEN, id="one succeeded before"),
        pytest.param([failure(model="other")], Change(), None, id="another model fails"),
        pytest.param([failure()], Change(model="other"), None, id="to another model"),
        pytest.param([failure()], Change(anyway=True), None, id="anyway"),
        pytest.param([turn(user_id=1)], Change(), Reason.SUPERSEDED, id="answered since"),
        pytest.param([turn(user_id=1)], Change(anyway=True), None, id="answered, anyway"),
        pytest.param([turn("m8.2", user_id=1)], Change(), None, id="a replay was answered"),
        pytest.param([turn(user_id=1, guild_id=8)], Change(), None, id="answered elsewhere"),
        pytest.param(
            [turn(user_id=1, state=TurnState.FAILED)], Change(), None, id="failed again since"
        ),
    ],
)
async def test_what_speaks_against_a_replay(
    replays: Replays,
    database: Database,
    known: list[Record],
    change: Change,
    reason: Reason | None,
):
    await write_reports(database, known, NOW)
    records = await replays.failed(FailedFilter(), 10)
    found = await evidence(database, records, NOW)
    assert (await replays.examine("m7", change, found)).reason is reason


async def test_a_resolved_cause_is_no_obstacle(replays: Replays, database: Database):
    report = a_report(error_type="rate_limited")
    await write_reports(database, [report], NOW)
    later = NOW + timedelta(seconds=1)
    await decide(database, group_hash(report), Verdict(status="resolved"), later)
    found = await evidence(database, await replays.failed(FailedFilter(), 10), later)
    assert (await replays.examine("m7", Change(), found)).reason is None


@pytest.mark.parametrize(
    ("text", "is_found"),
    [("RATE_limited", True), ("no more", True), ("org-42", True), ("nothing", False)],
)
async def test_a_failed_turn_is_found_by_what_it_said(replays: Replays, text: str, is_found: bool):
    found = await replays.failed(FailedFilter(text=text), 10)
    assert [one.turn_id for one in found] == ["m7"] * is_found


async def test_what_was_said_about_a_persons_key_is_for_that_person(replays: Replays):
    (record,) = await replays.failed(FailedFilter(), 10)
    assert await replays.said(record) == "Slow down, Org-42!"
    details = FaultDetails(snippet="Org-43", credential_source=CredentialSource.PERSONAL, user_id=1)
    await replays._records.save_details("r1", details)
    assert await replays.said(record) is None
    assert await replays.failed(FailedFilter(text="org-43"), 10) == []


def test_the_command_lists_and_leaves_out(server: RedisServer, tmp_path: Path):
    settings = {"redis_url": server.url, "cell": "cmd"}
    turnfleet = Command(tmp_path, settings)

    async def prepare() -> None:
        redis = connect(server.url)
        await fill(redis, Keys("cmd"))
        await redis.aclose()
        database = Database(database_url(None, tmp_path))
        await upgrade(database)
        report = a_report(error_type="rate_limited")
        await write_reports(database, [report], datetime.now(UTC))
        await database.close()

    asyncio.run(prepare())
    for words, is_found in (
        (("--failed", "--text", "slow down"), True),
        (("--replayable", "--cause", "rate_limited"), True),
        (("--replayable", "--guild", "8"), False),
    ):
        rows = json.loads(turnfleet("turns", "list", *words, "-o", "json").stdout)
        assert [row["turn_id"] for row in rows] == ["m7"] * is_found
    replay = ("turns", "replay", "--cause", "rate_limited", "-o", "json")
    for more, result in (
        (("--dry-run",), "cause still open"),
        (("--dry-run", "--anyway"), "would be replayed"),
        (("--yes",), "cause still open"),
        (("--yes", "--anyway"), "accepted"),
    ):
        assert json.loads(turnfleet(*replay, *more).stdout)[0]["result"] == result
    again = turnfleet(*replay, "--yes", "--anyway")
    assert (json.loads(again.stdout), "Run again before: 1." in again.stderr) == ([], True)
    assert json.loads(turnfleet("turns", "list", "--replayable", "-o", "json").stdout) == []

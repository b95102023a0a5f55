"""Which failed turns are replayed, and why the rest is not: over a real server."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from ops.cli.exits import Exit
from ops.replay.turns import Change, FailedFilter, Reason, Replays
from ops.store.engine import Database, database_url
from ops.store.errors import write_reports
from ops.store.fingerprint import group_hash
from ops.store.migrate import upgrade
from shared.config import Settings
from shared.edges.forgetting import Forgetter, Kind, Subject
from shared.edges.queue import Admission, TurnQueue
from shared.edges.records import TurnRecords
from shared.edges.redis import connect
from shared.keys import Keys
from shared.lifetimes import FAILED_TTL_MS
from shared.messages import Message, Role
from shared.segments import Segment, SegmentKind, SegmentReady, TurnDone, TurnFailed
from shared.turns import Api, Front, Route, Target, TurnRequest, next_generation
from tests.support.cli import Command
from tests.support.reports import a_report
from tests.support.servers import RedisServer, running_server

FAILED = TurnFailed(cause="overloaded", category="provider_overloaded", count=-1)
BLOCKED = TurnFailed(cause="content_filter", category="content_blocked", count=-1)
NOTHING = Change()


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


class Stage:
    """A cell whose turns end as the test says."""

    def __init__(self, url: str, cell: str) -> None:
        self.keys = Keys(cell)
        self.redis = connect(url)
        self.queue = TurnQueue(self.redis, self.keys, Settings(cell=cell))
        self.records = TurnRecords(self.redis, self.keys)
        self.replays = Replays(self.records, self.queue, lambda: time.time_ns() // 1_000_000)

    async def end(
        self, turn_id: str, event: TurnFailed | TurnDone = FAILED, *, shown: int = 0, guild: int = 7
    ) -> None:
        number = int(re.sub(r"\D", "", turn_id))
        route = Route(
            front=Front.DISCORD,
            channel_id=number,
            user_id=1,
            guild_id=guild,
            reply_to=number,
            interaction="a-token",
        )
        request = TurnRequest(
            turn_id=turn_id,
            route=route,
            target=Target(api=Api.OPENAI_CHAT, provider="openai", model="gpt-5"),
            messages=[Message(role=Role.USER, content="hello")],
            created_ms=1,
        )
        assert await self.queue.admit(request) is Admission.ACCEPTED
        (claimed,) = await self.queue.claim("worker-1", 1)
        for seq in range(1, shown + 1):
            segment = Segment(
                turn_id=turn_id, attempt=1, seq=seq, kind=SegmentKind.TEXT, text="x", start=0, end=1
            )
            await self.queue.append(claimed.token, seq, SegmentReady(segment=segment))
        await self.queue.finish(claimed.token, event)

    async def reason(self, turn_id: str, change: Change = NOTHING) -> Reason | None:
        return (await self.replays.examine(turn_id, change)).reason


@pytest.fixture
async def stage(server: RedisServer, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    stage = Stage(server.url, re.sub(r"\W", "", request.node.name))
    yield stage
    await stage.redis.aclose()


@pytest.mark.parametrize(
    ("old", "new"), [("m7", "m7.2"), ("m7.2", "m7.3"), ("l99.10", "l99.11"), ("i5", "i5.2")]
)
def test_generations_count_on(old: str, new: str):
    assert next_generation(old) == new


async def test_a_replay_is_the_same_prompt_as_a_reply_to_its_message(stage: Stage):
    await stage.end("m7")
    candidate = await stage.replays.examine("m7", NOTHING)
    assert candidate.reason is None
    assert await stage.replays.admit(candidate) is Admission.ACCEPTED
    request = await stage.records.request("m7.2")
    assert request is not None
    assert (request.replay_of, request.route.reply_to) == ("m7", 7)
    assert request.route.interaction is None
    assert request.created_ms > 1
    assert request.target.api is Api.OPENAI_CHAT


async def test_a_second_replay_is_refused_for_as_long_as_the_failure_is_kept(stage: Stage):
    await stage.end("m7")
    candidate = await stage.replays.examine("m7", NOTHING)
    await stage.replays.admit(candidate)
    assert await stage.replays.admit(candidate) is Admission.DUPLICATE
    assert await stage.reason("m7") is Reason.REPLAYED
    left_ms = await stage.redis.pttl(stage.keys.mark("m7.2"))
    assert left_ms > FAILED_TTL_MS - 60_000


async def test_another_model_is_asked_and_another_provider_in_its_own_format(stage: Stage):
    await stage.end("m7")
    for change, expected in (
        (Change(model="o9"), Target(api=Api.OPENAI_CHAT, provider="openai", model="o9")),
        (Change(provider="google", model="g"), Target(provider="google", model="g")),
    ):
        candidate = await stage.replays.examine("m7", change)
        assert candidate.request is not None
        assert candidate.request.target == expected


async def test_what_stands_in_the_way_is_told(stage: Stage):
    assert await stage.reason("m1") is Reason.UNKNOWN
    await stage.end("m2", TurnDone(count=0))
    assert await stage.reason("m2") is Reason.NOT_FAILED
    await stage.end("m3", shown=2)
    assert await stage.reason("m3") is Reason.SHOWN
    assert await stage.reason("m3", Change(allow_partial=True)) is None
    await stage.end("m4", BLOCKED)
    assert await stage.reason("m4") is Reason.REFUSED
    assert await stage.reason("m4", Change(model="gentler")) is None
    await stage.end("m5")
    await stage.redis.set(stage.keys.send_block(5), "1", px=1000)
    assert await stage.reason("m5") is Reason.CHANNEL
    await stage.end("m6")
    await stage.redis.hset(stage.keys.turn("m6"), "request", "(pickle")  # type: ignore[misc]  # redis-py types both clients
    assert await stage.reason("m6") is Reason.UNREADABLE
    await stage.redis.hdel(stage.keys.turn("m6"), "request")  # type: ignore[misc]  # redis-py types both clients
    assert await stage.reason("m6") is Reason.EXPIRED
    refused = await stage.replays.examine("m6", NOTHING)
    with pytest.raises(ValueError, match="m6 cannot be replayed"):
        await stage.replays.admit(refused)


async def test_failed_turns_are_chosen_by_what_they_are_and_come_in_their_order(stage: Stage):
    await stage.end("m1", guild=7)
    await stage.end("m2", BLOCKED, guild=7)
    await stage.end("m3", guild=8)
    for wanted, ids in (
        (FailedFilter(), ["m1", "m2", "m3"]),
        (FailedFilter(cause="overloaded"), ["m1", "m3"]),
        (FailedFilter(category="content_blocked"), ["m2"]),
        (FailedFilter(guild_id=8), ["m3"]),
        (FailedFilter(channel_id=2), ["m2"]),
        (FailedFilter(user_id=1), ["m1", "m2", "m3"]),
        (FailedFilter(user_id=2), []),
        (FailedFilter(provider="openai", model="other"), []),
        (FailedFilter(since_ms=time.time_ns() // 1_000_000 + 60_000), []),
    ):
        assert [one.turn_id for one in await stage.replays.failed(wanted, 10)] == ids, wanted
    assert len(await stage.replays.failed(FailedFilter(), 2)) == 2


@pytest.mark.parametrize(
    ("headline", "text"),
    [
        ("failure.worker_lost", "the PROCESS that wrote"),
        ("notice.lost_in_tool", "while a tool"),
        ("混み合っています", "混み合"),
        ("混み合っています", "is overloaded"),
    ],
    ids=["of the fleet", "of a tool", "as the channel reads it", "as an operator reads it"],
)
async def test_a_failure_is_found_by_its_words_in_both_languages(
    stage: Stage, headline: str, text: str
):
    lost = "worker_lost" if "混" not in headline else "overloaded"
    await stage.end("m1", msgspec.structs.replace(FAILED, cause=lost, headline=headline))
    await stage.end("m2", BLOCKED)
    found = await stage.replays.failed(FailedFilter(text=text), 10)
    assert [one.turn_id for one in found] == ["m1"]


def test_the_command_shows_first_then_does_it_once(server: RedisServer, tmp_path: Path):
    async def prepare() -> None:
        stage = Stage(server.url, "command")
        await stage.end("m1")
        await stage.end("m2", BLOCKED)
        await stage.redis.aclose()

    asyncio.run(prepare())
    turnfleet = Command(tmp_path, {"redis_url": server.url, "cell": "command"})
    words = ("turns", "replay", "--guild", "7", "--rate", "1000/s", "-o", "json")
    dry = turnfleet(*words, "--dry-run")
    assert dry.exit_code == 0
    assert [row["eligible"] for row in json.loads(dry.stdout)] == [True, False]
    assert "1 of 2 would be replayed" in dry.stderr
    for results, before in (
        (["accepted", "refused by the model"], ""),
        (["refused by the model"], "Run again before: 1."),
    ):
        done = turnfleet(*words, "--yes")
        assert [row["result"] for row in json.loads(done.stdout)] == results
        assert before in done.stderr
    assert turnfleet("turns", "replay", "m404", "--yes").exit_code == Exit.MISSING
    assert turnfleet("turns", "replay", "m2", "--yes").exit_code == Exit.FAILED


def test_a_named_turn_that_finds_no_room_is_told_to_scripts(server: RedisServer, tmp_path: Path):
    async def prepare() -> None:
        stage = Stage(server.url, "room")
        for number in range(1, 4):
            await stage.end(f"m{number}")
        await stage.redis.aclose()

    asyncio.run(prepare())
    settings = {"redis_url": server.url, "cell": "room", "guild_depth": "2"}
    words = ("turns", "replay", "m1", "m2", "m3", "--rate", "1000/s", "--yes", "-o", "json")
    done = Command(tmp_path, settings)(*words)
    results = [row["result"] for row in json.loads(done.stdout)]
    assert results == ["accepted", "accepted", "guild_full"]
    assert (done.exit_code, "2 of 3 were replayed" in done.stderr) == (Exit.FAILED, True)


def test_a_large_outage_is_replayed_part_by_part_the_oldest_first(
    server: RedisServer, tmp_path: Path
):
    async def prepare() -> None:
        stage = Stage(server.url, "outage")
        for number in range(1, 8):
            await stage.end(f"m{number}")
        await stage.redis.aclose()

    asyncio.run(prepare())
    turnfleet = Command(tmp_path, {"redis_url": server.url, "cell": "outage"})
    words = ("turns", "replay", "--cause", "overloaded", "--rate", "1000/s", "--limit", "3")
    for ids, more in ((["m1", "m2", "m3"], 4), (["m4", "m5", "m6"], 1), (["m7"], 0)):
        done = turnfleet(*words, "--yes", "-o", "json")
        rows = json.loads(done.stdout)
        assert [row["turn_id"] for row in rows] == ids
        assert {row["result"] for row in rows} == {"accepted"}
        assert (f"More match: {more}." in done.stderr) == bool(more)


async def test_who_is_forgotten_while_others_are_replayed_does_not_come_back(
    stage: Stage, server: RedisServer, tmp_path: Path
):
    for number in (1, 2):
        await stage.end(f"m{number}")
    turnfleet = Command(tmp_path, {"redis_url": server.url, "cell": stage.keys.cell})
    words = ("turns", "replay", "--guild", "7", "--rate", "1/s", "--yes", "-o", "json")
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        running = group.create_task(asyncio.to_thread(turnfleet, *words))
        while not await stage.records.is_known("m1.2"):
            await asyncio.sleep(0.01)
        person = Subject(Kind.USER, 1)
        await Forgetter(stage.redis, stage.keys, stage.queue).forget(person)
    rows = json.loads(running.result().stdout)
    assert [row["result"] for row in rows] == ["accepted", "unknown"]
    assert not await stage.records.is_known("m2.2")


async def test_what_is_owed_is_asked_in_few_round_trips(stage: Stage):
    """The page of a cause asks it whenever it is opened, after an outage for thousands of turns."""
    for number in range(1, 41):
        await stage.end(f"m{number}")
    before = await reads(stage)
    found, replayed = await stage.replays.owed(FailedFilter())
    assert (len(found), replayed) == (40, 0)
    assert await reads(stage) - before < 20


async def reads(stage: Stage) -> int:
    info = await stage.redis.info("stats")
    return int(info["total_reads_processed"])


def test_a_group_of_failures_is_replayed_and_not_another_with_the_same_cause(
    server: RedisServer, tmp_path: Path
):
    """Two keys are refused, and one of them was replaced."""
    refused = TurnFailed(cause="invalid_key", category="api_error", count=-1)
    reports = [a_report(turn_id=f"m{n}", key_id=f"{n}" * 12) for n in (1, 2)]

    async def prepare() -> None:
        stage, database = Stage(server.url, "group"), Database(database_url(None, tmp_path))
        await upgrade(database)
        for one in reports:
            await stage.end(str(one.turn_id), refused)
        await write_reports(database, reports, datetime.now(UTC))
        await database.close()
        await stage.redis.aclose()

    asyncio.run(prepare())
    turnfleet = Command(tmp_path, {"redis_url": server.url, "cell": "group"})
    for report in reports:
        part = group_hash(report)[:12]
        for words in (("list", "--failed"), ("replay", "--dry-run")):
            done = turnfleet("turns", *words, "--cause", part, "-o", "json")
            assert [row["turn_id"] for row in json.loads(done.stdout)] == [report.turn_id]
    unknown = turnfleet("turns", "list", "--failed", "--cause", "0" * 12)
    assert (unknown.exit_code, "errors top" in unknown.stderr) == (Exit.MISSING, True)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("m1", "--rate", "fast"),
        ("m1", "--rate", "0/s"),
        ("m1", "--with", "colour=blue"),
        ("m1", "--with", "model="),
        ("m1", "--diff"),
        ("--recorded",),
        ("--since", "soon"),
        ("--cause", "", "--yes"),
        ("--text", " ", "--yes"),
        ("--provider", "", "--guild", "7"),
        ("",),
    ],
    ids=lambda words: " ".join(words) or "nothing",
)
def test_wrong_options_are_bad_input(server: RedisServer, tmp_path: Path, words: tuple[str, ...]):
    turnfleet = Command(tmp_path, {"redis_url": server.url})
    assert turnfleet("turns", "replay", *words).exit_code == Exit.BAD_INPUT


def test_what_is_not_asked_to_be_done_is_only_shown(server: RedisServer, tmp_path: Path):
    """In a script, too: there stdout is no terminal."""

    async def prepare() -> None:
        stage = Stage(server.url, "shown")
        await stage.end("m1")
        await stage.redis.aclose()

    asyncio.run(prepare())
    turnfleet = Command(tmp_path, {"redis_url": server.url, "cell": "shown"})
    for words in (("--guild", "7"), ("m1",)):
        (row,) = json.loads(turnfleet("turns", "replay", *words, "-o", "json").stdout)
        assert row["result"] == "would be replayed"


def test_a_turn_without_a_recording_says_so(server: RedisServer, tmp_path: Path):
    turnfleet = Command(tmp_path, {"redis_url": server.url})
    for words in (("replay", "m404", "--recorded"), ("export", "m404")):
        result = turnfleet("turns", *words)
        assert (result.exit_code, "m404" in result.stderr) == (Exit.MISSING, True)
    empty = turnfleet("turns", "replay", str(tmp_path), "--recorded")
    assert empty.exit_code == Exit.BAD_INPUT


def test_a_changed_target_is_a_value():
    assert msgspec.structs.replace(NOTHING, model="x").target(
        Target(provider="p", model="m")
    ) == Target(provider="p", model="x")


async def test_a_replay_may_wait_before_it_is_started(stage: Stage):
    """Many at once are paced by the queue, not by who asks for them."""
    await stage.end("m7")
    candidate = await stage.replays.examine("m7", NOTHING)
    assert await stage.replays.admit(candidate, wait_s=0.2) is Admission.ACCEPTED
    assert await stage.queue.claim("worker-1", 1) == []
    async with asyncio.timeout(5):
        while not await stage.queue.claim("worker-1", 1):
            await asyncio.sleep(0.01)

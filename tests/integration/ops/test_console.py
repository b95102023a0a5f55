"""The console over a real server and both databases: pages, twins, forms, and who may what."""

import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import httpx
import pytest

from ops.console.access import Access
from ops.console.app import console_app
from ops.console.desk import Desk
from ops.replay.turns import Replays
from ops.store.engine import Database
from ops.store.errors import write_reports
from ops.triage.causes import top_causes
from ops.triage.errors import ErrorFilter
from shared.config import Settings
from shared.edges.backlog import Backlog
from shared.edges.local_channel import LocalChannel
from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords, this_process
from shared.edges.redis import connect
from shared.keys import Keys
from shared.messages import Message, Role
from shared.segments import TurnFailed
from shared.turns import Front, Route, Target, TurnOutcome, TurnRequest, TurnState
from tests.support.reports import a_report
from tests.support.servers import RedisServer, running_server
from tests.support.turns import turn

HOSTILE = "<script>alert(1)</script> \x1b[31m \u202e =cmd()"
TOKEN = "a-long-token-for-tests"
PAGES = ("/", "/causes", "/errors", "/turns", "/workers", "/channels", "/channels/5")


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


class Stage:
    """A fleet with a failed turn and its error, and consoles to look at it."""

    def __init__(self, redis_url: str, database: Database, cell: str) -> None:
        self.keys = Keys(cell)
        self.redis = connect(redis_url)
        self.queue = TurnQueue(self.redis, self.keys, Settings(cell=cell))
        self.records = TurnRecords(self.redis, self.keys)
        self.channel = LocalChannel(self.redis, self.keys)
        self.database = database

    async def fail(self, turn_id: str = "l5", **facts: object) -> None:
        route = Route(front=Front.LOCAL, channel_id=5, user_id=1, guild_id=4242, reply_to=5)
        request = TurnRequest(
            turn_id=turn_id,
            route=route,
            target=Target(provider="openai", model="gpt-5"),
            messages=[Message(role=Role.USER, content="hello")],
            created_ms=1,
        )
        await self.queue.admit(request)
        (claimed,) = await self.queue.claim("worker-1", 1)
        event = TurnFailed(cause="invalid_key", category="api_error", headline="Refused.")
        outcome = TurnOutcome(state=TurnState.FAILED, segments=0, cause="invalid_key")
        await self.queue.finish(claimed.token, event, outcome)
        told = {"message": HOSTILE, "turn_id": turn_id, "stack_trace": HOSTILE, "model": HOSTILE}
        report = a_report(**{**told, **facts})
        await write_reports(self.database, [report], datetime.now(UTC))

    async def cause(self) -> tuple[str, str]:
        (top,) = await top_causes(self.database, ErrorFilter())
        return top.group_hash, top.status

    @asynccontextmanager
    async def visit(
        self, *, write: bool = True, token: str | None = None
    ) -> AsyncIterator[httpx.AsyncClient]:
        desk = Desk(
            cell="main",
            records=self.records,
            queue=self.queue,
            channel=self.channel,
            database=self.database,
            replays=Replays(self.records, self.queue, lambda: time.time_ns() // 1_000_000),
            backlog=Backlog(self.redis, self.keys),
            now_ms=lambda: time.time_ns() // 1_000_000,
            writable=self.database if write else None,
        )
        access = Access(token=token, hosts=frozenset({"localhost"}))
        transport = httpx.ASGITransport(app=console_app(desk, access))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client


@pytest.fixture
async def stage(
    server: RedisServer, database: Database, request: pytest.FixtureRequest
) -> AsyncIterator[Stage]:
    stage = Stage(server.url, database, re.sub(r"\W", "", request.node.name))
    yield stage
    await stage.redis.aclose()


async def csrf(client: httpx.AsyncClient, path: str) -> str:
    found = re.search(r'name="csrf" value="(\w+)"', (await client.get(path)).text)
    assert found is not None
    return found[1]


async def test_each_page_and_its_twin_show_a_failed_turn_safely(stage: Stage):
    await stage.fail()
    await stage.channel.say(5, HOSTILE)
    name, _ = await stage.cause()
    async with stage.visit() as client:
        (error,) = (await client.get("/errors.json")).json()["errors"]
        for path in (*PAGES, f"/causes/{name}", f"/errors/{error['id']}", "/turns/l5"):
            answer = await client.get(path)
            assert answer.status_code == 200, path
            assert "alert(1)</script>" not in answer.text, path
            assert not re.search(r"[\x1b\u202e]", answer.text), path
            assert "<style" not in answer.text
            assert " style=" not in answer.text
            twin = await client.get("/now.json" if path == "/" else f"{path}.json")
            assert twin.status_code == 200, path
            assert isinstance(twin.json(), dict)
        assert "l5" in (await client.get("/turns")).text
        assert "invalid_key" in (await client.get("/causes")).text


@pytest.mark.parametrize(
    ("query", "is_found"),
    [
        ("guild=4242", True),
        ("guild=1", False),
        ("cause=invalid_key", True),
        ("cause=overloaded", False),
        ("provider=openai&model=gpt-5&since=1h", True),
    ],
)
async def test_a_failed_turn_is_found_by_filters_in_the_address(
    stage: Stage, query: str, is_found: bool
):
    await stage.fail()
    async with stage.visit() as client:
        rows = (await client.get(f"/turns.json?{query}")).json()["turns"]
    assert [row["turn_id"] for row in rows] == ["l5"] * is_found


async def test_the_page_of_causes_says_where_they_strike_and_narrows(stage: Stage):
    await stage.fail("l5", provider="a&b", key_id="k")
    await stage.fail("l6", provider="other", guild_id=7)
    async with stage.visit() as client:
        where = (await client.get("/causes.json", params={"since": "1h"})).json()["where"]
        assert {one["value"]: one["errors"] for one in where["provider"]} == {"a&b": 1, "other": 1}
        narrowed = next(one["query"] for one in where["provider"] if one["value"] == "a&b")
        assert narrowed == "since=1h&provider=a%26b"
        assert "provider=a%26b" in (await client.get("/causes")).text
        (cause,) = (await client.get(f"/causes.json?{narrowed}")).json()["causes"]
        assert (cause["errors"], cause["guilds"]) == (1, 1)


async def test_an_error_is_found_by_its_text(stage: Stage):
    await stage.fail()
    async with stage.visit() as client:
        for text, count in (("ALERT(1)", 1), ("nothing of it", 0), ("%", 0)):
            answer = await client.get("/errors.json", params={"text": text})
            assert len(answer.json()["errors"]) == count, text


async def test_a_button_pressed_twice_replays_once(stage: Stage):
    await stage.fail()
    async with stage.visit() as client:
        form = {"csrf": await csrf(client, "/turns/l5"), "model": "other"}
        for _ in range(2):
            answer = await client.post("/turns/l5", data=form)
            assert answer.headers["location"] == "/turns/l5.2"
        assert "/turns/l5.2" in (await client.get("/turns/l5")).text
    record = await stage.records.turn("l5.2")
    assert record is not None
    assert (record.facts.replay_of, record.facts.model) == ("l5", "other")
    assert await stage.records.state("l5.3") is None


async def test_a_cause_is_resolved_and_reopened(stage: Stage):
    await stage.fail()
    name, _ = await stage.cause()
    async with stage.visit() as client:
        form = {"csrf": await csrf(client, f"/causes/{name}"), "note": HOSTILE}
        for status in ("resolved", "muted", "open"):
            await client.post(f"/causes/{name}", data=form | {"status": status})
            assert await stage.cause() == (name, status)
        wrong = await client.post(f"/causes/{name}", data=form | {"status": "deleted"})
        assert wrong.status_code == 400


async def test_a_cause_is_replayed_from_its_page_once_for_each_turn(stage: Stage):
    await stage.fail()
    await write_reports(stage.database, [a_report(turn_id="l5")], datetime.now(UTC))
    name, _ = await stage.cause()
    async with stage.visit() as client:
        page = (await client.get(f"/causes/{name}")).text
        assert "cause still open" in page
        form = {"csrf": await csrf(client, f"/causes/{name}")}
        path = f"/causes/{name}/replay"
        for more, result, count in (
            ({}, "cause still open", 0),
            ({"anyway": "1"}, "accepted", 1),
            ({"anyway": "1"}, "Before: 1.", 0),
        ):
            shown = (await client.post(path, data=form | more)).text
            assert result in shown
            assert f"Run again now: {count}." in shown
        assert (await client.post("/causes/none/replay", data=form)).status_code == 404
    assert await stage.records.state("l5.3") is None


async def test_the_page_of_a_cause_has_the_turns_of_its_group_alone(stage: Stage):
    """Another key was refused, too: replaying that one's turns would fail once more."""
    await stage.fail("l5")
    (name, _) = await stage.cause()
    await stage.fail("l6", key_id="b" * 12)
    async with stage.visit() as client:
        page = (await client.get(f"/causes/{name}.json")).json()
        assert [one["turn_id"] for one in page["turns"]] == ["l5"]
        turns = (await client.get("/turns.json", params={"cause": name})).json()["turns"]
        assert [one["turn_id"] for one in turns] == ["l5"]
        form = {"csrf": await csrf(client, f"/causes/{name}"), "anyway": "1"}
        shown = (await client.post(f"/causes/{name}/replay", data=form)).text
        assert "Run again now: 1." in shown
    assert await stage.records.state("l6.2") is None


async def test_a_large_outage_is_replayed_press_by_press(stage: Stage):
    """The first that are looked at cannot be replayed, and do not stand in the way of the rest."""
    for number in range(10, 35):
        await stage.fail(f"l{number}")
    for number in range(10, 12):
        await stage.redis.hdel(stage.keys.turn(f"l{number}"), "request")  # type: ignore[misc]  # redis-py types both clients
    name, _ = await stage.cause()
    async with stage.visit() as client:
        form = {"csrf": await csrf(client, f"/causes/{name}"), "anyway": "1"}
        for count, words in ((20, "More wait: 3."), (3, "Before: 20."), (0, "Before: 23.")):
            shown = (await client.post(f"/causes/{name}/replay", data=form)).text
            assert f"Run again now: {count}." in shown
            assert words in shown
            assert shown.count("request gone") == 2
    for number in range(12, 35):
        assert await stage.records.state(f"l{number}.2") is not None
        assert await stage.records.state(f"l{number}.3") is None


@pytest.mark.parametrize(
    ("typed", "place"),
    [
        ("l5", "/turns/l5"),
        ("invalid_key", "/causes?all=1&cause=invalid_key"),
        ("4242", "/turns?since=3d&guild=4242"),
        ("5", "/turns?since=3d&channel=5"),
        ("1", "/turns?since=3d&user=1"),
        ("77", "/turns?since=3d&guild=77"),
        ("alert(1)", "/errors?since=7d&text=alert%281%29"),
        ("no such words", "/turns?since=3d&text=no+such+words"),
        ("", "/"),
    ],
)
async def test_the_field_finds_what_is_typed(stage: Stage, typed: str, place: str):
    await stage.fail()
    async with stage.visit() as client:
        answer = await client.get("/find", params={"q": typed})
        assert answer.headers["location"] == place
        assert (await client.get(place)).status_code == 200


async def test_the_field_finds_errors_and_causes_by_a_part(stage: Stage):
    await stage.fail()
    name, _ = await stage.cause()
    async with stage.visit() as client:
        (error,) = (await client.get("/errors.json")).json()["errors"]
        for part, place in ((error["id"][-10:], f"/errors/{error['id']}"), (name[:9], name)):
            answer = await client.get("/find", params={"q": part})
            assert answer.headers["location"].endswith(place)


async def test_the_first_page_says_what_is_wrong(stage: Stage):
    async with stage.visit() as client:
        alarms = [one["what"] for one in (await client.get("/now.json")).json()["alarms"]]
        assert [what.split(":")[0] for what in alarms] == [
            *("No worker runs", "No gateway runs", "No recorder runs")
        ]
        now_ms = time.time_ns() // 1_000_000
        for role in ("worker", "gateway", "recorder"):
            one = this_process(f"{role}-1", role, started_ms=now_ms, now_ms=now_ms)
            await stage.records.report_process(one)
        assert "All is well" in (await client.get("/")).text
        late = f"{now_ms - 90_000}-0"
        await stage.redis.xadd(stage.keys.out(1), {"x": "1"}, id=late)
        await stage.redis.xadd(stage.keys.errors, {"v": "1"}, id=late)
        await stage.redis.xadd(stage.keys.buried, {"v": "1"})
        await write_reports(stage.database, [a_report() for _ in range(12)], datetime.now(UTC))
        facts = (await client.get("/now.json")).json()
        assert len(facts["alarms"]) == 4
        assert facts["waiting"]["delivery_ms"] >= 90_000


async def test_the_first_page_says_what_does_not_start(stage: Stage):
    await stage.fail("l6")  # the turn of before leaves nothing that waits
    await stage.queue.pause("provider:openai", 600)
    await stage.queue.pause("guild:4242")
    await stage.queue.pause("rest:openai:server", 30)  # a worker's word, not an operator's
    await stage.queue.admit(turn("l7", guild=4242, target=Target(provider="openai", model="m")))
    async with stage.visit() as client:
        page = (await client.get("/")).text
        assert "provider:openai is paused for 9 min: its turns wait." in page
        assert "turnfleet fleet resume guild:4242" in page
        assert "rest:openai" not in page
        assert "no worker takes it" not in page
        late_ms = time.time_ns() // 1_000_000 - 45_000
        await stage.redis.hset(stage.keys.turn("l7"), "enqueued", str(late_ms))  # type: ignore[misc]  # redis-py types both clients
        facts = (await client.get("/now.json")).json()
        assert facts["waiting"]["start_ms"] >= 45_000
        assert "A prompt has waited for 45 s, and no worker takes it." in str(facts["alarms"])


async def test_talk_arrives_in_the_channel(stage: Stage):
    async with stage.visit() as client:
        form = {"csrf": await csrf(client, "/channels/9"), "text": "hello"}
        assert (await client.post("/channels/9", data=form)).status_code == 303
        assert (await client.post("/channels/9", data=form | {"text": " "})).status_code == 400
    assert [one.text for one in await stage.channel.messages(9)] == ["hello"]


async def test_a_console_that_only_shows_changes_nothing(stage: Stage):
    await stage.fail()
    name, _ = await stage.cause()
    async with stage.visit(write=False) as client:
        for path in ("/turns/l5", f"/causes/{name}", "/channels/5"):
            assert 'method="post"' not in (await client.get(path)).text
            assert (await client.post(path, data={"status": "muted"})).status_code == 403
    assert await stage.cause() == (name, "open")


@pytest.mark.parametrize("mark", ["", "0" * 64])
async def test_a_foreign_form_changes_nothing(stage: Stage, mark: str):
    await stage.fail()
    async with stage.visit() as client:
        await client.get("/turns/l5")
        answer = await client.post("/turns/l5", data={"csrf": mark})
    assert answer.status_code == 403
    assert await stage.records.state("l5.2") is None


async def test_a_token_is_asked_for(stage: Stage):
    async with stage.visit(token=TOKEN) as client:
        assert (await client.get("/turns")).headers["location"] == "/login"
        assert (await client.get("/turns.json")).status_code == 401
        bearer = {"authorization": f"Bearer {TOKEN}"}
        assert (await client.get("/turns.json", headers=bearer)).status_code == 200
        form = {"csrf": await csrf(client, "/login")}
        assert (await client.post("/login", data=form | {"token": "wrong"})).status_code == 403
        assert (await client.get("/turns")).status_code == 303
        assert (await client.post("/login", data=form | {"token": TOKEN})).status_code == 303
        assert (await client.get("/turns")).status_code == 200


async def test_every_answer_has_the_policy_and_foreign_names_get_none(stage: Stage):
    async with stage.visit() as client:
        for path in ("/", "/nothing", "/static/console.css", "/turns/unknown", "/healthz"):
            policy = (await client.get(path)).headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
        rebound = await client.get("/", headers={"host": "evil.example"})
        assert rebound.status_code == 421
        large = await client.post("/login", content=b"x" * 70_000)
        assert large.status_code == 413


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/turns?since=soon", 400),
        ("/turns?guild=abc", 400),
        ("/errors?guild=" + "0" * 19 + "1" * 5_000, 400),
        ("/channels/open?id=" + "0" * 5_000, 400),
        ("/channels/" + "1" * 5_000, 404),
        ("/find?q=" + "0" * 5_000, 303),
        ("/turns/l404", 404),
        ("/causes/none", 404),
        ("/errors/none", 404),
        ("/channels/open?id=x", 400),
        (f"/channels/{2**63}", 404),
        ("/static/../access.py", 404),
    ],
)
async def test_what_is_wrong_is_said(stage: Stage, path: str, status: int):
    async with stage.visit() as client:
        assert (await client.get(path)).status_code == status

"""A person and a guild are forgotten: nothing of theirs is left, and everything of others is."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gateway.asks import KeptTable
from gateway.edges.departures import Departures
from gateway.edges.people import StoredMemory
from gateway.edges.store import GatewayFleet
from gateway.front import Change, PlaceChanged, PlaceGone
from ops.acl import patterns_of
from ops.store.engine import Database, database_url
from ops.store.errors import write_reports
from ops.store.forgotten import Forgotten, receipt, without
from ops.store.migrate import upgrade
from shared.edges.credentials import CredentialStore, StoredCredential
from shared.edges.forgetting import (
    KEEPS,
    LIMITS,
    OPERATORS,
    OWNED,
    REMOVAL_DELAY_MS,
    Forgetter,
    Kind,
    Subject,
)
from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords
from shared.errors import ConfigError, StoreUnavailable, WireError
from shared.failures import ErrorReport, Fault, ReportCategory, Severity
from shared.keys import Keys
from shared.sealed import CredentialRef
from shared.segments import TurnFailed
from shared.turns import CredentialSource
from tests.support.channel import MemoryReporter
from tests.support.turns import claim_one, turn

USER, OTHER = 187_001_234_567_890_123, 187_001_234_567_890_777
GUILD, ELSEWHERE = 287_001_234_567_890_123, 287_001_234_567_890_777
CHANNEL = 387_001_234_567_890_123
FAILED = TurnFailed(cause="internal_error", category="internal", count=-1, report_id="r1")


@pytest.fixture
def forgetter(client: Any, keys: Keys, queue: TurnQueue) -> Forgetter:
    return Forgetter(client, keys, queue)


async def furnish(queue: TurnQueue, keys: Keys, user: int, guild: int, number: int) -> None:
    """What a person in a guild leaves behind: turns in every state, talk, choices, keys, costs."""
    redis: Any = queue.redis
    channel = CHANNEL + number
    for name in ("a", "b"):
        await queue.admit(turn(f"m{number}{name}", channel=channel, guild=guild, user=user))
        if name == "a":
            failed = await claim_one(queue)
            await queue.finish(failed.token, FAILED)
    await TurnRecords(redis, keys).save_recording(f"m{number}a", 1, b"bytes of a provider")
    said = f'{{"author_id":{user},"text":"private words"}}'
    await redis.hset(keys.history(channel), str(number), said)
    table = KeptTable(text="| a |", channel_id=channel, user_id=user, guild_id=guild)
    await GatewayFleet(queue).keep_source(f"table{number}", table)
    await redis.hset(keys.choices, mapping={f"user:{user}": "{}", f"guild:{guild}": "{}"})
    await redis.hset(keys.person(user), f"m{number}b", "1")
    for scope, owner in (("user", user), ("guild", guild)):
        await redis.hset(keys.spend(scope, str(owner), "2026-01"), "cost", "1")
    store = CredentialStore(redis, keys)
    for source, owner in ((CredentialSource.PERSONAL, user), (CredentialSource.SERVER, guild)):
        ref = CredentialRef(scope=source, owner_id=owner, provider="openai")
        new = StoredCredential(ref=ref, version=1, changed_ms=1, box=b"box")
        await store.put(new, word="added", actor=f"user:{user}")


async def found(redis: Any, number: int) -> set[str]:
    """The keys in whose name or value a number stands."""
    names = set()
    wanted = re.compile(rf"(?<!\d){number}(?!\d)".encode())
    async for name in redis.scan_iter():
        value = await redis.dump(name) or b""
        text = await redis.hgetall(name) if await redis.type(name) == b"hash" else value
        if wanted.search(name) or wanted.search(repr(text).encode()):
            names.add(name.decode())
    return names


def first_words(names: set[str]) -> set[str]:
    return {name.partition("}:")[2].split(":")[0] or "arq" for name in names}


@pytest.mark.parametrize(
    ("subject", "number"),
    [
        pytest.param(Subject(Kind.USER, USER), USER, id="person"),
        pytest.param(Subject(Kind.GUILD, GUILD), GUILD, id="guild"),
    ],
)
async def test_nothing_of_a_subject_is_left_and_all_of_others_is(
    forgetter: Forgetter, queue: TurnQueue, keys: Keys, client: Any, subject: Subject, number: int
):
    await furnish(queue, keys, USER, GUILD, 1)
    await furnish(queue, keys, OTHER, ELSEWHERE, 2)
    other = OTHER if subject.kind is Kind.USER else ELSEWHERE
    before = await found(client, other)
    assert len(await found(client, number)) > 6
    counts = await forgetter.forget(subject)
    assert counts["turns"] == 2
    assert counts["keys"] > 4
    assert counts["values"] > 2
    left = await found(client, number)
    # The list of whom the recorder takes out of the rows, and streams that empty themselves.
    assert first_words(left) <= {"forget", "out", "j"}, left
    assert await found(client, other) == before
    assert await client.zrange(keys.failed, 0, -1) == [b"m2a"]
    assert await TurnRecords(client, keys).load_recording("m1a", 1) is None
    assert await client.hexists(keys.forgotten, subject.digest)


async def test_the_queue_counts_right_afterwards(
    forgetter: Forgetter, queue: TurnQueue, keys: Keys, client: Any
):
    await furnish(queue, keys, USER, GUILD, 1)
    await furnish(queue, keys, OTHER, ELSEWHERE, 2)
    await forgetter.forget(Subject(Kind.GUILD, GUILD))
    load = await TurnRecords(client, keys).load()
    assert (load.queued, load.running) == (1, 0)
    assert (await claim_one(queue)).token.turn_id == "m2b"


async def test_forgetting_again_finds_nothing(forgetter: Forgetter, queue: TurnQueue, keys: Keys):
    await furnish(queue, keys, USER, GUILD, 1)
    await forgetter.forget(Subject(Kind.USER, USER))
    again = await forgetter.forget(Subject(Kind.USER, USER))
    assert sum(again.values()) == 0


class Expiring:
    """A client whose turns are gone when they are asked for: their time ended after the listing."""

    def __init__(self, redis: Any) -> None:
        self._redis = redis
        self.gone: set[bytes] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._redis, name)

    async def hmget(self, name: bytes, *fields: str) -> Any:
        if name in self.gone:
            await self._redis.unlink(name)
        return await self._redis.hmget(name, *fields)


@pytest.mark.parametrize("left", [None, b"", b"no route"], ids=["gone", "empty", "odd"])
async def test_a_turn_without_a_route_that_can_be_read_is_passed_over(
    queue: TurnQueue, keys: Keys, client: Any, left: bytes | None
):
    await furnish(queue, keys, USER, GUILD, 1)
    await furnish(queue, keys, OTHER, ELSEWHERE, 2)
    expiring = Expiring(client)
    if left is None:
        expiring.gone.add(keys.turn("m2a").encode())
    else:
        await client.hset(keys.turn("m2a"), "route", left)
    forgetter = Forgetter(expiring, keys, queue)  # type: ignore[arg-type]  # all of a client's
    counts = await forgetter.forget(Subject(Kind.USER, USER))
    assert counts["turns"] == 2
    assert not await client.exists(keys.turn("m1a"))


async def test_a_turn_with_a_route_of_another_version_is_known_by_the_id_in_it(
    forgetter: Forgetter, queue: TurnQueue, keys: Keys, client: Any
):
    for user, name in ((USER, "m1"), (OTHER, "m2")):
        await queue.admit(turn(name, user=user))
        await client.hset(keys.turn(name), "route", f'{{"front":"smoke","user_id":{user}}}')
    assert (await forgetter.forget(Subject(Kind.USER, USER)))["turns"] == 1
    assert not await client.exists(keys.turn("m1"))
    assert await client.exists(keys.turn("m2"))


async def test_a_short_number_is_an_id_only_where_a_name_says_so(
    forgetter: Forgetter, client: Any, keys: Keys
):
    await client.hset(keys.choices, mapping={"user:7": "{}", "user:77": "{}", "guild:7": "{}"})
    await client.hset(keys.history(5), mapping={"1": '{"author_id":7}', "7": '{"author_id":77}'})
    await forgetter.forget(Subject(Kind.USER, 7))
    assert set(await client.hkeys(keys.choices)) == {b"user:77", b"guild:7"}
    assert await client.hkeys(keys.history(5)) == [b"7"]


async def test_whoever_a_guild_names_cannot_erase_what_it_chose(
    forgetter: Forgetter, client: Any, keys: Keys
):
    denied = f'{{"speak":"always","access":{{"deny_users":[{USER}]}}}}'
    await client.hset(keys.choices, mapping={f"guild:{GUILD}": denied, f"user:{USER}": "{}"})
    await forgetter.forget(Subject(Kind.USER, USER))
    assert await client.hkeys(keys.choices) == [f"guild:{GUILD}".encode()]


async def test_nobody_spends_anew_by_being_forgotten(queue: TurnQueue, keys: Keys, client: Any):
    await furnish(queue, keys, USER, GUILD, 1)
    await StoredMemory(queue).forget(USER)
    assert await client.exists(keys.spend("user", str(USER), "2026-01"), keys.person(USER)) == 2
    await Forgetter(client, keys, queue).forget(Subject(Kind.USER, USER))
    assert await client.exists(keys.spend("user", str(USER), "2026-01"), keys.person(USER)) == 0


def test_what_is_left_alone_exists():
    words = {name.partition("}:")[2].split(":")[0] for name in patterns_of(Keys()).values()}
    assert (KEEPS | OPERATORS | LIMITS | OWNED) - {"arq"} <= words


@pytest.mark.parametrize("text", ["user", "user:", "user:x", "role:7", ""])
def test_who_is_nobody_is_refused(text: str):
    with pytest.raises(ConfigError):
        Subject.parsed(text)


class Heard:
    def __init__(self) -> None:
        self.changes: list[Change] = []

    async def heed(self, change: Change, _bot_id: int) -> None:
        self.changes.append(change)


async def test_a_guild_that_left_is_forgotten_after_a_month_unless_it_comes_back(
    forgetter: Forgetter, queue: TurnQueue, keys: Keys, client: Any
):
    await furnish(queue, keys, USER, GUILD, 1)
    await furnish(queue, keys, OTHER, ELSEWHERE, 2)
    heard, now = Heard(), [1_000]
    departures = Departures(heard.heed, forgetter, now_ms=lambda: now[0])
    changes: list[Change] = [PlaceGone(guild_id=GUILD), PlaceGone(guild_id=ELSEWHERE)]
    changes += [PlaceChanged(guild_id=ELSEWHERE), PlaceGone(channel_id=1, guild_id=9)]
    for change in changes:
        await departures.heed(change, 1)
    assert len(heard.changes) == 4
    assert await departures.look() == 0
    now[0] += REMOVAL_DELAY_MS
    assert await departures.look() == 1
    assert await departures.look() == 0
    assert not await client.exists(keys.turn("m1a"))
    assert await client.exists(keys.turn("m2a"))


class Failing(Forgetter):
    """Fails with one guild."""

    def __init__(self, redis: Any, keys: Keys, queue: TurnQueue, error: Exception) -> None:
        super().__init__(redis, keys, queue)
        self._error: Exception | None = error

    def heal(self) -> None:
        self._error = None

    async def forget(self, subject: Subject) -> dict[str, int]:
        if subject.id == GUILD and self._error is not None:
            raise self._error
        return await super().forget(subject)


async def test_a_guild_that_cannot_be_forgotten_is_reported_and_stays_due(
    queue: TurnQueue, keys: Keys, client: Any
):
    await furnish(queue, keys, USER, GUILD, 1)
    await furnish(queue, keys, OTHER, ELSEWHERE, 2)
    forgetter = Failing(client, keys, queue, WireError("a route of another version"))
    reporter = MemoryReporter()
    departures = Departures(Heard().heed, forgetter, now_ms=lambda: 2_000, tell=reporter.report)
    for guild in (GUILD, ELSEWHERE):
        await forgetter.schedule(Subject(Kind.GUILD, guild), 1_000)
    await client.zadd(keys.forget_due, {"nobody": 1_000})
    assert await departures.look() == 1
    assert not await client.exists(keys.turn("m2a"))
    assert await client.exists(keys.turn("m1a"))
    assert len(reporter.reports) == 2
    assert all(one.stage == "departures" and one.stack_trace for one in reporter.reports)
    assert str(GUILD) not in str(reporter.reports)
    forgetter.heal()
    assert await departures.look() == 1
    assert not await client.exists(keys.turn("m1a"))


async def test_a_server_that_is_away_ends_the_look_and_is_no_failure_of_a_guild(
    queue: TurnQueue, keys: Keys, client: Any
):
    forgetter = Failing(client, keys, queue, StoreUnavailable())
    reporter = MemoryReporter()
    departures = Departures(Heard().heed, forgetter, now_ms=lambda: 2_000, tell=reporter.report)
    await forgetter.schedule(Subject(Kind.GUILD, GUILD), 1_000)
    with pytest.raises(StoreUnavailable):
        await departures.look()
    assert reporter.reports == []


def report(number: int, user: int, guild: int) -> ErrorReport:
    return ErrorReport(
        id=f"r{number}",
        created_ms=1_700_000_000_000,
        severity=Severity.ERROR,
        category=ReportCategory.INTERNAL,
        error_type="internal_error",
        stage="worker",
        fault=Fault.TURNFLEET,
        message="no",
        user_id=user,
        guild_id=guild,
    )


async def test_rows_follow_and_late_reports_come_without_the_id(
    forgetter: Forgetter, keys: Keys, client: Any, tmp_path: Path
):
    database = Database(database_url(None, tmp_path))
    try:
        await upgrade(database)
        forgotten = Forgotten(database, client, keys)
        early = [report(1, USER, GUILD), report(2, OTHER, GUILD)]
        await write_reports(database, early, datetime.now(UTC))
        await forgetter.forget(Subject(Kind.USER, USER))
        assert await forgotten.follow() > 0
        assert await forgotten.follow() == 0
        (late,) = without([report(3, USER, GUILD)], await forgotten.digests())
        assert (late.user_id, late.guild_id) == (None, GUILD)
        (kept,) = without([report(4, OTHER, GUILD)], await forgotten.digests())
        assert kept.user_id == OTHER
    finally:
        await database.close()


def test_a_receipt_does_not_name_whom_it_is_for():
    text = str(receipt(Subject(Kind.USER, USER), {"turns": 2, "rows": 3}))
    assert str(USER) not in text
    assert "'turns': 2" in text

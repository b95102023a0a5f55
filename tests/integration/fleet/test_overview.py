"""What an operator and a waiting person are told, and the audit of the queue's books."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from shared.edges.backlog import Backlog
from shared.edges.overview import Finding, Overview, Why
from shared.edges.queue import TurnQueue
from shared.edges.redis import within
from shared.keys import Keys
from shared.segments import TurnDone
from shared.turns import Target, TurnState
from tests.support.turns import claim_one, lease_ended, turn, with_policy

DONE = TurnDone(count=0)


@pytest.fixture
def overview(queue: TurnQueue) -> Overview:
    return Overview(queue)


async def test_the_status_counts_what_waits_and_runs(queue: TurnQueue, overview: Overview):
    await queue.admit(turn("r1", channel=1, guild=1))
    await queue.claim("w1", 1)
    await queue.admit(turn("q1", channel=1, guild=1))
    await queue.admit(turn("d1", channel=2, guild=2, wait_ms=60_000))
    await queue.pause("provider:other")
    await queue.pause("guild:9", 60)
    await queue.admit(turn("p1", channel=3, guild=3, target=Target(provider="other", model="m")))
    assert await queue.claim("w1", 8) == []
    status = await overview.status()
    rows = {one.guild: (one.queued, one.running, one.parked, one.delayed) for one in status.guilds}
    assert rows == {"1": (1, 1, 0, 0), "2": (1, 0, 0, 1), "3": (1, 0, 1, 0)}
    assert [one.guild for one in status.guilds] == ["1", "2", "3"]
    assert (status.waiting, status.keys) == (3, {"rehearsal:server": 1})
    assert status.parkings == {"=provider:other": 1}
    assert status.pauses["provider:other"] is None
    assert 59_000 < (status.pauses["guild:9"] or 0) <= 60_000
    assert 0 <= status.oldest_ms < 60_000


async def test_an_empty_fleet_has_a_status(overview: Overview):
    status = await overview.status()
    assert (status.waiting, status.guilds, status.pauses) == (0, (), {})


async def test_who_waits_for_a_reply_or_for_their_time_waits_for_no_worker(
    queue: TurnQueue, client: Redis, keys: Keys
):
    backlog = Backlog(client, keys)

    async def grow_old(turn_id: str) -> None:
        await within(client.hset(keys.turn(turn_id), "enqueued", "1000"))

    await queue.admit(turn("l1", channel=1))
    await claim_one(queue)
    await queue.admit(turn("l2", channel=1))
    await queue.admit(turn("l3", channel=2, wait_ms=600_000))
    for turn_id in ("l2", "l3"):
        await grow_old(turn_id)
    assert (await backlog.standstill()).oldest_ms == 0
    await queue.admit(turn("l4", channel=3))
    await grow_old("l4")
    assert (await backlog.standstill()).oldest_ms > 45_000


async def test_a_place_in_the_lane_is_exact(queue: TurnQueue, overview: Overview):
    for n in range(3):
        await queue.admit(turn(f"l{n}"))
    (running,) = await queue.claim("w1", 8)
    found = [await overview.place(f"l{n}") for n in range(3)]
    assert [(one.state, one.ahead, one.why) for one in found] == [
        (TurnState.RUNNING, 0, Why.NOTHING),
        (TurnState.QUEUED, 1, Why.LANE),
        (TurnState.QUEUED, 2, Why.LANE),
    ]
    await queue.finish(running.token, DONE)
    assert (await overview.place("l1")).why is Why.FLEET


async def test_a_place_among_guilds_is_that_of_the_ring(queue: TurnQueue, overview: Overview):
    for n in range(4):
        await queue.admit(turn(f"a{n}", channel=n, guild=1))
    await queue.admit(turn("b0", channel=10, guild=2))
    assert [(await overview.place(name)).ahead for name in ("a0", "b0", "a1", "a3")] == [0, 1, 2, 4]


Setup = Callable[[TurnQueue], Awaitable[None]]


async def _paused(queue: TurnQueue) -> None:
    await queue.pause("fleet")


async def _guild_paused(queue: TurnQueue) -> None:
    await queue.pause("guild:7")


async def _model_paused(queue: TurnQueue) -> None:
    await queue.pause("model:rehearsal/plain")
    await queue.claim("w1", 1)


async def _rests(queue: TurnQueue) -> None:
    await queue.pause("rest:rehearsal:server", 60)
    await queue.claim("w1", 1)


async def _crashed(queue: TurnQueue) -> None:
    await queue.claim("w1", 1)
    await lease_ended(queue)
    await queue.reap()


REASONS: dict[str, tuple[Setup, Why]] = {
    "fleet": (_paused, Why.PAUSED),
    "guild": (_guild_paused, Why.PAUSED),
    "model": (_model_paused, Why.PAUSED),
    "rest": (_rests, Why.KEY),
    "crash": (_crashed, Why.CRASH),
}


@pytest.mark.parametrize(("setup", "why"), REASONS.values(), ids=REASONS.keys())
async def test_a_place_says_what_the_turn_waits_for(
    brief_leases: TurnQueue, setup: Setup, why: Why
):
    queue = with_policy(brief_leases, crash_delays_ms=(60_000,))
    await queue.admit(turn("l1"))
    await setup(queue)
    assert (await Overview(queue).place("l1")).why is why


async def test_a_turn_that_wants_to_wait_or_is_unknown(queue: TurnQueue, overview: Overview):
    await queue.admit(turn("l1", wait_ms=60_000))
    assert (await overview.place("l1")).why is Why.LATER
    assert (await overview.place("l2")).state is None


async def busy(queue: TurnQueue) -> None:
    """Something of every kind."""
    await queue.admit(turn("run", channel=1, guild=1))
    await queue.claim("w1", 1)
    await queue.admit(turn("next", channel=1, guild=1))
    await queue.admit(turn("free", channel=2, guild=1))
    await queue.admit(turn("again", channel=2, guild=1, replay_of="m1"))
    await queue.admit(turn("later", channel=3, guild=2, wait_ms=60_000))
    await queue.pause("provider:other")
    other = Target(provider="other", model="m")
    await queue.admit(turn("parked", channel=4, guild=3, target=other))
    await queue.pause("guild:1")
    assert await queue.claim("w1", 8) == []


async def test_right_books_have_no_findings(queue: TurnQueue, overview: Overview):
    await busy(queue)
    assert await overview.audit() == []


Damage = Callable[[Redis, Keys], Any]  # redis-py's answers

DAMAGES: dict[str, tuple[Damage, str]] = {
    "depth": (lambda r, k: r.hset(k.depth, "1", "9"), "turns of a guild"),
    "depth of nobody": (lambda r, k: r.hset(k.depth, "77", "1"), "turns of a guild"),
    "totals": (lambda r, k: r.hset(k.totals, "depth", "99"), "turns of the cell"),
    "running guild": (lambda r, k: r.hdel(k.running_guilds, "1"), "running turns of a guild"),
    "running key": (
        lambda r, k: r.hset(k.running_keys, "gone:server", "3"),
        "running turns of a key",
    ),
    "lane lock": (lambda r, k: r.hset(k.running_lanes, "2", "ghost"), "running turn of a lane"),
    "lease of nobody": (lambda r, k: r.zadd(k.leases, {"ghost": 1}), "lease of no running turn"),
    "lease lost": (lambda r, k: r.zrem(k.leases, "run"), "runs without a lease"),
    "delay lost": (lambda r, k: r.zrem(k.delayed, "later"), "waits nowhere"),
    "lane lost": (lambda r, k: r.delete(k.lane("1")), "waits nowhere"),
    "queued twice": (lambda r, k: r.rpush(k.lane("2"), "free"), "queued in 2"),
    "queued while it runs": (lambda r, k: r.rpush(k.lane("2"), "run"), "queued in 2"),
    "guild's list lost": (lambda r, k: r.delete(k.guild("1")), "places of a queue"),
    "lane in twice": (lambda r, k: r.rpush(k.guild("1"), "2"), "places of a queue"),
    "parking lost": (lambda r, k: r.delete(k.parked("=provider:other")), "places of a queue"),
    "deadline lost": (lambda r, k: r.zrem(k.waiting, "free"), "deadline of a waiting turn"),
    "deadline of nobody": (
        lambda r, k: r.zadd(k.waiting, {"ghost": 9e15}),
        "deadline of a turn that does not wait",
    ),
}


@pytest.mark.parametrize(("damage", "what"), DAMAGES.values(), ids=DAMAGES.keys())
async def test_what_waits_and_runs_is_mended_without_a_look_at_all_keys(
    queue: TurnQueue, overview: Overview, client: Redis, keys: Keys, damage: Damage, what: str
):
    await busy(queue)
    assert await overview.waiting() == 5
    await within(damage(client, keys))
    assert what in {finding.what for finding in await overview.mend()}
    assert await overview.audit() == []
    await drained(queue, client, keys)


async def test_nothing_is_mended_where_nothing_is_wrong(queue: TurnQueue, overview: Overview):
    await busy(queue)
    assert await overview.mend() == []


@pytest.mark.parametrize(("damage", "what"), DAMAGES.values(), ids=DAMAGES.keys())
async def test_the_audit_finds_and_repairs(
    queue: TurnQueue, overview: Overview, client: Redis, keys: Keys, damage: Damage, what: str
):
    await busy(queue)
    await within(damage(client, keys))
    before: list[Finding] = await overview.audit()
    assert what in {finding.what for finding in before}
    assert await overview.audit() == before  # looking changes nothing
    await overview.audit(repair=True)
    assert await overview.audit() == []
    await drained(queue, client, keys)


async def drained(queue: TurnQueue, client: Redis, keys: Keys) -> None:
    """Every turn runs and ends, and the books are empty."""
    for name in ("guild:1", "provider:other"):
        await queue.resume(name)
    await client.zadd(keys.delayed, {"later": 1}, xx=True)
    if await client.zscore(keys.leases, "run") is not None:
        await client.zadd(keys.leases, {"run": 1})
        await queue.reap()
    ran = set()
    for _ in range(20):
        for claimed in await queue.claim("w2", 8):
            await queue.finish(claimed.token, DONE)
            ran.add(claimed.token.turn_id)
    assert ran == {"run", "next", "free", "again", "later", "parked"}
    for name in (keys.depth, keys.running_guilds, keys.running_keys, keys.running_lanes):
        assert await within(client.hgetall(name)) == {}
    for name in (keys.leases, keys.waiting, keys.delayed, keys.ring, keys.low_ring):
        assert await client.zcard(name) == 0


async def test_the_ring_is_repaired(
    queue: TurnQueue, overview: Overview, client: Redis, keys: Keys
):
    await queue.admit(turn("l1"))
    await client.zrem(keys.ring, "7")
    assert [finding.what for finding in await overview.audit(repair=True)] == ["place in the ring"]
    assert (await claim_one(queue)).token.turn_id == "l1"

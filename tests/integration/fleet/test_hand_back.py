"""Turns that their workers give up: releases, crashes, stops."""

import asyncio

import pytest
from redis.asyncio import Redis

from shared.edges.queue import Cancelled, GivenBack, TurnQueue
from shared.edges.records import TurnRecords
from shared.edges.redis import within
from shared.keys import Keys
from shared.segments import TurnDone, TurnFailed
from shared.turns import TurnOutcome, TurnState
from tests.support.turns import (
    admit_and_claim,
    claim_one,
    lease_ended,
    out_entries,
    segment,
    turn,
    with_policy,
)

OUTCOME = TurnOutcome(state=TurnState.CANCELLED, segments=0)


async def test_a_released_turn_is_the_first_of_its_lane(queue: TurnQueue, records: TurnRecords):
    token = (await admit_and_claim(queue, "l1")).token
    await queue.admit(turn("l2"))
    assert await queue.release(token) is GivenBack.QUEUED
    assert await queue.release(token) is GivenBack.FENCED
    again = await claim_one(queue, "w2")
    assert (again.token.turn_id, again.token.attempt, again.crashes) == ("l1", 2, 0)
    words = [entry.word for entry in await records.timeline("l1")]
    assert words == ["admitted", "claimed", "released", "claimed"]


async def test_many_releases_never_kill_a_turn(queue: TurnQueue):
    token = (await admit_and_claim(queue)).token
    for _ in range(10):
        assert await queue.release(token) is GivenBack.QUEUED
        token = (await claim_one(queue)).token
    assert token.attempt == 11


async def test_a_beat_keeps_a_lease(brief_leases: TurnQueue, queue: TurnQueue):
    token = (await admit_and_claim(brief_leases)).token
    assert await queue.beat([token]) == ([], [])
    assert await queue.reap() == []


async def test_a_beat_names_what_is_lost_and_what_is_stopped(
    queue: TurnQueue, client: Redis, keys: Keys
):
    first = (await admit_and_claim(queue, "l1", channel=1)).token
    second = (await admit_and_claim(queue, "l2", channel=2)).token
    assert await queue.cancel("l2") is Cancelled.STOPPING
    await queue.release(first)
    assert await queue.beat([first, second]) == (["l1"], ["l2"])


async def test_a_beat_with_the_token_before_the_next_attempt_is_good(queue: TurnQueue):
    token = (await admit_and_claim(queue)).token
    await queue.next_attempt(token)
    assert await queue.beat([token]) == ([], [])


async def test_the_third_crash_is_the_end(
    brief_leases: TurnQueue, client: Redis, keys: Keys, records: TurnRecords
):
    queue = brief_leases
    await queue.admit(turn("l1"))
    await queue.admit(turn("l2"))
    for became in (GivenBack.QUEUED, GivenBack.QUEUED, GivenBack.DEAD):
        token = (await claim_one(queue)).token
        await queue.append(token, 1, segment(token, 1))
        await lease_ended(queue)
        assert await queue.reap() == [("l1", became)]
    last = (await out_entries(client, keys))[-1]
    assert isinstance(last.event, TurnFailed)
    assert (last.event.cause, last.event.state, last.event.count) == (
        "worker_lost",
        TurnState.DEAD,
        1,
    )
    assert await records.state("l1") is TurnState.DEAD
    ((_, letter),) = await client.xrange(keys.dead)
    assert letter[b"turn"] == b"l1"
    assert [record.turn_id async for record in records.failed()] == ["l1"]
    assert (await claim_one(queue)).token.turn_id == "l2"


@pytest.mark.parametrize("case", ["policy", "tool", "old"])
async def test_shown_text_is_kept_where_it_may_not_be_superseded(
    brief_leases: TurnQueue, client: Redis, keys: Keys, case: str
):
    queue = brief_leases
    if case == "policy":
        queue = with_policy(queue, crash="notice")
    if case == "old":
        queue = with_policy(queue, run_ms=0)
    token = (await admit_and_claim(queue)).token
    await queue.append(token, 1, segment(token, 1))
    if case == "tool":
        assert await queue.note_tool(token)
    await lease_ended(queue)
    assert await queue.reap() == [("l1", "failed")]
    shown, last = await out_entries(client, keys)
    assert shown.event == segment(token, 1)
    assert isinstance(last.event, TurnFailed)
    assert (last.event.cause, last.event.count, last.event.retryable) == ("worker_lost", 1, True)


@pytest.mark.parametrize("how", ["crash", "drain"])
async def test_a_tool_that_ran_is_not_run_again_even_where_nothing_was_shown(
    brief_leases: TurnQueue, client: Redis, keys: Keys, how: str
):
    queue = brief_leases
    token = (await admit_and_claim(queue)).token
    assert await queue.note_tool(token)
    if how == "drain":
        assert await queue.release(token) == "failed"
    else:
        await lease_ended(queue)
        assert await queue.reap() == [("l1", "failed")]
    (last,) = await out_entries(client, keys)
    assert isinstance(last.event, TurnFailed)
    assert (last.event.cause, last.event.count) == ("worker_lost", 0)
    assert last.event.headline == "notice.lost_in_tool"


@pytest.mark.parametrize("shows", [False, True], ids=["silent", "shown"])
async def test_once_the_results_are_kept_a_turn_may_start_over(
    brief_leases: TurnQueue, client: Redis, keys: Keys, shows: bool
):
    queue = brief_leases
    token = (await admit_and_claim(queue)).token
    if shows:
        await queue.append(token, 1, segment(token, 1))
    assert await queue.note_tool(token)
    assert await queue.keep_rounds(token, b"[]")
    await lease_ended(queue)
    assert await queue.reap() == [("l1", "queued")]
    heir = await claim_one(queue)
    assert heir.superseding is shows
    assert await queue.kept_rounds("l1") == b"[]"
    assert await client.pttl(keys.rounds("l1")) > 47 * 3_600_000
    assert not await queue.keep_rounds(token, b"[1]")  # whoever lost the turn keeps nothing
    assert await queue.kept_rounds("l1") == b"[]"
    assert await queue.finish(heir.token, TurnDone(count=0)) == "ok"
    assert await queue.kept_rounds("l1") is None


async def test_a_crash_before_any_text_restarts_in_silence(
    brief_leases: TurnQueue, client: Redis, keys: Keys
):
    queue = with_policy(brief_leases, crash="notice")
    await admit_and_claim(queue)
    await lease_ended(queue)
    assert await queue.reap() == [("l1", "queued")]
    assert (await claim_one(queue)).superseding is False
    assert await out_entries(client, keys) == []


async def test_a_stopped_turn_whose_worker_dies_is_stopped(
    brief_leases: TurnQueue, client: Redis, keys: Keys
):
    queue = brief_leases
    await admit_and_claim(queue)
    assert await queue.cancel("l1") is Cancelled.STOPPING
    await lease_ended(queue)
    assert await queue.reap() == [("l1", "cancelled")]
    (last,) = await out_entries(client, keys)
    assert last.event == TurnDone(count=0, state=TurnState.CANCELLED)


async def test_a_lease_without_a_record_is_dropped(
    brief_leases: TurnQueue, client: Redis, keys: Keys
):
    await admit_and_claim(brief_leases)
    await client.delete(keys.turn("l1"))
    await lease_ended(brief_leases)
    assert await brief_leases.reap() == [("l1", "gone")]
    assert await brief_leases.reap() == []


async def test_nobody_is_reaped_right_after_an_outage(
    brief_leases: TurnQueue, client: Redis, keys: Keys
):
    """The server was away for longer than a lease: every lease has ended, every worker lives."""
    queue = with_policy(brief_leases, reap_gap_ms=1000, lease_ms=60)
    token = (await admit_and_claim(queue)).token
    await queue.reap()
    await within(client.hincrby(keys.totals, "reaped", -5000))
    await client.zadd(keys.leases, {"l1": 1})
    assert await queue.reap() == []
    assert await queue.beat([token]) == ([], [])
    assert await queue.reap() == []
    await within(client.hdel(keys.totals, "grace"))
    assert await queue.reap() == []
    await client.zadd(keys.leases, {"l1": 1})
    assert await queue.reap() == [("l1", "queued")]


async def test_a_waiting_turn_is_stopped_at_once(
    queue: TurnQueue, client: Redis, keys: Keys, records: TurnRecords
):
    for n in (1, 2, 3):
        await queue.admit(turn(f"l{n}", channel=5))
    assert await queue.cancel("l2") is Cancelled.CANCELLED
    assert await queue.cancel("l2") is Cancelled.FINISHED
    (last,) = await out_entries(client, keys)
    assert (last.turn_id, last.event) == ("l2", TurnDone(count=0, state=TurnState.CANCELLED))
    assert await records.state("l2") is TurnState.CANCELLED
    first = await claim_one(queue)
    await queue.finish(first.token, TurnDone(count=0))
    assert (await claim_one(queue)).token.turn_id == "l3"


async def test_the_last_waiting_turn_leaves_nothing_in_the_ring(
    queue: TurnQueue, client: Redis, keys: Keys
):
    await queue.admit(turn("l1"))
    await queue.cancel("l1")
    assert not await client.exists(keys.ring, keys.guild("7"), keys.depth)
    assert await queue.claim("w1", 1) == []


async def test_a_running_turn_is_stopped_through_its_worker(
    queue: TurnQueue, client: Redis, keys: Keys
):
    token = (await admit_and_claim(queue)).token
    assert await queue.cancel("l1") is Cancelled.STOPPING
    assert await within(client.lrange(keys.control("w1"), 0, -1)) == [b"l1"]
    assert 0 < await client.pttl(keys.control("w1")) <= 60_000
    await queue.finish(token, TurnDone(count=0, state=TurnState.CANCELLED), OUTCOME)
    assert await queue.cancel("l1") is Cancelled.FINISHED


async def test_an_unknown_turn_cannot_be_stopped(queue: TurnQueue):
    assert await queue.cancel("nothing") is Cancelled.UNKNOWN


async def test_a_clock_that_is_set_back_keeps_no_turn_with_a_dead_worker(
    brief_leases: TurnQueue, client: Redis, keys: Keys
):
    queue = brief_leases
    await admit_and_claim(queue)
    hour_ms = 3_600_000
    score = await client.zscore(keys.leases, "l1")
    assert score is not None
    ahead = int(score) + hour_ms
    await client.zadd(keys.leases, {"l1": ahead})
    await within(client.hset(keys.totals, mapping={"reaped": ahead, "grace": ahead}))
    assert await queue.reap() == []
    await lease_ended(queue)
    assert await queue.reap() == [("l1", "queued")]
    noted = await within(client.hget(keys.totals, "reaped"))
    assert int(noted) < ahead


async def test_a_clock_that_is_set_back_makes_no_delay_and_no_pause_longer(
    queue: TurnQueue, client: Redis, keys: Keys
):
    hour_ms = 3_600_000
    await queue.admit(turn("later", channel=1, wait_ms=20))
    await queue.admit(turn("paused", channel=2))
    await queue.pause("guild:7", 0.02)
    await queue.pause("key:rehearsal:server")
    assert await queue.claim("w1", 2) == []
    for key in (keys.delayed, keys.pauses, keys.waiting):
        for name in await within(client.zrange(key, 0, -1)):
            await client.zincrby(key, hour_ms, name)
    seconds, micros = await client.time()
    await within(client.hset(keys.totals, "reaped", seconds * 1000 + micros // 1000 + hour_ms))
    await queue.reap()
    await asyncio.sleep(0.03)
    await queue.resume("key:rehearsal:server")
    await queue.reap()
    claimed = await queue.claim("w1", 2)
    assert {one.token.turn_id for one in claimed} == {"later", "paused"}


async def clock_is_set_back(client: Redis, keys: Keys) -> None:
    """What waits for a time lies an hour further ahead, as all that was noted before the step."""
    hour_ms = 3_600_000
    for key in (keys.delayed, keys.pauses, keys.waiting, keys.leases):
        for name in await within(client.zrange(key, 0, -1)):
            await client.zincrby(key, hour_ms, name)
    seconds, micros = await client.time()
    await within(client.hset(keys.totals, "reaped", seconds * 1000 + micros // 1000 + hour_ms))


async def test_what_begins_after_the_clock_was_set_back_waits_as_long_as_any(
    queue: TurnQueue, client: Redis, keys: Keys
):
    await queue.admit(turn("before", channel=1, wait_ms=20))
    await clock_is_set_back(client, keys)
    await queue.admit(turn("after", channel=2))
    await queue.admit(turn("later", channel=3, wait_ms=60_000))
    assert await queue.reap() == []
    await asyncio.sleep(0.03)
    claimed = await queue.claim("w1", 3)
    assert {one.token.turn_id for one in claimed} == {"before", "after"}


async def test_a_pause_that_begins_after_the_clock_was_set_back_is_as_long_as_any(
    queue: TurnQueue, client: Redis, keys: Keys
):
    await queue.admit(turn("l1"))
    await clock_is_set_back(client, keys)
    await queue.pause("fleet", 60)
    await queue.reap()
    assert await queue.claim("w1", 1) == []


@pytest.mark.parametrize("delay_ms", [0, 60_000], ids=["in its lane", "after a delay"])
async def test_a_turn_that_comes_back_after_the_clock_was_set_back_waits_as_long_as_any(
    brief_leases: TurnQueue, client: Redis, keys: Keys, delay_ms: int
):
    queue = with_policy(brief_leases, crash_delays_ms=(delay_ms,))
    token = (await admit_and_claim(queue)).token
    deadline = int(await within(client.hget(keys.turn("l1"), "deadline")))
    await within(client.hset(keys.turn("l1"), "deadline", str(deadline + 3_600_000)))
    await clock_is_set_back(client, keys)
    if delay_ms:
        await queue.reap()  # pulls the lease near
        await lease_ended(queue)
        assert await queue.reap() == [("l1", "queued")]
    else:
        assert await queue.release(token) is GivenBack.QUEUED
    assert await queue.reap() == []
    ends = await client.zscore(keys.waiting, "l1")
    assert ends is not None
    assert abs(ends - deadline) < 60_000
    assert await client.zcard(keys.delayed) == (1 if delay_ms else 0)


async def test_copies_that_come_after_a_later_round_change_nothing(
    queue: TurnQueue, client: Redis, keys: Keys
):
    """A command that is sent again over another connection overtakes its first copy."""
    token = (await admit_and_claim(queue)).token
    for number, kept in ((1, b"[1]"), (2, b"[1, 2]")):
        assert await queue.note_tool(token, number)
        assert await queue.keep_rounds(token, kept, number)
        assert await queue.note_tool(token, number)
        assert await within(client.hget(keys.turn(token.turn_id), "tools")) == b"0"
    assert await queue.note_tool(token, 3)
    assert await queue.keep_rounds(token, b"[1]", 1)
    assert await within(client.hget(keys.turn(token.turn_id), "tools")) == b"1"
    assert await queue.kept_rounds(token.turn_id) == b"[1, 2]"
    following = await queue.next_attempt(token)
    assert following is not None
    assert await queue.keep_rounds(following, b"[7]", 1)
    assert await queue.kept_rounds(token.turn_id) == b"[7]"

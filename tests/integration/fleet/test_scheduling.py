"""Who is started next: rings, weights, charges, delays, pauses. Each rule on both servers."""

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest
from redis.asyncio import Redis

from shared.config import Settings
from shared.edges.queue import Admission, Cancelled, TurnQueue, lane_of
from shared.edges.records import TurnRecords
from shared.edges.redis import within
from shared.keys import Keys
from shared.segments import TurnDone
from shared.turns import (
    AttemptUsage,
    Front,
    Lanes,
    Route,
    Target,
    TurnOutcome,
    TurnRequest,
    TurnState,
    Usage,
)
from tests.support.turns import claim_one, lease_ended, turn, with_policy

DONE = TurnDone(count=0)


async def started(queue: TurnQueue, n: int = 1) -> list[str]:
    return [claimed.token.turn_id for claimed in await queue.claim("w1", n)]


async def play_out(queue: TurnQueue, rounds: int) -> list[str]:
    """Starts one turn after the other, each ended before the next."""
    order = []
    for _ in range(rounds):
        claimed = await claim_one(queue)
        order.append(claimed.token.turn_id)
        await queue.finish(claimed.token, DONE)
    return order


def roomy(queue: TurnQueue, **changes: Any) -> TurnQueue:
    return with_policy(queue, guild_depth=1000, global_depth=5000, guild_running=100, **changes)


async def test_replays_get_one_start_in_ten_and_what_nobody_else_wants(queue: TurnQueue):
    queue = roomy(queue)
    for n in range(12):
        await queue.admit(turn(f"r{n}", channel=100 + n, guild=n, replay_of="m1"))
    for n in range(30):
        await queue.admit(turn(f"p{n}", channel=n, guild=n))
    order = await play_out(queue, 42)
    kinds = "".join(name[0] for name in order)
    assert kinds[:30].count("r") == 3
    assert kinds.index("r") == 9
    assert kinds[33:] == "r" * 9


async def test_a_prompt_overtakes_the_replays_of_its_channel(queue: TurnQueue):
    for n in range(2):
        await queue.admit(turn(f"r{n}", replay_of="m1"))
    await queue.admit(turn("p1"))
    assert await started(queue, 8) == ["p1"]  # one of a lane at a time, whatever kind it is


async def test_a_lane_that_runs_a_prompt_starts_its_replay_afterwards(queue: TurnQueue):
    await queue.admit(turn("r1", replay_of="m1"))
    await queue.admit(turn("p1"))
    assert await play_out(queue, 2) == ["p1", "r1"]


async def test_weights_share_the_slots(queue: TurnQueue, client: Redis, keys: Keys):
    weighted = TurnQueue(
        client,
        keys,
        Settings(guild_weights={"1": 3.0, "*": 1.0}),
        policy=roomy(queue, charge="turns").policy,
    )
    for n in range(40):
        for guild in (1, 2):
            await weighted.admit(turn(f"g{guild}n{n}", channel=guild * 100 + n, guild=guild))
    counts = Counter(name[:2] for name in await play_out(weighted, 40))
    assert counts["g1"] in {29, 30, 31}


async def test_a_guild_with_dear_turns_waits_longer(queue: TurnQueue):
    queue = roomy(queue, charge="tokens")

    def outcome(tokens: int) -> TurnOutcome:
        target = Target(provider="p", model="m")
        spent = AttemptUsage(attempt=1, target=target, usage=Usage(total=tokens))
        return TurnOutcome(state=TurnState.DONE, segments=0, attempts=(spent,))

    for n in range(60):
        for guild in (1, 2):
            await queue.admit(turn(f"g{guild}n{n}", channel=guild * 100 + n, guild=guild))
    counts: Counter[str] = Counter()
    for _ in range(66):
        claimed = await claim_one(queue)
        name = claimed.token.turn_id[:2]
        counts[name] += 1
        await queue.finish(claimed.token, DONE, outcome(1000 if name == "g1" else 100))
    assert 7 <= counts["g2"] / counts["g1"] <= 13  # ten times as dear, a tenth of the starts


async def test_the_charge_outlives_the_guilds_last_turn(queue: TurnQueue):
    """One long turn at a time must not be a way around the ring."""
    queue = roomy(queue, charge="tokens")
    outcome = TurnOutcome(state=TurnState.DONE, segments=0, usage=Usage(total=100))
    await queue.admit(turn("a0", channel=1, guild=1))
    await queue.finish((await claim_one(queue)).token, DONE, outcome)
    dear = TurnOutcome(state=TurnState.DONE, segments=0, usage=Usage(total=1000))
    await queue.admit(turn("a1", channel=1, guild=1))
    await queue.finish((await claim_one(queue)).token, DONE, dear)
    await queue.admit(turn("a2", channel=1, guild=1))
    for n in range(3):
        await queue.admit(turn(f"b{n}", channel=10 + n, guild=2))
    assert await play_out(queue, 4) == ["b0", "b1", "b2", "a2"]


LANES = {
    "channel": (Lanes.CHANNEL, ["1", "1", "1"]),
    "thread": (Lanes.THREAD, ["1", "1", "2"]),
    "user": (Lanes.USER, ["1:5", "1:6", "2:5"]),
}


@pytest.mark.parametrize(("lanes", "expected"), LANES.values(), ids=LANES.keys())
def test_the_lane_is_a_setting(lanes: Lanes, expected: list[str]):
    def asked(channel: int, user: int, parent: int | None = None) -> TurnRequest:
        route = Route(front=Front.LOCAL, channel_id=channel, user_id=user, parent_id=parent)
        return msgspec.structs.replace(turn(), route=route)

    found = [asked(1, 5), asked(1, 6), asked(2, 5, parent=1)]
    assert [lane_of(request, lanes) for request in found] == expected


async def test_lanes_of_users_run_beside_each_other(queue: TurnQueue, client: Redis, keys: Keys):
    apart = TurnQueue(client, keys, Settings(lane=Lanes.USER), policy=queue.policy)
    for user in (1, 2):
        await apart.admit(turn(f"l{user}", user=user))
    assert await started(apart, 8) == ["l1", "l2"]


async def test_a_second_crash_waits_with_its_lane_locked(
    brief_leases: TurnQueue, client: Redis, keys: Keys, records: TurnRecords
):
    queue = with_policy(brief_leases, crash_delays_ms=(0, 60_000))
    await queue.admit(turn("l1"))
    await queue.admit(turn("l2"))
    for _ in range(2):
        assert await started(queue) == ["l1"]
        await lease_ended(queue)
        assert await queue.reap() == [("l1", "queued")]
    assert await started(queue, 8) == []  # the second waits for the first
    assert await within(client.hgetall(keys.running_guilds)) == {}
    await client.zadd(keys.delayed, {"l1": 1})
    assert await queue.reap() == []
    assert await started(queue, 8) == ["l1"]


@pytest.mark.parametrize("end", ["stopped", "expired"])
async def test_a_turn_that_ends_during_its_delay_unlocks_its_lane(
    brief_leases: TurnQueue, client: Redis, keys: Keys, records: TurnRecords, end: str
):
    queue = with_policy(brief_leases, crash_delays_ms=(60_000,))
    await queue.admit(turn("l1"))
    await queue.admit(turn("l2"))
    await started(queue)
    await lease_ended(queue)
    await queue.reap()
    if end == "stopped":
        assert await queue.cancel("l1") is Cancelled.CANCELLED
    else:
        await client.zadd(keys.waiting, {"l1": 1})
        assert await queue.reap() == [("l1", "expired")]
    assert not await client.exists(keys.delayed)
    assert await started(queue, 8) == ["l2"]


async def test_a_turn_may_ask_to_wait(queue: TurnQueue, client: Redis, keys: Keys):
    await queue.admit(turn("later", wait_ms=40))
    await queue.admit(turn("now"))
    assert await queue.admit(turn("later", wait_ms=40)) is Admission.DUPLICATE
    assert await play_out(queue, 1) == ["now"]
    async with asyncio.timeout(5):
        while not (ids := await started(queue, 8)):
            await asyncio.sleep(0.01)
    assert ids == ["later"]


PAUSES = ["fleet", "guild:7", "key:rehearsal:server", "provider:rehearsal", "model:rehearsal/plain"]


@pytest.mark.parametrize("name", PAUSES)
async def test_what_is_paused_waits_and_keeps_its_place(queue: TurnQueue, name: str):
    await queue.admit(turn("l1", channel=1))
    await queue.pause(name)
    await queue.admit(turn("l2", channel=1))
    await queue.admit(turn("l3", channel=2))
    assert await started(queue, 8) == []
    await queue.resume(name)
    assert sorted(await started(queue, 8)) == ["l1", "l3"]


@pytest.mark.parametrize("name", PAUSES)
async def test_a_pause_may_end_by_itself(queue: TurnQueue, name: str):
    await queue.pause(name, 0.3)  # a busy machine takes tens of milliseconds for what follows
    await queue.admit(turn("l1"))
    assert await started(queue, 8) == []
    async with asyncio.timeout(5):
        while not await started(queue, 8):
            await asyncio.sleep(0.01)


async def test_others_go_on_beside_a_pause(queue: TurnQueue):
    await queue.pause("guild:7")
    await queue.pause("provider:other")
    await queue.admit(turn("quiet", channel=1, guild=7))
    elsewhere = Target(provider="other", model="m")
    await queue.admit(turn("parked", channel=2, guild=8, target=elsewhere))
    await queue.admit(turn("behind", channel=3, guild=8))
    assert await started(queue, 8) == ["behind"]
    assert await queue.cancel("parked") is Cancelled.CANCELLED
    await queue.resume("provider:other")
    assert await started(queue, 8) == []


async def test_who_can_fall_back_does_not_wait_for_a_resting_key(queue: TurnQueue):
    await queue.pause("rest:rehearsal:server", 30)
    other = Target(provider="other", model="m")
    await queue.admit(turn("pinned", channel=1))
    await queue.admit(turn("flexible", channel=2, fallbacks=(other,)))
    assert await started(queue, 8) == ["flexible"]


async def test_a_pause_is_not_made_shorter_by_another(queue: TurnQueue, client: Redis, keys: Keys):
    await queue.pause("fleet", 60)
    before = await client.zscore(keys.pauses, "fleet")
    await queue.pause("fleet", 1)
    assert await client.zscore(keys.pauses, "fleet") == before


async def test_a_quiet_guild_starts_within_two_rounds(queue: TurnQueue):
    queue = roomy(queue)
    for n in range(200):
        await queue.admit(turn(f"busy{n}", channel=n, guild=1))
    for guild in range(2, 22):
        await queue.admit(turn(f"quiet{guild}", channel=1000 + guild, guild=guild))
    order = await play_out(queue, 42)
    assert sum(name.startswith("quiet") for name in order) == 20

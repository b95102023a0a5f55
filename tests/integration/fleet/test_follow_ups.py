"""What a prompt does to what its user still has in the lane, on real servers."""

import asyncio
from typing import Any

import msgspec
import pytest

from gateway.edges.store import GatewayFleet
from shared.edges.overview import Overview
from shared.edges.queue import Admission, GivenBack, TurnQueue
from shared.edges.redis import within
from shared.messages import Message, Role
from shared.segments import MERGED, REPLACED, WITHDRAWN, TurnDone
from shared.turns import FollowUp, Target, TurnRequest, TurnState
from shared.wire import decode_turn_request
from tests.support.turns import (
    claim_one,
    lease_ended,
    out_entries,
    segment,
    turn,
    with_policy,
)

OTHER = Target(provider="other", model="m")


def said(turn_id: str, follow_up: FollowUp, *, user: int = 1, **more: Any) -> TurnRequest:
    request = turn(turn_id, channel=1, follow_up=follow_up, **more)
    route = msgspec.structs.replace(request.route, user_id=user)
    message = Message(role=Role.USER, content=f"say {turn_id}")
    return msgspec.structs.replace(request, route=route, messages=[message])


def replacing(turn_id: str, **more: Any) -> TurnRequest:
    return said(turn_id, FollowUp.REPLACE, **more)


def merging(turn_id: str, **more: Any) -> TurnRequest:
    return said(turn_id, FollowUp.MERGE, **more)


async def ends(queue: TurnQueue) -> dict[str, tuple[TurnState, tuple[str, ...]]]:
    """The terminal event of each turn; a second one fails."""
    found: dict[str, tuple[TurnState, tuple[str, ...]]] = {}
    for envelope in await out_entries(queue.redis, queue.keys):
        if isinstance(envelope.event, TurnDone):
            assert envelope.turn_id not in found
            found[envelope.turn_id] = (envelope.event.state, envelope.event.notes)
    return found


async def waiting(queue: TurnQueue) -> list[str]:
    lane = await within(queue.redis.lrange(queue.keys.lane("1"), 0, -1))
    return [tid.decode() for tid in lane]


async def test_a_replacing_prompt_drops_what_its_user_has_waiting(queue: TurnQueue):
    for request in (replacing("a1"), replacing("b1", user=2), replacing("a2")):
        assert await queue.admit(request) is Admission.ACCEPTED
    assert await waiting(queue) == ["b1", "a2"]
    assert await ends(queue) == {"a1": (TurnState.CANCELLED, (REPLACED,))}
    assert await within(queue.redis.hgetall(queue.keys.depth)) == {b"7": b"2"}
    assert (await claim_one(queue)).token.turn_id == "b1"


async def test_a_replacing_prompt_stops_what_runs_for_its_user(queue: TurnQueue):
    await queue.admit(replacing("a1"))
    claimed = await claim_one(queue)
    await queue.append(claimed.token, 1, segment(claimed.token, 1))
    await queue.admit(replacing("a2"))
    assert await queue.beat([claimed.token]) == ([], ["a1"])
    assert await queue.stop_note(claimed.token) == REPLACED
    control = await within(queue.redis.lrange(queue.keys.control("w1"), 0, -1))
    assert control == [b"a1"]


async def test_what_runs_for_somebody_else_goes_on(queue: TurnQueue):
    await queue.admit(replacing("b1", user=2))
    claimed = await claim_one(queue)
    await queue.admit(replacing("a1"))
    assert await queue.beat([claimed.token]) == ([], [])
    assert await queue.finish(claimed.token, TurnDone(count=0)) == "ok"
    assert (await claim_one(queue)).token.turn_id == "a1"


async def test_a_replaced_turn_whose_worker_dies_ends_as_replaced(
    brief_leases: TurnQueue,
):
    queue = brief_leases
    await queue.admit(replacing("a1"))
    await claim_one(queue)
    await queue.admit(replacing("a2"))
    await queue.redis.zadd(queue.keys.leases, {"a1": 1})
    await queue.reap()
    assert await ends(queue) == {"a1": (TurnState.CANCELLED, (REPLACED,))}
    assert (await claim_one(queue)).token.turn_id == "a2"


async def crashed(queue: TurnQueue, request: TurnRequest) -> TurnQueue:
    """A queue in which the turn lost its worker, and waits with its lane locked."""
    slow = with_policy(queue, crash_delays_ms=(5_000,))
    await slow.admit(request)
    token = (await claim_one(slow)).token
    await slow.append(token, 1, segment(token, 1))
    await lease_ended(slow)
    assert await slow.reap() == [(request.turn_id, GivenBack.QUEUED)]
    return slow


async def test_a_replaced_turn_that_waits_after_a_crash_does_not_run_again(
    brief_leases: TurnQueue,
):
    queue = await crashed(brief_leases, replacing("a1"))
    await queue.admit(replacing("a2"))
    assert await ends(queue) == {"a1": (TurnState.CANCELLED, (REPLACED,))}
    assert await within(queue.redis.zcard(queue.keys.delayed)) == 0
    assert await within(queue.redis.hgetall(queue.keys.depth)) == {b"7": b"1"}
    assert not await within(queue.redis.exists(queue.keys.control("w1")))
    assert (await claim_one(queue)).token.turn_id == "a2"  # and it does not wait for the delay
    assert await Overview(queue).audit() == []


async def test_a_turn_that_waits_after_a_crash_makes_room_for_what_replaces_it(
    brief_leases: TurnQueue,
):
    queue = with_policy(await crashed(brief_leases, replacing("a1")), guild_depth=1)
    assert await queue.admit(replacing("b1", user=2)) is Admission.GUILD_FULL
    assert await queue.admit(replacing("a2")) is Admission.ACCEPTED
    assert await ends(queue) == {"a1": (TurnState.CANCELLED, (REPLACED,))}


async def test_somebody_elses_turn_that_waits_after_a_crash_is_left_alone(
    brief_leases: TurnQueue,
):
    queue = await crashed(brief_leases, replacing("b1", user=2))
    await queue.admit(replacing("a1"))
    assert await ends(queue) == {}
    await queue.redis.zadd(queue.keys.delayed, {"b1": 1})
    assert (await claim_one(queue)).token.turn_id == "b1"


async def test_a_turn_without_its_prompt_whose_worker_dies_ends_without_a_word(
    brief_leases: TurnQueue,
):
    await brief_leases.admit(replacing("a1"))
    await claim_one(brief_leases)
    await brief_leases.cancel("a1", why=WITHDRAWN)
    await brief_leases.redis.zadd(brief_leases.keys.leases, {"a1": 1})
    await brief_leases.reap()
    assert await ends(brief_leases) == {"a1": (TurnState.CANCELLED, (WITHDRAWN,))}


async def test_a_full_guild_takes_a_prompt_that_makes_its_own_room(queue: TurnQueue):
    small = with_policy(queue, guild_depth=2)
    await small.admit(replacing("a1"))
    await small.admit(replacing("b1", user=2))
    assert await small.admit(replacing("c1", user=3)) is Admission.GUILD_FULL
    assert await small.admit(replacing("a2")) is Admission.ACCEPTED
    assert await waiting(small) == ["b1", "a2"]


async def test_a_refused_prompt_replaces_nothing(queue: TurnQueue):
    small = with_policy(queue, guild_depth=1)
    await small.admit(replacing("a1"))
    claimed = await claim_one(small)
    assert await small.admit(replacing("a2")) is Admission.GUILD_FULL
    assert await small.beat([claimed.token]) == ([], [])


async def test_prompts_that_wait_become_one_turn(queue: TurnQueue):
    for name in ("a1", "a2", "a3"):
        assert await queue.admit(merging(name)) is Admission.ACCEPTED
    assert await waiting(queue) == ["a3"]
    cancelled = (TurnState.CANCELLED, (MERGED,))
    assert await ends(queue) == {"a1": cancelled, "a2": cancelled}
    request = decode_turn_request((await claim_one(queue)).request)
    assert [one.content for one in request.messages] == ["say a1", "say a2", "say a3"]
    assert request.merged == ("a1", "a2")
    assert await within(queue.redis.hgetall(queue.keys.depth)) == {b"7": b"1"}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(merging("a1", user=2), merging("a2"), id="of another user"),
        pytest.param(merging("a1"), merging("a2", target=OTHER), id="for another model"),
        pytest.param(said("a1", FollowUp.QUEUE), merging("a2"), id="under another setting"),
        pytest.param(merging("a1", system="x" * 150_000), merging("a2"), id="other instructions"),
    ],
)
async def test_unlike_prompts_stay_apart(queue: TurnQueue, first: TurnRequest, second: TurnRequest):
    await queue.admit(first)
    assert await queue.admit(second) is Admission.ACCEPTED
    assert await waiting(queue) == ["a1", "a2"]


async def test_a_replay_is_no_prompt_to_be_merged_with(queue: TurnQueue):
    await queue.admit(merging("a1", replay_of="m1"))
    assert await queue.admit(merging("a2")) is Admission.ACCEPTED
    assert await waiting(queue) == ["a2"]
    assert await within(queue.redis.hgetall(queue.keys.depth)) == {b"7": b"2"}


async def test_an_edit_is_in_the_merged_turn_or_comes_too_late(queue: TurnQueue):
    """The older prompt is edited while the newer one takes it in."""
    gateway = GatewayFleet(queue)
    for n in range(60):
        await queue.admit(merging(f"a{n}"))
        async with asyncio.TaskGroup() as group:
            editing = group.create_task(gateway.amend(f"a{n}", "say it kindly"))
            group.create_task(queue.admit(merging(f"b{n}")))
        claimed = await claim_one(queue)
        said = [one.content for one in decode_turn_request(claimed.request).messages]
        assert said == ["say it kindly" if editing.result() else f"say a{n}", f"say b{n}"]
        assert await queue.finish(claimed.token, TurnDone(count=0)) == "ok"


async def test_what_is_too_large_together_stays_apart(queue: TurnQueue):
    large = [Message(role=Role.USER, content="x" * 150_000)]
    for name in ("a1", "a2"):
        await queue.admit(msgspec.structs.replace(merging(name), messages=large))
    assert await waiting(queue) == ["a1", "a2"]


async def test_a_turn_that_was_handed_back_is_not_taken_in(queue: TurnQueue):
    await queue.admit(merging("a1"))
    claimed = await claim_one(queue)
    await queue.append(claimed.token, 1, segment(claimed.token, 1))
    await queue.release(claimed.token)
    await queue.admit(merging("a2"))
    assert await waiting(queue) == ["a1", "a2"]


async def test_the_same_prompt_twice_is_one_turn(queue: TurnQueue):
    for follow_up in (FollowUp.MERGE, FollowUp.REPLACE):
        name = f"t-{follow_up}"
        assert await queue.admit(said(name, follow_up)) is Admission.ACCEPTED
        assert await queue.admit(said(name, follow_up)) is Admission.DUPLICATE
    assert "t-replace" in await waiting(queue)


async def test_a_merged_lane_keeps_its_place_behind_a_throttled_key(queue: TurnQueue):
    narrow = with_policy(queue, key_running=1)
    await narrow.admit(turn("other", channel=9))
    busy = await claim_one(narrow)
    await narrow.admit(merging("a1"))
    assert await narrow.claim("w1", 1) == []  # its lane is parked
    await narrow.admit(merging("a2"))
    assert await narrow.finish(busy.token, TurnDone(count=0)) == "ok"
    assert (await claim_one(narrow)).token.turn_id == "a2"


@pytest.mark.parametrize("follow_up", [FollowUp.REPLACE, FollowUp.MERGE])
async def test_whoever_is_first_every_turn_has_one_end(queue: TurnQueue, follow_up: FollowUp):
    """Follow-ups of three users race with claims: nothing is lost, nothing is answered twice."""
    roomy = with_policy(queue, guild_depth=500, global_depth=500)
    names = [f"{user}x{n}" for n in range(20) for user in (1, 2, 3)]
    answered: list[str] = []

    async def talk(user: int) -> None:
        for n in range(20):
            request = said(f"{user}x{n}", follow_up, user=user)
            assert await roomy.admit(request) is Admission.ACCEPTED

    async def work() -> None:
        while len(await ends(roomy)) < len(names):
            for claimed in await roomy.claim("w1", 1):
                request = decode_turn_request(claimed.request)
                is_stopped = bool(await roomy.stop_note(claimed.token))
                state = TurnState.CANCELLED if is_stopped else TurnState.DONE
                assert await roomy.finish(claimed.token, TurnDone(count=0, state=state)) == "ok"
                if not is_stopped:
                    answered.extend([*request.merged, request.turn_id])

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(work())
        for user in (1, 2, 3):
            group.create_task(talk(user))
    assert set(await ends(roomy)) == set(names)
    assert len(answered) == len(set(answered))
    if follow_up is FollowUp.MERGE:
        assert set(answered) == set(names)  # every prompt is in exactly one answered turn
    else:
        assert {"1x19", "2x19", "3x19"} <= set(answered)
    assert await waiting(queue) == []

import pytest
from redis.asyncio import Redis

from shared.edges.queue import Admission, Cancelled, Finished, TurnQueue, job_payload
from shared.edges.records import TurnRecords
from shared.edges.redis import within
from shared.errors import RequestTooLarge, StoreFull
from shared.keys import Keys
from shared.segments import AttemptSuperseded, TurnDone, TurnFailed
from shared.turns import AttemptToken, TurnState
from shared.wire import decode_turn_request
from tests.support.turns import (
    SNOWFLAKE,
    admit_and_claim,
    claim_one,
    lease_ended,
    out_entries,
    segment,
    turn,
    with_policy,
)


async def test_an_admitted_turn_is_claimed_with_its_request(queue: TurnQueue):
    assert await queue.admit(turn("l1")) is Admission.ACCEPTED
    claimed = await claim_one(queue)
    assert decode_turn_request(claimed.request) == turn("l1")
    assert claimed.token.turn_id == "l1"
    assert claimed.token.attempt == 1
    assert len(claimed.token.claim) == 8
    assert (claimed.seq, claimed.crashes, claimed.superseding) == (0, 0, False)
    assert claimed.claimed_ms >= claimed.enqueued_ms > 0


async def test_admission_writes_the_job_that_arq_will_read(
    queue: TurnQueue, client: Redis, keys: Keys
):
    await queue.admit(turn("l1"))
    assert await client.get(keys.job("l1")) == job_payload("l1", turn().created_ms)


async def test_a_turn_id_is_taken_once(queue: TurnQueue, client: Redis, keys: Keys):
    await queue.admit(turn("l1"))
    assert await queue.admit(turn("l1")) is Admission.DUPLICATE
    claimed = await claim_one(queue)
    assert await queue.finish(claimed.token, TurnFailed(cause="x", category="internal")) == "ok"
    await client.delete(keys.turn("l1"))
    assert await queue.admit(turn("l1")) is Admission.DUPLICATE


async def test_a_request_that_is_too_large_leaves_nothing(queue: TurnQueue, client: Redis):
    with pytest.raises(RequestTooLarge, match="send less history"):
        await queue.admit(turn("l1", system="x" * 300_000))
    assert await client.keys("*") == []


async def test_a_guild_over_its_depth_is_refused(queue: TurnQueue):
    answers = [await queue.admit(turn(f"l{n}", channel=n, guild=1)) for n in range(6)]
    assert answers == [Admission.ACCEPTED] * 5 + [Admission.GUILD_FULL]
    assert await queue.admit(turn("other", guild=2)) is Admission.ACCEPTED


async def test_a_cell_over_its_depth_is_refused(queue: TurnQueue):
    for n in range(20):
        assert await queue.admit(turn(f"l{n}", guild=n)) is Admission.ACCEPTED
    assert await queue.admit(turn("more", guild=99)) is Admission.FULL


async def test_a_direct_message_counts_for_its_user(queue: TurnQueue, client: Redis, keys: Keys):
    await queue.admit(turn("l1", guild=None))
    assert await within(client.hgetall(keys.depth)) == {f"dm:{SNOWFLAKE - 1}".encode(): b"1"}


async def test_a_server_without_memory_refuses_new_turns_and_ends_running_ones(
    queue: TurnQueue, client: Redis
):
    claimed = await admit_and_claim(queue)
    await client.config_set("maxmemory", "1")
    try:
        assert await queue.admit(turn("l2", channel=2)) is Admission.FULL
        assert await queue.append(claimed.token, 1, segment(claimed.token, 1)) == "backpressure"
        with pytest.raises(StoreFull):
            await queue.claim("w1", 1)
        event = TurnFailed(cause="internal_error", category="internal")
        assert await queue.finish(claimed.token, event) == "ok"
    finally:
        await client.config_set("maxmemory", "0")


async def test_a_lane_runs_one_turn_and_keeps_the_order(queue: TurnQueue):
    for n in (1, 2, 3):
        await queue.admit(turn(f"l{n}", channel=5))
    seen = []
    for _ in range(3):
        (claimed,) = await queue.claim("w1", 10)
        seen.append(claimed.token.turn_id)
        await queue.finish(claimed.token, TurnFailed(cause="x", category="internal"))
    assert seen == ["l1", "l2", "l3"]


async def test_guilds_take_turns(queue: TurnQueue):
    for n in range(4):
        await queue.admit(turn(f"busy{n}", channel=n, guild=1))
    await queue.admit(turn("quiet", channel=9, guild=2))
    claimed = [await claim_one(queue) for _ in range(2)]
    assert {c.token.turn_id for c in claimed} == {"busy0", "quiet"}


async def test_a_guild_runs_no_more_than_its_share(queue: TurnQueue):
    for n in range(4):
        await queue.admit(turn(f"l{n}", channel=n))
    first = await queue.claim("w1", 10)
    assert len(first) == queue.policy.guild_running == 2
    assert await queue.claim("w2", 10) == []
    await queue.finish(first[0].token, TurnFailed(cause="x", category="internal"))
    assert [c.token.turn_id for c in await queue.claim("w2", 10)] == ["l2"]


async def test_a_provider_key_at_its_limit_parks_the_lane(
    queue: TurnQueue, client: Redis, keys: Keys
):
    queue = with_policy(queue, key_running=1)
    await queue.admit(turn("l1", channel=1, guild=1))
    await queue.admit(turn("l2", channel=2, guild=2))
    (first,) = await queue.claim("w1", 10)
    assert await within(client.llen(keys.parked("rehearsal:server"))) == 1
    await queue.finish(first.token, TurnFailed(cause="x", category="internal"))
    assert (await claim_one(queue)).token.turn_id == "l2"
    assert await client.exists(keys.parked("rehearsal:server")) == 0


async def test_a_parked_turn_can_be_stopped(queue: TurnQueue, client: Redis, keys: Keys):
    queue = with_policy(queue, key_running=1)
    await queue.admit(turn("l1", channel=1, guild=1))
    await queue.admit(turn("l2", channel=2, guild=2))
    await queue.admit(turn("l3", channel=2, guild=2, credential="own"))
    await queue.claim("w1", 10)
    assert await queue.cancel("l2") is Cancelled.CANCELLED
    assert (await claim_one(queue)).token.turn_id == "l3"
    assert await client.exists(keys.parked("rehearsal:server")) == 0


@pytest.mark.parametrize("end", ["expired", "stopped"])
async def test_a_slot_of_a_key_that_a_turn_never_took_goes_to_the_next_lane(
    queue: TurnQueue, client: Redis, keys: Keys, end: str
):
    """The first lane left the parking for it; its turn ends before it starts."""
    queue = with_policy(queue, key_running=1)
    await queue.admit(turn("l1", channel=1, guild=1))
    (first,) = await queue.claim("w1", 10)
    await queue.admit(turn("l2", channel=2, guild=2))
    await queue.admit(turn("l3", channel=3, guild=3))
    assert await queue.claim("w1", 10) == []
    assert await within(client.llen(keys.parked("rehearsal:server"))) == 2
    await queue.finish(first.token, TurnFailed(cause="x", category="internal"))
    if end == "expired":
        await within(client.hset(keys.turn("l2"), "deadline", "0"))
        assert await queue.claim("w1", 10) == []
        assert await queue.reap() == [("l2", "expired")]
    else:
        assert await queue.cancel("l2") is Cancelled.CANCELLED
    assert (await claim_one(queue)).token.turn_id == "l3"
    assert await client.exists(keys.parked("rehearsal:server")) == 0


async def test_a_claim_sent_twice_gets_the_same_turns(queue: TurnQueue, keys: Keys):
    await queue.admit(turn("l1", channel=1))
    await queue.admit(turn("l2", channel=2))
    args: list[str | bytes | int] = [*queue._common, "w1", 1, "0badcafe", 0, 0]
    first = await queue._claim([keys.last_claim("w1")], args)
    assert await queue._claim([keys.last_claim("w1")], args) == first
    assert first[0] == b"l1"


async def test_a_claim_can_be_repeated_after_its_answer_was_lost(queue: TurnQueue):
    await queue.admit(turn("l1"))
    lost = await queue.claim("w1", 1, "0badcafe")
    again = await queue.claim("w1", 8, "0badcafe")
    assert [claimed.token for claimed in again] == [claimed.token for claimed in lost]
    assert await queue.finish(lost[0].token, TurnFailed(cause="x", category="internal")) == "ok"
    assert await queue.claim("w1", 8, "0badcafe") == []


async def test_turns_of_a_claim_that_came_too_late_to_be_heard_are_handed_back(
    queue: TurnQueue, records: TurnRecords
):
    """A command that is sent again over another connection overtakes its first copy."""
    assert await queue.claim("w1", 1, "aaaa0001", number=1) == []
    await queue.admit(turn("l1", channel=1))
    await queue.claim("w1", 1, "aaaa0001", number=1)  # nobody hears of it
    (first,) = await queue.claim("w1", 1, "aaaa0002", number=2)
    assert first.token == AttemptToken(turn_id="l1", attempt=2, claim="aaaa0002")
    await queue.admit(turn("l2", channel=2))
    assert await queue.claim("w1", 1, "aaaa0001", number=1) == []
    (second,) = await queue.claim("w1", 1, "aaaa0003", number=3, heard=2)
    assert second.token == AttemptToken(turn_id="l2", attempt=1, claim="aaaa0003")
    record = await records.turn("l1")
    assert record is not None
    assert record.crashes == 0
    assert await queue.claim("w1", 1, "aaaa0004", number=4, heard=3) == []
    for token in (first.token, second.token):
        assert await queue.finish(token, TurnDone(count=0)) is Finished.OK


async def test_a_server_that_lost_its_scripts_gets_them_again(queue: TurnQueue, client: Redis):
    await queue.admit(turn("l1"))
    await client.script_flush()
    claimed = await claim_one(queue)
    assert await queue.append(claimed.token, 1, segment(claimed.token, 1)) == "ok"


async def test_a_turn_that_waited_too_long_ends_and_frees_its_lane(
    queue: TurnQueue, client: Redis, keys: Keys, records: TurnRecords
):
    await with_policy(queue, wait_ms=0).admit(turn("old", channel=5))
    await queue.admit(turn("young", channel=5))
    assert await queue.claim("w1", 8) == []
    assert await queue.reap() == [("old", "expired")]
    assert (await claim_one(queue)).token.turn_id == "young"
    (envelope,) = await out_entries(client, keys)
    assert isinstance(envelope.event, TurnFailed)
    assert (envelope.event.cause, envelope.event.count) == ("request_timeout", 0)
    assert await records.state("old") is TurnState.FAILED


async def test_a_record_that_is_gone_frees_its_lane(queue: TurnQueue, client: Redis, keys: Keys):
    await queue.admit(turn("gone", channel=5))
    await queue.admit(turn("next", channel=5))
    await client.delete(keys.turn("gone"))
    assert (await claim_one(queue)).token.turn_id == "next"
    assert await within(client.hget(keys.totals, "depth")) == b"1"


async def test_the_next_claim_supersedes_what_a_dead_worker_showed(
    brief_leases: TurnQueue, client: Redis, keys: Keys
):
    queue = brief_leases
    dead = await admit_and_claim(queue)
    await queue.append(dead.token, 1, segment(dead.token, 1))
    await lease_ended(queue)
    assert await queue.reap() == [("l1", "queued")]
    claimed = await claim_one(queue, "w2")
    assert (claimed.token.attempt, claimed.superseding, claimed.crashes) == (2, True, 1)
    assert claimed.token.claim != dead.token.claim
    shown, superseded = await out_entries(client, keys)
    assert shown.event == segment(dead.token, 1)
    assert superseded.event == AttemptSuperseded(attempt=1, by=2)
    assert (superseded.attempt, superseded.claim, superseded.seq) == (2, claimed.token.claim, 0)
    assert superseded.route == turn().route
    assert await queue.append(claimed.token, 1, segment(claimed.token, 1)) == "ok"

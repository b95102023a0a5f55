import msgspec
import pytest
from redis.asyncio import Redis

from shared.edges.queue import Appended, Finished, TurnQueue
from shared.edges.records import TurnRecords
from shared.edges.redis import within
from shared.keys import Keys
from shared.segments import AttemptSuperseded, TurnDone, TurnFailed
from shared.turns import AttemptToken, TurnOutcome, TurnState
from tests.support.turns import admit_and_claim, claim_one, out_entries, segment, turn, with_policy

FAILED = TurnFailed(cause="internal_error", category="internal", count=-1)
OUTCOME = TurnOutcome(state=TurnState.DONE, segments=1)


def other(token: AttemptToken, **changes: int | str) -> AttemptToken:
    return msgspec.structs.replace(token, **changes)


async def append(queue: TurnQueue, token: AttemptToken, seq: int) -> Appended:
    return await queue.append(token, seq, segment(token, seq))


async def test_segments_arrive_with_their_route(queue: TurnQueue, client: Redis, keys: Keys):
    token = (await admit_and_claim(queue)).token
    assert [await append(queue, token, seq) for seq in (1, 2)] == ["ok", "ok"]
    for seq, envelope in enumerate(await out_entries(client, keys), start=1):
        assert (envelope.turn_id, envelope.attempt, envelope.claim) == ("l1", 1, token.claim)
        assert envelope.route == turn().route
        assert envelope.event == segment(token, seq)
        assert envelope.seq == seq


async def test_a_segment_sent_twice_is_there_once(queue: TurnQueue, client: Redis, keys: Keys):
    token = (await admit_and_claim(queue)).token
    await append(queue, token, 1)
    await append(queue, token, 2)
    assert await append(queue, token, 1) is Appended.DUPLICATE
    assert await append(queue, token, 2) is Appended.DUPLICATE
    assert len(await out_entries(client, keys)) == 2


async def test_a_gap_is_refused(queue: TurnQueue, client: Redis, keys: Keys):
    token = (await admit_and_claim(queue)).token
    assert await append(queue, token, 2) is Appended.GAP
    assert await queue.accepted(token) == 0
    assert await out_entries(client, keys) == []


@pytest.mark.parametrize("changes", [{"attempt": 2}, {"claim": "00000000"}, {"turn_id": "l9"}])
async def test_another_token_is_fenced(
    queue: TurnQueue, client: Redis, keys: Keys, changes: dict[str, int | str]
):
    token = other((await admit_and_claim(queue)).token, **changes)
    assert await append(queue, token, 1) is Appended.FENCED
    assert await queue.finish(token, FAILED) is Finished.FENCED
    assert await queue.next_attempt(token) is None
    assert await queue.note_tool(token) is False
    assert await queue.accepted(token) is None
    assert await out_entries(client, keys) == []


async def test_an_append_renews_the_lease(queue: TurnQueue, client: Redis, keys: Keys):
    token = (await admit_and_claim(queue)).token
    await client.zadd(keys.leases, {"l1": 1})
    await append(queue, token, 1)
    assert (await client.zscore(keys.leases, "l1") or 0) > 1


async def test_a_full_stream_asks_to_wait(queue: TurnQueue, client: Redis, keys: Keys):
    queue.out_max_entries = 1
    token = (await admit_and_claim(queue)).token
    assert await append(queue, token, 1) is Appended.OK
    assert await append(queue, token, 2) is Appended.BACKPRESSURE
    await client.delete(keys.out_of(turn().route.channel_id))
    assert await append(queue, token, 2) is Appended.OK


async def test_a_full_stream_takes_the_terminal_event(queue: TurnQueue):
    queue.out_max_entries = 0
    token = (await admit_and_claim(queue)).token
    assert await queue.finish(token, TurnDone(count=0), OUTCOME) is Finished.OK


async def test_a_finished_turn_has_one_terminal_event_after_its_segments(
    queue: TurnQueue, client: Redis, keys: Keys, records: TurnRecords
):
    token = (await admit_and_claim(queue)).token
    await append(queue, token, 1)
    event = TurnDone(count=1)
    assert await queue.finish(token, event, OUTCOME) is Finished.OK
    assert await queue.finish(token, event, OUTCOME) is Finished.OK
    _, last = await out_entries(client, keys)
    assert (last.seq, last.event) == (2, event)
    assert await append(queue, token, 2) is Appended.FENCED
    record = await records.turn("l1")
    assert record is not None
    assert (record.state, record.event, record.outcome) == (TurnState.DONE, event, OUTCOME)
    assert await records.request("l1") is None


async def test_a_count_that_the_server_does_not_know_is_a_gap(
    queue: TurnQueue, client: Redis, keys: Keys
):
    token = (await admit_and_claim(queue)).token
    assert await queue.finish(token, TurnDone(count=1), OUTCOME) is Finished.GAP
    await append(queue, token, 1)
    assert await queue.finish(token, TurnDone(count=1), OUTCOME) is Finished.OK


async def test_a_count_of_minus_one_is_what_the_server_accepted(
    queue: TurnQueue, client: Redis, keys: Keys
):
    token = (await admit_and_claim(queue)).token
    await append(queue, token, 1)
    await queue.finish(token, FAILED)
    assert (await out_entries(client, keys))[-1].event == msgspec.structs.replace(FAILED, count=1)


async def test_text_with_patterns_of_lua_passes_unchanged(
    queue: TurnQueue, client: Redis, keys: Keys
):
    token = (await admit_and_claim(queue)).token
    event = TurnFailed(cause="x", category="internal", count=-1, headline="100 %1 %% @by@ ü\n\0")
    await queue.finish(token, event)
    assert (await out_entries(client, keys))[-1].event == msgspec.structs.replace(event, count=0)


async def test_a_failed_turn_keeps_what_a_replay_needs(queue: TurnQueue, records: TurnRecords):
    token = (await admit_and_claim(queue)).token
    await queue.finish(token, FAILED)
    assert await records.request("l1") == turn("l1")
    (failed,) = [record async for record in records.failed()]
    assert (failed.turn_id, failed.state) == ("l1", TurnState.FAILED)
    assert failed.facts.model == "plain"
    assert failed.route.guild_id == 7


async def test_the_next_attempt_counts_from_one_and_supersedes(
    queue: TurnQueue, client: Redis, keys: Keys
):
    token = (await admit_and_claim(queue)).token
    await append(queue, token, 1)
    following = await queue.next_attempt(token)
    assert following == other(token, attempt=2)
    assert await queue.next_attempt(token) == following
    assert await append(queue, token, 2) is Appended.FENCED
    assert await append(queue, following, 1) is Appended.OK
    _, superseded, shown = await out_entries(client, keys)
    assert superseded.event == AttemptSuperseded(attempt=1, by=2)
    assert (superseded.attempt, superseded.seq, shown.attempt, shown.seq) == (2, 0, 2, 1)


async def test_the_next_attempt_supersedes_nothing_where_nothing_was_shown(
    queue: TurnQueue, client: Redis, keys: Keys
):
    token = (await admit_and_claim(queue)).token
    assert await queue.next_attempt(token) == other(token, attempt=2)
    assert await out_entries(client, keys) == []


async def test_an_ended_turn_frees_lane_guild_and_key(queue: TurnQueue, client: Redis, keys: Keys):
    await queue.admit(turn("l2"))
    token = (await admit_and_claim(queue, "l1")).token
    await queue.finish(token, FAILED)
    following = await claim_one(queue)
    assert following.token.turn_id == "l1"
    await queue.finish(following.token, FAILED)
    for name in (keys.running_lanes, keys.running_guilds, keys.running_keys, keys.depth):
        assert await within(client.hgetall(name)) == {}
    for name in (keys.leases, keys.ring, keys.waiting):
        assert not await client.exists(name)
    assert await client.pttl(keys.ring_times) > 0  # what its guild was charged is remembered


async def test_the_index_of_failed_turns_is_bounded(
    queue: TurnQueue, client: Redis, keys: Keys, records: TurnRecords
):
    small = with_policy(queue, failed_max=2)
    for n in range(4):
        token = (await admit_and_claim(small, f"l{n}")).token
        await records.save_recording(f"l{n}", 1, b"bytes")
        await small.finish(token, FAILED)
    assert [record.turn_id async for record in records.failed()] == ["l3", "l2"]
    assert await records.turn("l0") is None
    assert await records.load_recording("l0", 1) is None
    assert await records.load_recording("l3", 1) == b"bytes"
    assert await records.timeline("l1") == []

import asyncio
from contextlib import suppress

import msgspec
import pytest
from redis.asyncio import Redis

from gateway.edges.store import GatewayFleet
from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords
from shared.edges.redis import within
from shared.errors import Fenced, FleetError
from shared.keys import Keys
from shared.lifetimes import PICTURE_TTL_MS
from shared.segments import REPLACED, Segment, SegmentKind, SegmentReady, TurnDone, TurnFailed
from shared.turns import FollowUp, TurnOutcome, TurnState
from tests.support.servers import RedisServer
from tests.support.turns import admit_and_claim, claim_one, out_entries, segment, turn
from worker.edges.fleet.lease import Lease
from worker.edges.outbox import Outbox
from worker.turn.pictures import MAX_PICTURE_BYTES, MAX_PICTURES

OUTCOME = TurnOutcome(state=TurnState.DONE, segments=0)


class Waits:
    """A sleep that only counts, and does something at its first call."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.then = asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self.then.set()
        await asyncio.sleep(0)


@pytest.fixture
async def lease(queue: TurnQueue) -> Lease:
    return Lease(await admit_and_claim(queue))


@pytest.fixture
def waits() -> Waits:
    return Waits()


@pytest.fixture
def outbox(queue: TurnQueue, records: TurnRecords, lease: Lease, waits: Waits) -> Outbox:
    return Outbox(queue, records, lease, sleep=waits)


def piece(outbox: Outbox, seq: int) -> Segment:
    return segment(outbox.token, seq, f"text {seq}").segment


async def texts(client: Redis, keys: Keys) -> list[str]:
    return [
        envelope.event.segment.text
        for envelope in await out_entries(client, keys)
        if isinstance(envelope.event, SegmentReady)
    ]


async def test_what_the_server_forgot_is_sent_again(outbox: Outbox, client: Redis, keys: Keys):
    """With `everysec`, a killed server may come back without the last appends."""
    for seq in (1, 2, 3):
        await outbox.send(piece(outbox, seq))
    await within(client.hset(keys.turn("l1"), "seq", "1"))
    await client.delete(keys.out_of(turn().route.channel_id))
    await outbox.send(piece(outbox, 4))
    assert await texts(client, keys) == ["text 2", "text 3", "text 4"]


async def test_a_turn_ends_only_with_all_of_its_segments(
    outbox: Outbox, lease: Lease, client: Redis, keys: Keys
):
    for seq in (1, 2):
        await outbox.send(piece(outbox, seq))
    await within(client.hset(keys.turn("l1"), "seq", "0"))
    await client.delete(keys.out_of(turn().route.channel_id))
    await outbox.finish(TurnDone(count=2), OUTCOME)
    assert await texts(client, keys) == ["text 1", "text 2"]
    assert (await out_entries(client, keys))[-1].event == TurnDone(count=2)
    assert lease.is_finished


async def test_segments_are_sent_in_order(outbox: Outbox):
    with pytest.raises(FleetError, match="segment 2 follows 0"):
        await outbox.send(piece(outbox, 2))


async def test_a_count_without_its_segments_is_a_mistake(outbox: Outbox):
    with pytest.raises(FleetError, match="3 segments are counted"):
        await outbox.finish(TurnDone(count=3), OUTCOME)


async def test_a_full_stream_is_waited_for(
    outbox: Outbox, queue: TurnQueue, waits: Waits, client: Redis, keys: Keys
):
    queue.out_max_entries = 1
    await outbox.send(piece(outbox, 1))
    sending = asyncio.create_task(outbox.send(piece(outbox, 2)))
    await waits.then.wait()
    await client.delete(keys.out_of(turn().route.channel_id))
    await sending
    assert await texts(client, keys) == ["text 2"]
    assert waits.seconds[0] == 0.05
    assert max(waits.seconds) <= 1.0


async def test_a_stop_ends_the_waiting_for_a_full_stream(
    outbox: Outbox, lease: Lease, queue: TurnQueue, waits: Waits, client: Redis, keys: Keys
):
    queue.out_max_entries = 1
    assert await outbox.send(piece(outbox, 1))
    sending = asyncio.create_task(outbox.send(piece(outbox, 2)))
    await waits.then.wait()
    lease.stopped.set()
    assert await sending is False
    outcome = msgspec.structs.replace(OUTCOME, state=TurnState.CANCELLED)
    await outbox.finish(TurnDone(count=1, state=TurnState.CANCELLED), outcome)
    assert await texts(client, keys) == ["text 1"]
    _, end = await out_entries(client, keys)
    assert end.event == TurnDone(count=1, state=TurnState.CANCELLED)


async def test_a_stop_wakes_who_waits(queue: TurnQueue, records: TurnRecords, lease: Lease):
    sleeps = asyncio.Event()

    async def sleep(_: float) -> None:
        sleeps.set()
        await asyncio.Event().wait()

    queue.out_max_entries = 0
    outbox = Outbox(queue, records, lease, sleep=sleep)
    sending = asyncio.create_task(outbox.send(piece(outbox, 1)))
    async with asyncio.timeout(5):
        await sleeps.wait()
        lease.stopped.set()
        assert await sending is False


async def test_completed_rounds_are_kept_for_the_next_claim(
    outbox: Outbox, lease: Lease, queue: TurnQueue, records: TurnRecords, client: Redis
):
    assert await outbox.kept_rounds() is None
    await outbox.note_tool()
    await outbox.keep_rounds(b"[1]")
    await queue.release(lease.token)
    heir = Outbox(queue, records, Lease(await claim_one(queue, "w2")))
    assert await heir.kept_rounds() == b"[1]"
    with pytest.raises(Fenced):
        await outbox.keep_rounds(b"[1, 2]")


async def test_a_server_without_memory_keeps_no_rounds(
    outbox: Outbox, queue: TurnQueue, client: Redis
):
    await client.config_set("maxmemory", "1")
    try:
        await outbox.keep_rounds(b"[1]")
    finally:
        await client.config_set("maxmemory", "0")
    assert await queue.kept_rounds("l1") is None


async def test_a_fenced_outbox_stays_silent(
    outbox: Outbox, queue: TurnQueue, lease: Lease, client: Redis, keys: Keys
):
    await queue.release(lease.token)
    await claim_one(queue, "w2")
    with pytest.raises(Fenced):
        await outbox.send(piece(outbox, 1))
    assert lease.lost.is_set()
    with pytest.raises(Fenced):
        await outbox.next_attempt()
    with pytest.raises(Fenced):
        await outbox.note_tool()
    with pytest.raises(Fenced):
        await outbox.finish(TurnDone(count=0), OUTCOME)
    assert not lease.is_finished
    assert await out_entries(client, keys) == []


async def test_fenced_while_looking_for_a_gap(
    outbox: Outbox, queue: TurnQueue, client: Redis, keys: Keys
):
    await outbox.send(piece(outbox, 1))
    await client.delete(keys.turn("l1"))
    with pytest.raises(Fenced):
        await outbox.send(piece(outbox, 2))


async def test_the_next_attempt_starts_over(
    outbox: Outbox, lease: Lease, client: Redis, keys: Keys
):
    await outbox.send(piece(outbox, 1))
    assert (await outbox.next_attempt()).attempt == 2
    assert outbox.token is lease.token
    await outbox.note_tool()
    await outbox.send(piece(outbox, 1))
    await outbox.finish(TurnFailed(cause="x", category="internal", count=1), OUTCOME)
    assert [e.attempt for e in await out_entries(client, keys)] == [1, 2, 2, 2]


@pytest.mark.parametrize("steps", range(0, 12, 2))
async def test_a_cancelled_finish_is_done_or_not_but_never_half(
    outbox: Outbox, lease: Lease, queue: TurnQueue, records: TurnRecords, steps: int
):
    await outbox.send(piece(outbox, 1))
    finishing = asyncio.create_task(outbox.finish(TurnDone(count=1), OUTCOME))
    for _ in range(steps):
        await asyncio.sleep(0)
    finishing.cancel()
    with suppress(asyncio.CancelledError):
        await finishing
    state = await records.state("l1")
    assert lease.is_finished == (state is TurnState.DONE)
    assert lease.is_finished or steps == 0


async def test_a_cancelled_finish_of_a_fenced_turn_is_just_cancelled(
    outbox: Outbox, queue: TurnQueue, lease: Lease
):
    await queue.release(lease.token)
    finishing = asyncio.create_task(outbox.finish(TurnDone(count=0), OUTCOME))
    await asyncio.sleep(0)
    finishing.cancel()
    await asyncio.wait({finishing})
    assert finishing.cancelled()
    assert lease.lost.is_set()


async def test_a_replaced_turn_says_so_at_its_end(
    outbox: Outbox, queue: TurnQueue, client: Redis, keys: Keys
):
    await queue.admit(turn("l2", follow_up=FollowUp.REPLACE))
    outcome = msgspec.structs.replace(OUTCOME, state=TurnState.CANCELLED)
    await outbox.finish(TurnDone(count=0, state=TurnState.CANCELLED), outcome)
    (end,) = await out_entries(client, keys)
    assert (end.turn_id, end.event) == (
        "l1",
        TurnDone(count=0, state=TurnState.CANCELLED, notes=(REPLACED,)),
    )


async def test_a_recording_is_kept_beside_the_turn(
    outbox: Outbox, records: TurnRecords, client: Redis, keys: Keys
):
    await outbox.keep_recording(b"bytes")
    assert await records.load_recording("l1", 1) == b"bytes"
    assert await client.pttl(keys.recording("l1", 1)) > 71 * 3_600_000


async def test_a_picture_waits_for_the_gateway_that_fetches_it(
    outbox: Outbox, queue: TurnQueue, client: Redis, keys: Keys
):
    assert await outbox.keep_picture("p1", b"png")
    assert await GatewayFleet(queue).picture("p1") == b"png"
    assert await GatewayFleet(queue).picture("p2") is None
    assert 0 < await client.pttl(keys.picture("p1")) <= PICTURE_TTL_MS
    await client.config_set("maxmemory", "1")
    try:
        assert not await outbox.keep_picture("p2", b"png")
    finally:
        await client.config_set("maxmemory", "0")


async def test_as_many_and_as_large_pictures_as_there_may_be_are_kept(
    outbox: Outbox, queue: TurnQueue
):
    for number in range(MAX_PICTURES):
        data = bytes([number]) * MAX_PICTURE_BYTES
        assert await outbox.keep_picture(f"p{number}", data)
        assert await GatewayFleet(queue).picture(f"p{number}") == data


@pytest.mark.parametrize("is_last", [True, False], ids=["at the end", "in the middle"])
async def test_a_picture_that_the_server_forgot_is_kept_again(
    outbox: Outbox, queue: TurnQueue, client: Redis, keys: Keys, is_last: bool
):
    assert await outbox.keep_picture("p1", b"png")
    drawn = msgspec.structs.replace(piece(outbox, 1), kind=SegmentKind.FILE, picture="p1")
    await outbox.send(drawn)
    await within(client.hset(keys.turn(outbox.token.turn_id), "seq", "0"))
    await client.delete(keys.picture("p1"))
    if not is_last:
        await outbox.send(piece(outbox, 2))
    await outbox.finish(TurnDone(count=1 if is_last else 2), OUTCOME)
    assert await GatewayFleet(queue).picture("p1") == b"png"


async def test_a_picture_waits_for_an_absent_server(
    outbox: Outbox, waits: Waits, server: RedisServer
):
    server.kill()
    keeping = asyncio.create_task(outbox.keep_picture("p1", b"png"))
    await waits.then.wait()
    server.start()
    assert await keeping


async def test_a_recording_without_memory_is_given_up(outbox: Outbox, client: Redis):
    await client.config_set("maxmemory", "1")
    try:
        await outbox.keep_recording(b"bytes")
    finally:
        await client.config_set("maxmemory", "0")


async def test_an_absent_server_is_waited_for(
    outbox: Outbox, lease: Lease, waits: Waits, server: RedisServer, client: Redis, keys: Keys
):
    server.kill()
    sending = asyncio.create_task(outbox.send(piece(outbox, 1)))
    await waits.then.wait()
    server.start()
    await sending
    assert await texts(client, keys) == ["text 1"]


async def test_a_lost_lease_ends_the_waiting(outbox: Outbox, lease: Lease, server: RedisServer):
    server.kill()
    lease.lost.set()
    with pytest.raises(Fenced):
        await outbox.send(piece(outbox, 1))
    server.start()


async def test_thoughts_pass_the_rules_of_replies(
    queue: TurnQueue, records: TurnRecords, lease: Lease
):
    async def obey(part: Segment) -> Segment:
        return msgspec.structs.replace(part, text=part.text.replace("secret", "…"))

    await Outbox(queue, records, lease, obey=obey).keep_thoughts("a secret\n\nplan", 60)
    kept = await records.thoughts(lease.token.turn_id)
    assert kept is not None
    assert (kept.text, kept.user_id) == ("a …\n\nplan", turn().route.user_id)

"""Lease, journal, stream and marks of the gateway on real servers."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing

import msgspec
import pytest
from redis.asyncio import Redis

from gateway.edges.leadership import YIELD_S, PartitionLease, awake_s
from gateway.edges.store import (
    DIRECT_CHANNELS_MAX,
    GatewayFleet,
    RedisJournal,
    RedisMarks,
    StreamSource,
)
from gateway.front import Sent
from gateway.sequencer import TurnSequencer
from gateway.steps import Head, JournalRecord, Patch, Piece, Post, Slot, Written
from shared.config import Settings
from shared.edges.queue import Admission, TurnQueue
from shared.edges.records import TurnRecords
from shared.edges.redis import connect
from shared.edges.streams import TailReader
from shared.errors import StoreFull, StoreUnavailable, WireError
from shared.keys import Keys
from shared.turns import FollowUp
from shared.wire import encode_json
from tests.support.envelopes import preview
from tests.support.servers import RedisServer, flavors, running_server
from tests.support.turns import admit_and_claim, segment, turn

KEYS = Keys()


@pytest.fixture(scope="module", params=flavors())
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    with running_server(request.param) as running:
        yield running


def slot(message_id: int | None = None) -> Slot:
    return Slot(nonce="n", at_ms=1, message_id=message_id)


async def test_one_gateway_leads_a_partition_at_a_time(redis):
    first, second = PartitionLease(redis, KEYS, 0, "a"), PartitionLease(redis, KEYS, 0, "b")
    assert await first.take()
    assert await first.take()
    assert not await second.take()
    await second.release()
    assert await first.take()
    await first.release()
    assert await second.take()
    assert 0 < await redis.pttl(KEYS.leader(0)) <= 3_000


async def test_a_lease_that_ended_is_not_kept_but_taken_anew(redis):
    """Somebody else may have led and gone meanwhile."""
    lease = PartitionLease(redis, KEYS, 0, "a")
    assert await lease.take()
    assert await lease.keep()
    await redis.delete(KEYS.leader(0))
    assert await lease.keep()  # nobody else has led
    await redis.flushall()
    assert await lease.keep()  # nor on a server that forgot everything
    await redis.delete(KEYS.leader(0))
    other = PartitionLease(redis, KEYS, 0, "b")
    assert await other.take()
    await redis.delete(KEYS.leader(0))
    assert not await lease.keep()
    assert await lease.take()


class Clock:
    """A clock that a test moves."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


async def forget(server: RedisServer, redis: Redis, how: str) -> None:
    """Has a server forget the lease, and who led last."""
    if how == "flushed":
        await redis.flushall()
    else:
        await redis.delete(KEYS.leader(0))
        server.kill()
        await asyncio.to_thread(server.start)
        await redis.connection_pool.disconnect()


@pytest.mark.parametrize("how", ["flushed", "started anew"])
async def test_who_stood_by_lets_the_leader_go_first_after_a_server_forgot(server, redis, how):
    clock = Clock()
    leader = PartitionLease(redis, KEYS, 0, "a")
    other = PartitionLease(redis, KEYS, 0, "b", now_s=clock)
    assert await leader.take()
    assert not await other.take()
    await forget(server, redis, how)
    for _ in range(3):
        assert not await other.take()
        clock.now_s += 1.0
    assert await leader.keep()
    assert not await other.take()
    await leader.release()
    assert await other.take()  # an orderly end is waited for by nobody


async def test_who_stood_by_leads_once_nobody_came(server, redis):
    clock = Clock()
    other = PartitionLease(redis, KEYS, 0, "b", now_s=clock)
    assert await PartitionLease(redis, KEYS, 0, "a").take()
    assert not await other.take()
    await forget(server, redis, "started anew")
    assert not await other.take()
    clock.now_s += YIELD_S - 0.1
    assert not await other.take()
    clock.now_s += 0.2
    assert await other.take()


async def test_who_begins_on_an_empty_server_waits_for_nobody(redis):
    assert await PartitionLease(redis, KEYS, 0, "a").take()
    await redis.flushall()
    assert await PartitionLease(redis, KEYS, 0, "b").take()


async def test_a_leader_is_sure_for_as_long_as_its_lease_was_given(redis):
    now = [100.0]
    lease = PartitionLease(redis, KEYS, 0, "a", now_s=lambda: now[0])
    assert not lease.is_sure()
    await lease.take()
    now[0] += 2.9
    assert lease.is_sure()
    now[0] += 0.2
    assert not lease.is_sure()
    await lease.keep()
    assert lease.is_sure()
    await redis.set(KEYS.leader(0), "b")
    assert not await lease.keep()
    assert not lease.is_sure()


def test_the_clock_of_a_lease_goes_on():
    assert awake_s() <= awake_s()


async def test_the_journal_gives_back_what_was_written(redis):
    await PartitionLease(redis, KEYS, 0, "a").take()
    journal = RedisJournal(redis, KEYS, 0, "a")
    assert await journal.read("l1") is None
    puts = tuple((number, slot(number)) for number in range(12))
    first, second = Head(attempt=1), Head(attempt=2, claim="c")
    for _ in "ab":  # sent twice after a lost answer
        assert await journal.write("l1", Patch(head=first, before=Head(), put=puts)) == "done"
    patch = Patch(head=second, before=first, drop=(11, 10))
    assert await journal.write("l1", patch) == "done"
    assert await journal.write("l1", patch) == "done"
    assert await journal.read("l1") == JournalRecord(
        head=Head(attempt=2, claim="c"), slots=tuple(slot(number) for number in range(10))
    )
    assert await redis.pttl(KEYS.journal("l1")) > 0


async def test_who_lost_the_lease_writes_nothing(redis):
    await PartitionLease(redis, KEYS, 0, "b").take()
    journal = RedisJournal(redis, KEYS, 0, "a")
    patch = Patch(head=Head(attempt=1), before=Head())
    assert await journal.write("l1", patch) is Written.FENCED
    await redis.delete(KEYS.leader(0))  # the other one led last
    assert await journal.write("l1", patch) is Written.FENCED
    assert await journal.read("l1") is None


async def test_a_journal_that_forgot_is_written_anew(redis):
    await PartitionLease(redis, KEYS, 0, "a").take()
    journal = RedisJournal(redis, KEYS, 0, "a")
    one, two, three = (Head(attempt=1, seq=seq) for seq in (1, 2, 3))
    await journal.write("l1", Patch(head=one, before=Head(), put=((0, slot(10)),)))
    patch = Patch(head=three, before=two, put=((2, slot(12)),))
    assert await journal.write("l1", patch) is Written.FORGOTTEN
    whole = Patch(head=three, before=None, put=((0, slot(10)), (1, slot(11))))
    assert await journal.write("l1", whole) is Written.DONE
    assert await journal.read("l1") == JournalRecord(head=three, slots=(slot(10), slot(11)))


async def test_a_copy_of_a_patch_that_comes_after_a_later_one_changes_nothing(redis):
    """A command that is sent again over another connection overtakes its first copy."""
    await PartitionLease(redis, KEYS, 0, "a").take()
    journal, turn = RedisJournal(redis, KEYS, 0, "a"), TurnSequencer("m1")
    first = turn.feed(preview(0, "Tw"), (Piece(text="Tw"),))
    assert first is not None
    assert turn.postpone(first)
    step = turn.step()
    assert isinstance(step, Post)
    intent = turn.intent(step, 1)
    receipt = turn.settle(step, Sent(message_id=1001))
    assert intent is not None
    assert receipt is not None
    assert await journal.write("m1", intent) == "done"
    early = turn.whole()
    assert await journal.write("m1", receipt) == "done"
    shown = await journal.read("m1")
    assert shown is not None
    assert shown.slots[0].message_id == 1001
    assert await journal.write("m1", intent) is Written.FORGOTTEN
    assert await journal.read("m1") == shown
    late = msgspec.structs.replace(early, head=intent.head, put=((0, slot()),))
    assert await journal.write("m1", late) is Written.FORGOTTEN
    assert await journal.read("m1") == shown
    assert await journal.write("m1", turn.whole()) == "done"


async def test_a_journal_of_an_earlier_version_goes_on(redis):
    await PartitionLease(redis, KEYS, 0, "a").take()
    older = b'{"attempt":1,"claim":"aaaa0001","seq":1,"parts":0,"cursor":1,"closed":false,'
    older += b'"past":[],"upto":0,"again":[]}'
    row = encode_json(slot(1001))
    await redis.hset(KEYS.journal("m1"), mapping={"head": older, "0": row})
    journal = RedisJournal(redis, KEYS, 0, "a")
    turn = TurnSequencer("m1", await journal.read("m1"))
    patch = turn.abandon()
    assert await journal.write("m1", patch) == "done"
    assert await journal.write("m1", patch) == "done"
    found = await journal.read("m1")
    assert found is not None
    assert (found.head.closed, found.head.writes, found.slots) == (True, 1, (slot(1001),))


async def test_a_receipt_acknowledges_what_it_ends_and_a_refused_one_nothing(redis):
    await PartitionLease(redis, KEYS, 0, "a").take()
    stream = KEYS.out(0)
    first, second = [(await redis.xadd(stream, {"n": n})).decode() for n in (1, 2)]
    patch = Patch(head=Head(attempt=1), before=Head(), put=((0, slot(10)),), drop=(7, 8))
    for owner, before, said in (
        ("b", Head(), Written.FENCED),
        ("a", Head(seq=9), Written.FORGOTTEN),
        ("a", Head(), Written.DONE),
        ("a", Head(), Written.DONE),  # sent twice after a lost answer
    ):
        journal = RedisJournal(redis, KEYS, 0, owner)
        changed = msgspec.structs.replace(patch, before=before)
        assert await journal.write("l1", changed, shown=(first,)) is said
        left = [name.decode() for name, _ in await redis.xrange(stream)]
        assert left == ([second] if said is Written.DONE else [first, second])


async def test_a_journal_that_cannot_be_read_is_an_error(redis):
    await redis.hset(KEYS.journal("l1"), "head", "no JSON")
    with pytest.raises(WireError, match="l1"):
        await RedisJournal(redis, KEYS, 0, "a").read("l1")


async def test_an_absent_server_is_said_so():
    async with aclosing(connect("redis://127.0.0.1:1/0")) as client:
        with pytest.raises(StoreUnavailable):
            await PartitionLease(client, KEYS, 0, "a").take()


async def test_envelopes_come_again_until_they_are_acknowledged(redis, server):
    async with aclosing(connect(server.url, blocking=True)) as blocking:
        queue = TurnQueue(redis, KEYS, Settings())
        claimed = await admit_and_claim(queue, channel=7)
        await queue.append(claimed.token, 1, segment(claimed.token, 1))
        source = StreamSource(TailReader(redis, blocking, stream=KEYS.out_of(7)), KEYS)
        (envelope,) = await source.read()
        source.rewind()
        assert await source.read() == [envelope]
        await source.ack(envelope.entry_id)
        source.rewind()
        assert await source.read() == []


async def test_a_leader_that_wakes_takes_nothing_from_its_successor(redis, server):
    async with aclosing(connect(server.url, blocking=True)) as blocking:
        old, new = (
            StreamSource(TailReader(redis, blocking, stream=KEYS.out_of(7)), KEYS) for _ in "ab"
        )
        queue = TurnQueue(redis, KEYS, Settings())
        claimed = await admit_and_claim(queue, channel=7)
        assert await new.read() == []
        await queue.append(claimed.token, 1, segment(claimed.token, 1))
        await queue.append(claimed.token, 2, segment(claimed.token, 2))
        stolen = await old.read()
        assert await new.read() == stolen
        assert [envelope.seq for envelope in stolen] == [1, 2]


async def test_an_entry_that_nobody_can_read_is_buried(redis, server):
    async with aclosing(connect(server.url, blocking=True)) as blocking:
        await redis.xadd(KEYS.out(0), {"turn": "l1"})
        reader = TailReader(redis, blocking, stream=KEYS.out(0))
        assert await StreamSource(reader, KEYS).read() == []
        assert await redis.xlen(KEYS.buried) == 1
        assert await redis.xlen(KEYS.out(0)) == 0


async def test_what_was_read_with_an_entry_that_cannot_be_buried_yet_comes_again(redis, server):
    async with aclosing(connect(server.url, blocking=True)) as blocking:
        queue = TurnQueue(redis, KEYS, Settings())
        claimed = await admit_and_claim(queue, channel=7)
        await queue.append(claimed.token, 1, segment(claimed.token, 1))
        await redis.xadd(KEYS.out_of(7), {"turn": "l1"})
        source = StreamSource(TailReader(redis, blocking, stream=KEYS.out_of(7)), KEYS)
        await redis.config_set("maxmemory", "1")
        with pytest.raises(StoreFull):
            await source.read()
        await redis.config_set("maxmemory", "0")
        assert [envelope.seq for envelope in await source.read()] == [1]
        assert await redis.xlen(KEYS.buried) == 1


async def test_a_refusing_channel_is_marked_for_a_while(redis):
    fleet, records = GatewayFleet(TurnQueue(redis, KEYS, Settings())), TurnRecords(redis, KEYS)
    assert not await records.is_blocked(7)
    await fleet.block_channel(7)
    assert await records.is_blocked(7)
    assert not await records.is_blocked(8)
    assert await redis.pttl(KEYS.send_block(7)) > 0
    await fleet.cancel("unknown")


async def test_a_prompt_that_was_declined_becomes_no_turn(redis):
    queue, records = TurnQueue(redis, KEYS, Settings()), TurnRecords(redis, KEYS)
    assert not await records.is_known("l1")
    await records.decline("l1")
    assert await records.is_known("l1")
    assert await queue.admit(turn("l1")) is Admission.DUPLICATE
    assert await redis.pttl(KEYS.mark("l1")) > 0
    await redis.config_set("maxmemory", "1")
    await records.decline("l2")
    await redis.config_set("maxmemory", "0")
    assert not await records.is_known("l2")


async def test_each_start_of_a_server_is_another(redis):
    fleet = GatewayFleet(TurnQueue(redis, KEYS, Settings()))
    run, word = (await fleet.server_id()).split()
    assert (len(run), len(word)) == (40, 8)
    assert await fleet.server_id() == f"{run} {word}"
    await redis.flushall()
    assert (await fleet.server_id()).startswith(run)
    assert await fleet.server_id() != f"{run} {word}"
    assert await redis.pttl(KEYS.memory) > 0


async def test_it_is_told_which_turns_have_ended(redis):
    queue = TurnQueue(redis, KEYS, Settings())
    fleet = GatewayFleet(queue)
    for number in (1, 2, 3):
        await queue.admit(turn(f"l{number}", channel=number))
    await queue.cancel("l1")
    (running,) = await queue.claim("w1", 1)
    assert await fleet.ended(["l1", "l2", "l3", "l4"]) == {"l1", "l4"}
    assert running.token.turn_id in ("l2", "l3")


async def test_a_turn_that_was_taken_in_ends_with_the_one_that_has_its_words(redis):
    queue = TurnQueue(redis, KEYS, Settings())
    fleet = GatewayFleet(queue)
    for number in (1, 2, 3):
        await queue.admit(turn(f"l{number}", follow_up=FollowUp.MERGE))
    assert await fleet.ended(["l1", "l2", "l3"]) == set()
    await queue.cancel("l3")
    assert await fleet.ended(["l1", "l2", "l3"]) == {"l1", "l2", "l3"}


async def test_a_full_server_without_memory_is_another_one(redis):
    fleet = GatewayFleet(TurnQueue(redis, KEYS, Settings()))
    await redis.config_set("maxmemory", "1")
    try:
        assert len(await fleet.server_id()) == 41
    finally:
        await redis.config_set("maxmemory", "0")


async def test_the_marks_of_a_front_outlive_it(redis):
    marks = RedisMarks(redis, KEYS)
    assert await marks.alive_ms(0, 2) is None
    await redis.set(KEYS.front("alive"), 100)
    assert await marks.alive_ms(0, 2) == 100, "the one mark of an earlier version"
    await marks.note_alive(0, 2, 123)
    await marks.note_alive(1, 2, 120)
    assert [await marks.alive_ms(shard, 2) for shard in (0, 1)] == [123, 120]
    assert await marks.alive_ms(2, 4) == 120, "another number of shards begins where all had come"
    for channel in range(DIRECT_CHANNELS_MAX + 5):
        await marks.note_direct_channel(channel)
    channels = await marks.direct_channels()
    assert len(channels) == DIRECT_CHANNELS_MAX
    for key in (KEYS.front("marks"), KEYS.front("dm")):
        assert await redis.pttl(key) > 0

"""Previews on the way: fenced like segments, never waited for, withheld where rules hold."""

import pytest
from redis.asyncio import Redis

from shared.edges.queue import Appended, TurnQueue
from shared.edges.records import TurnRecords
from shared.errors import Fenced
from shared.keys import Keys
from shared.segments import SegmentPreview, TurnDone
from shared.turns import TurnOutcome, TurnState
from tests.support.turns import admit_and_claim, claim_one, out_entries, segment
from worker.edges.fleet.lease import Lease
from worker.edges.outbox import Outbox


@pytest.fixture
async def lease(queue: TurnQueue) -> Lease:
    return Lease(await admit_and_claim(queue))


async def test_a_preview_counts_as_no_segment(
    queue: TurnQueue, records: TurnRecords, lease: Lease, client: Redis, keys: Keys
):
    outbox = Outbox(queue, records, lease)
    await outbox.preview("half")
    await outbox.send(segment(lease.token, 1, "whole").segment)
    await outbox.preview("more")
    await outbox.finish(TurnDone(count=1), TurnOutcome(state=TurnState.DONE, segments=1))
    entries = await out_entries(client, keys)
    assert [(entry.seq, type(entry.event).__name__) for entry in entries] == [
        (0, "SegmentPreview"),
        (1, "SegmentReady"),
        (1, "SegmentPreview"),
        (2, "TurnDone"),
    ]


async def test_a_copy_of_a_preview_that_comes_after_its_segment_is_dropped(
    queue: TurnQueue, lease: Lease, client: Redis, keys: Keys
):
    """A command that is sent again over another connection overtakes its first copy."""
    assert await queue.preview(lease.token, 0, "ha") is Appended.OK
    assert await queue.append(lease.token, 1, segment(lease.token, 1, "half")) is Appended.OK
    assert await queue.preview(lease.token, 0, "ha") is Appended.GAP
    assert await queue.preview(lease.token, 1, "mo") is Appended.OK
    assert [entry.seq for entry in await out_entries(client, keys)] == [0, 1, 1]


async def test_what_was_seen_is_superseded_after_a_crash(
    queue: TurnQueue, records: TurnRecords, lease: Lease, client: Redis, keys: Keys
):
    await Outbox(queue, records, lease).preview("half")
    await queue.release(lease.token)
    heir = await claim_one(queue, "w2")
    assert heir.token.attempt == 2
    events = [type(entry.event).__name__ for entry in await out_entries(client, keys)]
    assert events == ["SegmentPreview", "AttemptSuperseded"]
    with pytest.raises(Fenced):
        await Outbox(queue, records, lease).preview("too late")


async def test_where_rules_hold_nothing_is_seen_before_it_is_whole(
    queue: TurnQueue, records: TurnRecords, lease: Lease, client: Redis, keys: Keys
):
    await Outbox(queue, records, lease, shows_previews=False).preview("half")
    entries = await out_entries(client, keys)
    assert not [entry for entry in entries if isinstance(entry.event, SegmentPreview)]

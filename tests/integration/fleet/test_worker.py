"""`FleetWorker` in this process, on real servers, with jobs that tests control."""

import asyncio
import pickle
from typing import Any

import pytest
from arq.worker import Retry, RetryJob
from redis.asyncio import Redis

from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords
from shared.edges.redis import within
from shared.keys import Keys
from shared.segments import TurnDone, TurnFailed
from shared.turns import TurnOutcome, TurnState
from tests.support.in_process import OUTCOME, Job, Start, answer, finished
from tests.support.turns import out_entries, segment, turn
from worker.edges.fleet.jobs import encode_job
from worker.edges.fleet.lease import Lease
from worker.edges.fleet.worker import ENOUGH_TRIES, FleetWorker
from worker.edges.outbox import Outbox


async def test_a_turn_runs_and_leaves_nothing_behind(
    start: Start, queue: TurnQueue, records: TurnRecords, client: Redis, keys: Keys
):
    async def reply(lease: Lease, outbox: Outbox) -> None:
        await outbox.send(segment(outbox.token, 1).segment)
        await outbox.send(segment(outbox.token, 2).segment)
        await outbox.finish(TurnDone(count=2), TurnOutcome(state=TurnState.DONE, segments=2))

    async with start(reply) as fleet:
        await queue.admit(turn("l1"))
        assert await finished(records, "l1") is TurnState.DONE
    assert [envelope.seq for envelope in await out_entries(client, keys)] == [1, 2, 3]
    assert fleet.mishaps == []
    assert await client.keys("arq:*") == []
    assert await client.zcard(keys.leases) == 0


async def test_turns_of_a_full_worker_start_when_a_slot_is_free(
    start: Start, queue: TurnQueue, records: TurnRecords
):
    order: list[str] = []

    async def note(lease: Lease, outbox: Outbox) -> None:
        order.append(lease.turn_id)
        await answer(lease, outbox)

    async with start(note, slots=1):
        for n in range(4):
            await queue.admit(turn(f"l{n}", channel=n, guild=n))
        for n in range(4):
            await finished(records, f"l{n}")
    assert order == ["l0", "l1", "l2", "l3"]


async def test_a_full_worker_listens_for_turns_again(
    start: Start, queue: TurnQueue, records: TurnRecords
):
    gates = {"l1": asyncio.Event(), "l2": asyncio.Event()}
    gates["l2"].set()

    async def wait(lease: Lease, outbox: Outbox) -> None:
        await gates[lease.turn_id].wait()
        await answer(lease, outbox)

    async with start(wait, slots=1) as fleet:
        await queue.admit(turn("l1", channel=1))
        while fleet.worker.has_free_slot:
            await asyncio.sleep(0.005)
        gates["l1"].set()
        await finished(records, "l1")
        fleet.worker.poll_delay_s = 60.0
        await queue.admit(turn("l2", channel=2))
        async with asyncio.timeout(0.4):
            await finished(records, "l2")


async def failing(lease: Lease, outbox: Outbox) -> None:
    raise ValueError("what the user wrote")


async def returning(lease: Lease, outbox: Outbox) -> None:
    return None


async def cancelling(lease: Lease, outbox: Outbox) -> None:
    raise asyncio.CancelledError


async def retrying(lease: Lease, outbox: Outbox) -> None:
    raise Retry(defer=60)  # arq would run it again, unseen by the queue


async def asking_again(lease: Lease, outbox: Outbox) -> None:
    raise RetryJob


@pytest.mark.parametrize("job", [failing, returning, cancelling, retrying, asking_again])
async def test_a_job_that_ends_without_an_event_ends_its_turn(
    start: Start, queue: TurnQueue, records: TurnRecords, client: Redis, keys: Keys, job: Job
):
    async with start(job) as fleet:
        await queue.admit(turn("l1"))
        assert await finished(records, "l1") is TurnState.FAILED
    (envelope,) = await out_entries(client, keys)
    assert isinstance(envelope.event, TurnFailed)
    assert (envelope.event.cause, envelope.event.category) == ("internal_error", "internal")
    assert "user wrote" not in envelope.event.headline
    assert [mishap.turn_id for mishap in fleet.mishaps] == ["l1"]


async def test_a_job_over_its_time_ends_its_turn(
    start: Start, queue: TurnQueue, records: TurnRecords
):
    async def hang(lease: Lease, outbox: Outbox) -> None:
        await asyncio.Event().wait()

    async with start(hang) as fleet:
        fleet.worker.functions["run_turn"].timeout_s = 0.05
        await queue.admit(turn("l1"))
        assert await finished(records, "l1") is TurnState.FAILED
    assert "time limit" in fleet.mishaps[0].reason


class Explosive:
    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("pickle was run",))


BAD_JOBS = {
    "pickle": pickle.dumps(Explosive()),
    "no msgpack": b"\xc1garbage",
    "unknown function": encode_job({"t": None, "f": "drop_all", "a": ["l1"], "k": {}, "et": 1}),
    "wrong arguments": encode_job({"t": None, "f": "run_turn", "a": ["a", "b"], "k": {}, "et": 1}),
    "other turn": encode_job({"t": None, "f": "run_turn", "a": ["l2"], "k": {}, "et": 1}),
    "gone": None,
    "a list": [b"no", b"string"],
}


@pytest.mark.parametrize("payload", BAD_JOBS.values(), ids=BAD_JOBS.keys())
async def test_a_job_that_cannot_be_run_ends_its_turn(
    start: Start,
    queue: TurnQueue,
    records: TurnRecords,
    client: Redis,
    keys: Keys,
    payload: bytes | list[bytes] | None,
):
    await queue.admit(turn("l1"))
    await client.delete(keys.job("l1"))
    match payload:
        case bytes():
            await client.set(keys.job("l1"), payload)
        case list():
            await within(client.rpush(keys.job("l1"), *payload))
        case None:
            pass
    async with start(answer) as fleet:
        assert await finished(records, "l1") is TurnState.FAILED
    assert len(fleet.mishaps) == 1
    assert fleet.mishaps[0].reason


async def test_a_job_with_too_many_tries_ends_its_turn(
    start: Start, queue: TurnQueue, records: TurnRecords, client: Redis
):
    await queue.admit(turn("l1"))
    await client.set("arq:retry:l1", ENOUGH_TRIES)
    async with start(answer) as fleet:
        assert await finished(records, "l1") is TurnState.FAILED
    assert "max 1000000 retries exceeded" in fleet.mishaps[0].reason
    assert await client.keys("arq:*") == []


async def test_arqs_own_stops_reach_nobody(
    start: Start, queue: TurnQueue, records: TurnRecords, client: Redis
):
    """arq would end the next job of this id in silence; turns are stopped by `cancel`."""
    await client.zadd("arq:abort", {"l1": 1})
    await queue.admit(turn("l1"))
    async with start(answer) as fleet:
        assert await finished(records, "l1") is TurnState.DONE
    assert fleet.mishaps == []


async def test_no_hook_of_arqs_is_in_use(start: Start):
    """What these raise would end arq's loop, or leave a job in progress."""
    async with start(answer) as fleet:
        worker = fleet.worker
        hooks = (worker.on_startup, worker.on_job_start, worker.on_job_end, worker.after_job_end)
        assert [*hooks, worker.on_shutdown] == [None] * 5
        assert worker.cron_jobs == []
        assert (worker.allow_abort_jobs, worker.keep_result_s) == (False, 0)


async def test_a_hook_that_hangs_delays_no_beat(
    start: Start, queue: TurnQueue, records: TurnRecords
):
    beats = 0

    async def hook(worker: FleetWorker) -> None:
        nonlocal beats
        beats += 1
        await asyncio.Event().wait()

    async with start(answer, on_beat=hook, beat_s=0.01), asyncio.timeout(5):
        while beats < 3:
            await asyncio.sleep(0.005)


async def test_a_hook_that_fails_ends_nothing(start: Start, queue: TurnQueue, records: TurnRecords):
    async def hook(worker: FleetWorker) -> None:
        raise RuntimeError

    async with start(answer, on_beat=hook, beat_s=0.01) as fleet:
        await asyncio.sleep(0.05)
        await queue.admit(turn("l1"))
        assert await finished(records, "l1") is TurnState.DONE
        assert fleet.worker.has_free_slot


async def test_a_stop_reaches_a_silent_job_within_100_ms(
    start: Start, queue: TurnQueue, records: TurnRecords
):
    """The median of five, since a shared machine may stall once."""
    begun: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    heard_s: list[float] = []

    async def silent(lease: Lease, outbox: Outbox) -> None:
        begun.put_nowait(lease.turn_id)
        await lease.stopped.wait()
        heard_s.append(loop.time())
        await outbox.finish(TurnDone(count=0, state=TurnState.CANCELLED), OUTCOME)

    waits_s: list[float] = []
    async with start(silent, slots=1):
        for n in range(5):
            await queue.admit(turn(f"l{n}"))
            assert await begun.get() == f"l{n}"
            asked_s = loop.time()
            assert await queue.cancel(f"l{n}") == "stopping"
            assert await finished(records, f"l{n}") is TurnState.CANCELLED
            waits_s.append(heard_s[-1] - asked_s)
    assert sorted(waits_s)[2] < 0.1


async def test_a_stop_that_the_control_list_lost_comes_with_the_beat(
    start: Start, queue: TurnQueue, records: TurnRecords, client: Redis, keys: Keys
):
    begun = asyncio.Event()

    async def silent(lease: Lease, outbox: Outbox) -> None:
        begun.set()
        await lease.stopped.wait()
        await outbox.finish(TurnDone(count=0, state=TurnState.CANCELLED), OUTCOME)

    async with start(silent, beat_s=0.02):
        await queue.admit(turn("l1"))
        await begun.wait()
        await within(client.hset(keys.turn("l1"), "cancel", "1"))
        assert await finished(records, "l1") is TurnState.CANCELLED

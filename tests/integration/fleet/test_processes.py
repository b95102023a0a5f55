"""Real worker processes that are killed, frozen, told to end, or lose their server."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
import pytest

from shared.edges.records import TurnRecords
from shared.edges.redis import within
from shared.segments import AttemptSuperseded, SegmentReady, TurnDone
from shared.turns import Target, TurnState
from tests.support.fleet import ProcessFleet, WorkerProcess
from tests.support.fleet_process import Options
from tests.support.servers import RedisServer
from tests.support.turns import turn

pytestmark = pytest.mark.slow

LEASE_MS = 600
OPTIONS = Options(url="", worker_id="", lease_ms=LEASE_MS, beat_s=0.2, reap_s=0.1)


@pytest.fixture
async def fleet(server: RedisServer) -> AsyncIterator[ProcessFleet]:
    async with ProcessFleet(msgspec.structs.replace(OPTIONS, url=server.url)) as fleet:
        await fleet.redis.flushall()
        yield fleet


@pytest.fixture
def records(fleet: ProcessFleet) -> TurnRecords:
    return TurnRecords(fleet.redis, fleet.keys)


async def send(fleet: ProcessFleet, turn_id: str, script: str, channel: int = 1) -> None:
    target = Target(provider="rehearsal", model=script)
    assert await fleet.queue.admit(turn(turn_id, channel=channel, target=target)) == "accepted"


async def until(check: Callable[[], Awaitable[bool]], limit_s: float = 15.0) -> float:
    """Waits for something to be true; answers how long it took."""
    begun = time.monotonic()
    async with asyncio.timeout(limit_s):
        while not await check():
            await asyncio.sleep(0.005)
    return time.monotonic() - begun


def shown(fleet: ProcessFleet, turn_id: str, count: int) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return len(await fleet.entries(turn_id)) >= count

    return check


def in_state(
    records: TurnRecords, turn_id: str, *states: TurnState
) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return await records.state(turn_id) in states

    return check


async def whole_reply(fleet: ProcessFleet, turn_id: str, count: int) -> int:
    """Checks that the last attempt is whole, each segment once; answers its number."""
    entries = await fleet.entries(turn_id)
    last = entries[-1]
    assert last.event == TurnDone(count=count)
    segments = [
        e for e in entries if e.attempt == last.attempt and isinstance(e.event, SegmentReady)
    ]
    assert [e.seq for e in segments] == list(range(1, count + 1))
    return last.attempt


async def holder(fleet: ProcessFleet, records: TurnRecords, turn_id: str) -> WorkerProcess:
    """The worker that runs a turn."""
    record = await records.turn(turn_id)
    assert record is not None
    return next(w for w in fleet.workers if w.options.worker_id == record.worker_id)


async def test_a_killed_worker_is_replaced_within_a_lease_and_a_second(
    fleet: ProcessFleet, records: TurnRecords
):
    await fleet.start(2)
    await send(fleet, "l1", "20x30")
    await until(shown(fleet, "l1", 3))
    (await holder(fleet, records, "l1")).kill()

    async def claimed_again() -> bool:
        record = await records.turn("l1")
        return record is not None and record.attempt == 2

    assert await until(claimed_again) < LEASE_MS / 1000 + 1
    await until(in_state(records, "l1", TurnState.DONE))
    assert await whole_reply(fleet, "l1", 20) == 2
    events = [envelope.event for envelope in await fleet.entries("l1")]
    assert events.count(AttemptSuperseded(attempt=1, by=2)) == 1


async def test_a_frozen_worker_writes_nothing_when_it_wakes(
    fleet: ProcessFleet, records: TurnRecords
):
    await fleet.start(2)
    await send(fleet, "l1", "30x30")
    await until(shown(fleet, "l1", 3))
    zombie = await holder(fleet, records, "l1")
    zombie.signal(signal.SIGSTOP)
    await until(in_state(records, "l1", TurnState.DONE))
    before = await fleet.entries("l1")
    zombie.signal(signal.SIGCONT)
    zombie.signal(signal.SIGTERM)
    assert await zombie.exit_code() == 0
    assert await fleet.entries("l1") == before
    assert await whole_reply(fleet, "l1", 30) == 2
    attempts = [envelope.attempt for envelope in before]
    assert attempts == sorted(attempts)


async def test_a_blocked_loop_is_a_zombie_too(fleet: ProcessFleet, records: TurnRecords):
    await fleet.start(2)
    await send(fleet, "l1", "blockx1.2")
    await until(in_state(records, "l1", TurnState.DONE, TurnState.DEAD))
    ends = [e for e in await fleet.entries("l1") if not isinstance(e.event, SegmentReady)]
    assert len(ends) == 1


async def test_a_term_signal_lets_turns_end_and_exits_with_0(
    fleet: ProcessFleet, records: TurnRecords
):
    (worker,) = await fleet.start()
    await send(fleet, "l1", "10x20")
    await until(shown(fleet, "l1", 1))
    worker.signal(signal.SIGTERM)
    assert await worker.exit_code() == 0
    assert await whole_reply(fleet, "l1", 10) == 1


async def test_rolling_restarts_lose_nothing(fleet: ProcessFleet, records: TurnRecords):
    fleet.options = msgspec.structs.replace(fleet.options, drain_s=0.05)
    await fleet.start(2)
    for n in range(20):
        await send(fleet, f"l{n}", "15x20", channel=n)
    for n in range(4):
        await asyncio.sleep(0.15)
        await fleet.start()
        fleet.workers[n].signal(signal.SIGTERM)
        assert await fleet.workers[n].exit_code() == 0
    for n in range(20):
        await until(in_state(records, f"l{n}", TurnState.DONE))
        await whole_reply(fleet, f"l{n}", 15)
        record = await records.turn(f"l{n}")
        assert record is not None
        assert record.crashes == 0


async def test_a_stop_reaches_a_silent_turn_within_100_ms(
    fleet: ProcessFleet, records: TurnRecords
):
    await fleet.start(2)
    waits = []
    for n in range(5):
        await send(fleet, f"l{n}", "hang", channel=n)
        await until(in_state(records, f"l{n}", TurnState.RUNNING))
        asked = time.monotonic()
        assert await fleet.queue.cancel(f"l{n}") == "stopping"
        await until(in_state(records, f"l{n}", TurnState.CANCELLED))
        waits.append(time.monotonic() - asked)
    assert sorted(waits)[2] < 0.1


async def test_workers_survive_the_kill_of_their_server(
    fleet: ProcessFleet, records: TurnRecords, server: RedisServer
):
    await fleet.start(2)
    for n in range(10):
        await send(fleet, f"l{n}", "40x25", channel=n)
    await until(shown(fleet, "l0", 5))
    server.kill()
    await asyncio.sleep(1.5)
    server.start()
    for n in range(10):
        await until(in_state(records, f"l{n}", TurnState.DONE), limit_s=30)
        assert await whole_reply(fleet, f"l{n}", 40) == 1
    assert all(worker.process.poll() is None for worker in fleet.workers)


async def test_a_frozen_server_costs_nobody_a_turn(server: RedisServer):
    # The time of grace is one lease: it must be longer than a connection's last back-off, 0.5 s.
    options = msgspec.structs.replace(OPTIONS, url=server.url, lease_ms=2_000, beat_s=0.5)
    async with ProcessFleet(options) as fleet:
        await fleet.redis.flushall()
        records = TurnRecords(fleet.redis, fleet.keys)
        await fleet.start(2)
        for n in range(4):
            await send(fleet, f"l{n}", "40x25", channel=n)
        await until(shown(fleet, "l0", 3))

        async def somebody_reaps() -> bool:
            return await within(fleet.redis.hget(fleet.keys.totals, "reaped")) is not None

        await until(somebody_reaps)  # before the first time nobody can tell that it was late
        server.signal(signal.SIGSTOP)
        await asyncio.sleep(4)
        server.signal(signal.SIGCONT)
        for n in range(4):
            await until(in_state(records, f"l{n}", TurnState.DONE), limit_s=30)
            assert await whole_reply(fleet, f"l{n}", 40) == 1

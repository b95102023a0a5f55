"""Two hundred turns while workers and the server are killed, frozen and restarted at random.

The seed and the history are printed; `TURNFLEET_TEST_SEED` repeats a run. Afterwards one checker
looks at what lies on the out streams: one terminal event per turn, whole replies, lanes in order,
nothing left in the queue, and no worker that ended by itself.
"""

import asyncio
import os
import random
import signal
import sys
from collections import Counter, defaultdict

import pytest

from shared.edges.records import TurnRecords
from shared.edges.redis import within
from shared.errors import StoreError
from shared.segments import AttemptSuperseded, Envelope, SegmentReady, TurnDone, TurnFailed
from shared.turns import Target
from tests.support.fleet import ProcessFleet
from tests.support.fleet_process import Options
from tests.support.servers import RedisServer
from tests.support.turns import out_entries, turn

pytestmark = pytest.mark.faults

TURNS, CHANNELS, SEGMENTS = 200, 60, 12
WORKERS = 3
LEASE_MS = 1_000
LIMIT_S = 150.0


class Nemesis:
    """Does one harm after the other, and writes it down."""

    def __init__(self, fleet: ProcessFleet, server: RedisServer, seed: int) -> None:
        self.fleet = fleet
        self.server = server
        self.random = random.Random(seed)
        self.history: list[str] = []

    async def strike(self) -> None:
        harms = [self.kill, self.freeze, self.term, self.restart_server]
        harm = self.random.choices(harms, weights=[4, 2, 2, 2])[0]
        victim = self.random.choice(self.fleet.workers)
        self.history.append(f"{harm.__name__} {victim.options.worker_id}")
        await harm(self.fleet.workers.index(victim))

    async def kill(self, index: int) -> None:
        self.fleet.workers.pop(index).kill()
        await self.fleet.start()

    async def freeze(self, index: int) -> None:
        victim = self.fleet.workers[index]
        victim.signal(signal.SIGSTOP)
        await asyncio.sleep(LEASE_MS / 1000 * self.random.uniform(0.5, 2))
        victim.signal(signal.SIGCONT)

    async def term(self, index: int) -> None:
        victim = self.fleet.workers.pop(index)
        victim.signal(signal.SIGTERM)
        assert await victim.exit_code() == 0, victim.options.worker_id
        victim.close()
        await self.fleet.start()

    async def restart_server(self, index: int) -> None:
        self.server.kill()
        await asyncio.sleep(self.random.uniform(0, 1.5))
        await asyncio.to_thread(self.server.start)


async def admit_all(fleet: ProcessFleet, rnd: random.Random) -> None:
    """Sends every turn, again where the answer was lost."""
    target = Target(provider="rehearsal", model=f"{SEGMENTS}x25")
    for number in range(TURNS):
        request = turn(
            f"l{number}", channel=number % CHANNELS, guild=number % CHANNELS % 7, target=target
        )
        while True:
            try:
                assert await fleet.queue.admit(request) in ("accepted", "duplicate")
                break
            except StoreError:
                await asyncio.sleep(0.1)
        await asyncio.sleep(rnd.uniform(0, 0.08))


async def run_empty(fleet: ProcessFleet, nemesis: Nemesis) -> None:
    records = TurnRecords(fleet.redis, fleet.keys)
    async with asyncio.TaskGroup() as group:
        sending = group.create_task(admit_all(fleet, random.Random(nemesis.random.random())))
        while not sending.done():
            await asyncio.sleep(nemesis.random.uniform(0.2, 0.8))
            await nemesis.strike()
    while (await records.load()).load:
        await asyncio.sleep(0.1)


def check_turn(envelopes: list[Envelope]) -> str:
    """One terminal event, the last; what the last attempt shows is whole. Answers how it ended."""
    *before, last = envelopes
    assert all(isinstance(e.event, SegmentReady | AttemptSuperseded) for e in before)
    assert isinstance(last.event, TurnDone | TurnFailed)
    attempts = [envelope.attempt for envelope in envelopes]
    assert attempts == sorted(attempts)
    shown = [e for e in before if isinstance(e.event, SegmentReady)]
    final = [e.seq for e in shown if (e.attempt, e.claim) == (last.attempt, last.claim)]
    assert final == list(range(1, last.event.count + 1))
    if isinstance(last.event, TurnDone):
        assert last.event.count == SEGMENTS
    shown_before = [e.attempt for e in shown if e.attempt < last.attempt]
    superseded = [e.event.by for e in before if isinstance(e.event, AttemptSuperseded)]
    assert len(superseded) == len(set(superseded))
    assert not shown_before or last.attempt in superseded
    return str(last.event.state)


async def check(fleet: ProcessFleet) -> Counter[str]:
    """The promises over the whole run."""
    by_turn: dict[str, list[Envelope]] = defaultdict(list)
    ends: dict[int, list[int]] = defaultdict(list)
    for envelope in await out_entries(fleet.redis, fleet.keys):
        by_turn[envelope.turn_id].append(envelope)
    assert set(by_turn) == {f"l{number}" for number in range(TURNS)}
    found = Counter(check_turn(envelopes) for envelopes in by_turn.values())
    order = sorted(
        by_turn.values(), key=lambda e: [int(part) for part in e[-1].entry_id.split("-")]
    )
    for envelopes in order:
        ends[envelopes[-1].route.channel_id].append(int(envelopes[-1].turn_id[1:]))
    assert all(numbers == sorted(numbers) for numbers in ends.values())
    keys = fleet.keys
    for name in (keys.running_guilds, keys.running_keys, keys.running_lanes, keys.depth):
        assert await within(fleet.redis.hgetall(name)) == {}, name
    assert not await fleet.redis.exists(keys.leases, keys.ring)
    assert not await fleet.redis.keys(f"{keys.prefix}lane:*")
    assert not await fleet.redis.keys("arq:job:*")
    return found


async def test_random_kills_lose_double_and_reorder_nothing(
    server: RedisServer, capsys: pytest.CaptureFixture[str]
):
    seed = int(os.environ.get("TURNFLEET_TEST_SEED", random.randrange(1_000_000)))
    options = Options(
        url=server.url,
        worker_id="",
        slots=20,
        drain_s=0.2,
        lease_ms=LEASE_MS,
        beat_s=LEASE_MS / 3000,
        reap_s=0.1,
    )
    async with ProcessFleet(options) as fleet:
        await fleet.redis.flushall()
        nemesis = Nemesis(fleet, server, seed)
        try:
            async with asyncio.timeout(LIMIT_S):
                await fleet.start(WORKERS)
                await run_empty(fleet, nemesis)
            found = await check(fleet)
        finally:
            with capsys.disabled():
                sys.stdout.write(f"\nseed {seed}: {', '.join(nemesis.history)}\n")
        assert all(worker.process.poll() is None for worker in fleet.workers)
        assert set(found) <= {"done", "dead"}
        assert found["done"] > TURNS * 0.9, found

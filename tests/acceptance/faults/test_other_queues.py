"""What other queues were reported to do, where it needs neither a house nor many faults."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.edges.leadership import PartitionLease
from gateway.edges.store import RedisJournal
from gateway.steps import Head, Patch
from shared.config import Settings
from shared.edges.batching import BatchingRedis
from shared.edges.queue import Admission, TurnQueue
from shared.edges.records import TurnRecords
from shared.edges.redis import connect, within
from shared.edges.streams import TailReader
from shared.errors import StoreUnavailable
from shared.keys import Keys
from shared.turns import Target
from tests.support.bare_fleet import FleetScene
from tests.support.fleet_process import Options
from tests.support.staging import fault
from tests.support.turns import turn

MANY = Options(url="", worker_id="", slots=20, guild_running=1_000)
WAIT_MS = 3_000
"""What a provider's `Retry-After` says."""
CALLS, AT_ONCE, CONNECTIONS = 10_000, 100, 32
DELAY_S = 0.002
"""Of the network, each way: long enough that most calls are cancelled while they wait for it."""
PATIENCE_S = 0.15
"""A new connection shakes hands first, and a call may wait for one."""
ADMITTED = 200
"""Of the calls, each asked again when all is over: who was cancelled knows nothing."""


@fault("R8", on=MANY)
async def test_nobody_starts_before_the_time(scene: FleetScene):
    """Retry-After of 3 s for 500 turns, on eight workers: none starts early, by Redis's clock."""
    await scene.fleet.start(8)
    keys = [f"vendor{number}:server" for number in range(5)]
    rested_ms = {}
    for number in range(500):
        provider = f"vendor{number % 5}"
        if number < 5:
            rested_ms[provider] = await now_ms(scene.fleet.redis)
            await scene.fleet.queue.pause(f"rest:{keys[number]}", WAIT_MS / 1000)
        # One half waits for its own time, the other for its provider's key.
        wait_ms = WAIT_MS if number % 2 else 0
        await scene.send(
            "1x10", channel=number, guild=number % 20, provider=provider, wait_ms=wait_ms
        )
    await scene.quiet()
    late_ms = []
    for turn_id in scene.sent:
        record = await scene.records.turn(turn_id)
        assert record is not None
        moves = await scene.records.timeline(turn_id)
        claimed_ms = next(move.at_ms for move in moves if move.word == "claimed")
        own_ms = record.enqueued_ms + WAIT_MS if int(turn_id[1:]) % 2 == 0 else 0
        due_ms = max(own_ms, rested_ms[record.facts.provider] + WAIT_MS)
        assert claimed_ms >= due_ms, turn_id
        late_ms.append(claimed_ms - due_ms)
    scene.note(
        f"they started {sorted(late_ms)[250]} ms after their time, at most {max(late_ms)} ms"
    )


async def now_ms(redis: Redis) -> int:
    """The server's clock."""
    seconds, micros = await redis.time()
    return int(seconds) * 1000 + int(micros) // 1000


class Caller:
    """One client of each kind behind a slow network, and calls whose answers are known."""

    def __init__(self, url: str, keys: Keys, *, batching: bool) -> None:
        self.redis = connect(url, batching=batching, max_connections=CONNECTIONS)
        self.blocking = connect(url, blocking=True, max_connections=CONNECTIONS)
        self.queue = TurnQueue(self.redis, keys, Settings(guild_depth=10_000))
        self.records = TurnRecords(self.redis, keys)
        self.lease = PartitionLease(self.redis, keys, 0, "gateway-1")
        self.journal = RedisJournal(self.redis, keys, 0, "gateway-1")
        self.keys = keys
        self.calls: list[Callable[[int], Awaitable[None]]] = [
            self._read,
            self._read_three,
            self._wait,
            self._beat,
            self._journal,
            self._tail,
        ]

    @property
    def in_use(self) -> int:
        """Connections that nobody gave back; a batching client keeps one."""
        pools: list[Any] = [self.redis.connection_pool, self.blocking.connection_pool]
        kept = int(isinstance(self.redis, BatchingRedis))
        return sum(len(pool._in_use_connections) for pool in pools) - kept

    async def settled(self) -> None:
        """Waits for what was on its way when its caller was cancelled; then none is in use."""
        async with asyncio.timeout(20):
            while self.in_use:
                await asyncio.sleep(0.01)

    async def prepare(self) -> None:
        """What the calls will find."""
        assert await self.lease.take()
        async with self.redis.pipeline(transaction=False) as pipe:
            for number in range(CALLS):
                pipe.set(f"own:{number}", number, px=600_000)
            await pipe.execute()

    async def admit(self, number: int) -> None:
        """Takes a turn, or finds that it was taken."""
        request = turn(f"l{number}", channel=number, guild=number % 20, target=TARGET)
        assert await self.queue.admit(request) in (Admission.ACCEPTED, Admission.DUPLICATE)

    async def _read(self, number: int) -> None:
        assert await within(self.redis.get(f"own:{number}")) == b"%d" % number

    async def _read_three(self, number: int) -> None:
        names = [number, (number + 1) % CALLS, (number + 2) % CALLS]
        async with self.redis.pipeline(transaction=True) as pipe:
            for name in names:
                pipe.get(f"own:{name}")
            assert await within(pipe.execute()) == [b"%d" % name for name in names]

    async def _wait(self, number: int) -> None:
        name = f"list:{number}"
        await within(self.redis.rpush(name, number))
        await within(self.redis.pexpire(name, 60_000))
        assert await within(self.blocking.blpop([name], timeout=1)) == (
            name.encode(),
            b"%d" % number,
        )

    async def _beat(self, _: int) -> None:
        assert (await self.records.load()).running == 0

    async def _journal(self, number: int) -> None:
        turn_id = f"j{number}"
        await self.journal.write(turn_id, Patch(head=Head(attempt=1, seq=number), before=None))
        record = await self.journal.read(turn_id)
        assert record is not None
        assert record.head.seq == number

    async def _tail(self, _: int) -> None:
        reader = TailReader(self.redis, self.blocking, stream=self.keys.out(1))
        assert await reader.read(block_s=0.005) == []


TARGET = Target(provider="rehearsal", model="1x0")


@asynccontextmanager
async def caller(scene: FleetScene, *, batching: bool) -> AsyncIterator[Caller]:
    """A caller through the scene's proxy, which is slow from here on."""
    url = f"redis://127.0.0.1:{scene.proxy.port}/0"
    calling = Caller(url, scene.fleet.keys, batching=batching)
    await calling.prepare()
    scene.proxy.delay_s = DELAY_S
    try:
        yield calling
    finally:
        scene.proxy.heal()
        await calling.redis.aclose(close_connection_pool=True)
        await calling.blocking.aclose(close_connection_pool=True)


@fault("R16", on=MANY)
@pytest.mark.parametrize("way", ["each alone", "in batches"])
async def test_calls_are_cancelled_at_random_moments(scene: FleetScene, way: str):
    """10,000 calls cancelled at random awaits: no connection is lost, no answer another's; sent"""
    ended = 0
    async with caller(scene, batching=way == "in batches") as calling:
        for start in range(0, CALLS, AT_ONCE):
            tasks = []
            for number in range(start, start + AT_ONCE):
                is_admission = number < ADMITTED
                call = calling.admit if is_admission else scene.random.choice(calling.calls)
                tasks.append(asyncio.create_task(cancelled(call(number), scene)))
            ended += sum(await asyncio.gather(*tasks))
        scene.note(f"{ended} of {CALLS} calls ended before they were cancelled")
        assert 0.01 * CALLS < ended < 0.99 * CALLS  # of both there is enough on a busy machine too
        await calling.settled()
        scene.proxy.heal()
        async with asyncio.timeout(60):
            await asyncio.gather(*(calling._read(number) for number in range(CALLS // 10)))
        await calling.settled()
        clients = await scene.fleet.redis.info("clients")
        assert clients["connected_clients"] <= 2 * CONNECTIONS + 4
        for number in range(ADMITTED):
            await calling.admit(number)
            scene.sent[f"l{number}"] = (number, 1)
    await scene.fleet.start(2)


async def cancelled(call: Awaitable[None], scene: FleetScene) -> bool:
    """Runs a call and cancels it after some steps or some milliseconds; whether it had ended."""
    task = asyncio.ensure_future(call)
    if scene.random.random() < 0.3:
        for _ in range(scene.random.randrange(40)):
            await asyncio.sleep(0)
    else:
        await asyncio.sleep(scene.random.uniform(0, PATIENCE_S))
    task.cancel()
    # A busy machine may have no time for a new connection; that is an answer like others.
    with contextlib.suppress(asyncio.CancelledError, StoreUnavailable):
        await task
        return True
    return False

"""Workers alone, with short leases and scripted turns: for faults that need many or quick ones.

Comes in: `Options` of `tests.support.fleet_process`. Goes out: a scene like that of a house, whose
history is read from the out streams, which nobody empties.
"""

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import msgspec

from shared.edges.queue import Admission
from shared.edges.records import TurnRecord, TurnRecords
from shared.errors import StoreError
from shared.segments import Envelope
from shared.turns import TRANSITIONS, Target, TurnState
from tests.support.fleet import ProcessFleet
from tests.support.fleet_process import Options
from tests.support.promises import History, TurnStory
from tests.support.proxy import Proxy
from tests.support.servers import RedisServer, running_server
from tests.support.turns import out_entries, turn

LIMIT_S = 180.0


class FleetScene:
    """A scenario of workers alone."""

    def __init__(self, fleet: ProcessFleet, server: RedisServer, proxy: Proxy, seed: int) -> None:
        self.fleet = fleet
        self.server = server
        self.proxy = proxy
        self.random = random.Random(seed)
        self.records = TurnRecords(fleet.redis, fleet.keys)
        self.sent: dict[str, tuple[int, int]] = {}
        """By turn: its channel, and how many segments are due."""
        self.deeds: list[str] = []
        self.recoveries_s: list[float] = []
        self.recovery_s = fleet.options.lease_ms / 1000 + 1.0
        self.peaks: dict[str, int] = {}
        self.caps: dict[str, int] = {}
        self._begun_s = time.monotonic()

    def note(self, deed: str) -> None:
        """Writes a deed down, for the history of a failure."""
        self.deeds.append(f"{time.monotonic() - self._begun_s:7.2f} s  {deed}")

    async def send(
        self,
        script: str,
        *,
        channel: int,
        guild: int = 1,
        provider: str = "rehearsal",
        wait_ms: int = 0,
    ) -> str:
        """Sends a turn, which is started after `wait_ms`; its id."""
        turn_id = f"l{len(self.sent) + 1}"
        count = script.partition("x")[0]
        self.sent[turn_id] = (channel, int(count) if count.isdigit() else 0)
        target = Target(provider=provider, model=script)
        request = turn(turn_id, channel=channel, guild=guild, target=target, wait_ms=wait_ms)
        assert await self.fleet.queue.admit(request) is Admission.ACCEPTED
        return turn_id

    async def until(self, check: Callable[[], Awaitable[bool]], limit_s: float = LIMIT_S) -> float:
        """Waits for something to be true; answers how long it took."""
        begun = time.monotonic()
        async with asyncio.timeout(limit_s):
            while True:
                try:
                    if await check():
                        return time.monotonic() - begun
                except StoreError:
                    pass
                await asyncio.sleep(0.01)

    async def until_running(self, count: int) -> None:
        """Waits until so many turns run."""

        async def check() -> bool:
            return (await self.records.load()).running >= count

        await self.until(check)

    async def quiet(self) -> None:
        """Waits until every turn has its end."""

        async def check() -> bool:
            return (await self.records.load()).load == 0

        await self.until(check)

    async def ended(self) -> dict[str, TurnRecord]:
        """The records of all turns."""
        found = {turn_id: await self.records.turn(turn_id) for turn_id in self.sent}
        return {turn_id: record for turn_id, record in found.items() if record is not None}

    async def sample_keys(self, cap: int) -> None:
        """Looks again and again how many turns of a provider run at once."""
        while True:
            name = self.fleet.keys.running_keys
            running: dict[bytes, bytes] = await self.fleet.redis.hgetall(name)  # type: ignore[misc]  # redis-py types both clients
            for key, count in running.items():
                word = f"key {key.decode()}"
                self.peaks[word] = max(self.peaks.get(word, 0), int(count))
                self.caps[word] = cap
            await asyncio.sleep(0.01)

    def last_words(self) -> list[str]:
        """Nothing: these workers log to the terminal of the test."""
        return []

    async def history(self) -> History:
        """What happened."""
        told: dict[str, list[Envelope]] = defaultdict(list)
        for envelope in await out_entries(self.fleet.redis, self.fleet.keys):
            told[envelope.turn_id].append(envelope)
        records = await self.ended()
        return History(
            turns=[await self._story(tid, records.get(tid), told[tid]) for tid in self.sent],
            peaks=self.peaks,
            caps=self.caps,
            left=[name async for name in self._left_over()],
            exits=[
                f"{worker.options.worker_id} exited with {worker.process.returncode}"
                for worker in self.fleet.workers
                if worker.process.poll() is not None
            ],
            recoveries_s=self.recoveries_s,
            bound_s=self.recovery_s,
        )

    async def _story(
        self, turn_id: str, record: TurnRecord | None, told: list[Envelope]
    ) -> TurnStory:
        channel, count = self.sent[turn_id]
        is_cancelled = record is not None and record.state is TurnState.CANCELLED
        return TurnStory(
            turn_id=turn_id,
            lane=str(channel),
            expected=tuple(f"text {seq}" for seq in range(1, count + 1)),
            state=record.state if record else None,
            crashes=record.crashes if record else 0,
            moves=await self.records.timeline(turn_id),
            told=told,
            is_replayable=record is not None and not TRANSITIONS[record.state],
            may_end=frozenset({TurnState.CANCELLED if is_cancelled else TurnState.DONE}),
        )

    async def _left_over(self) -> AsyncIterator[str]:
        keys, redis = self.fleet.keys, self.fleet.redis
        states = [keys.leases, keys.ring, keys.depth]
        states += [keys.running_guilds, keys.running_keys, keys.running_lanes]
        for name in states:
            if await redis.exists(name):
                yield name
        for pattern in (f"{keys.prefix}lane:*", f"{keys.prefix}parked:*", "arq:job:*"):
            async for key in redis.scan_iter(pattern):
                yield key.decode()


@asynccontextmanager
async def bare_fleet(flavor: str, options: Options, seed: int = 1) -> AsyncIterator[FleetScene]:
    """A server, a proxy before it, and no worker yet: `scene.fleet.start(n)`."""
    with running_server(flavor, appendfsync="everysec") as server:
        async with Proxy(server.port) as proxy:
            parts: Any = urlsplit(server.url)
            through = parts._replace(netloc=f"127.0.0.1:{proxy.port}").geturl()
            own = msgspec.structs.replace(options, url=server.url)
            async with ProcessFleet(own) as fleet:
                if options.url == PROXIED:
                    fleet.options = msgspec.structs.replace(own, url=through)
                yield FleetScene(fleet, server, proxy, seed)


PROXIED = "proxied"
"""As the `url` of options: the workers reach the server through the proxy."""

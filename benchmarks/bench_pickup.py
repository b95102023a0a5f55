"""Pick-up of a turn, through real worker processes and real servers with `appendfsync always`.

Two figures per case: `claimed` is from admission to claim, both by the server's clock (whole
milliseconds); `shown` is from the call of `admit` until the first segment is read from the out
stream: admission, wake token, claim, arq's start of the job, an append and the read, each with its
fsync. Arrivals come at random times, so that a poll of half a second would show.

Run: `python benchmarks/bench_pickup.py [--turns 200] [--limit-ms 10]`; with a limit it exits 1 when
the median of `claimed` in an idle fleet is above it.
"""

import argparse
import asyncio
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from redis.asyncio import Redis

from benchmarks.goals import Goal, told
from shared.edges.records import TurnRecords
from shared.edges.redis import connect
from shared.turns import Target, TurnState
from tests.support.fleet import ProcessFleet
from tests.support.fleet_process import Options
from tests.support.servers import flavors, running_server
from tests.support.turns import turn

PICKUP_P99_MS = 50.0
"""A turn that waits longer is noticed; arq's own poll would take half a second."""
CASES = [(1, 0), (4, 0), (4, 160)]
"""Workers, and turns that run beside the measured ones: long streams are the usual load."""
MEAN_PAUSE_S = 0.02
SEED = 20_26
POLL_S = 0.002


async def first_entry(blocking: Redis, stream: str, after: str) -> str:
    """Waits for the next entry of a stream and answers its id."""
    while True:
        answer: Any = await blocking.xread({stream: after}, count=1, block=5_000)
        for _, rows in answer or []:
            return str(rows[0][0].decode())


class Times:
    """What was measured, in milliseconds."""

    def __init__(self) -> None:
        self.claimed: list[float] = []
        self.shown: list[float] = []


async def pick_ups(fleet: ProcessFleet, blocking: Redis, turns: int) -> Times:
    """Sends turns one by one into a fleet."""
    rnd = random.Random(SEED)
    target = Target(provider="rehearsal", model="1x0")
    records = TurnRecords(fleet.redis, fleet.keys)
    times = Times()
    stream = fleet.keys.out_of(1)
    for number in range(turns):
        await asyncio.sleep(rnd.expovariate(1 / MEAN_PAUSE_S))
        newest: Any = await fleet.redis.xrevrange(stream, count=1)
        after = newest[0][0].decode() if newest else "0"
        begun = time.perf_counter()
        await fleet.queue.admit(turn(f"probe{number}", channel=1, guild=number, target=target))
        await first_entry(blocking, stream, after)
        times.shown.append((time.perf_counter() - begun) * 1000)
        record = await records.turn(f"probe{number}")
        while record is None or record.state is not TurnState.DONE:  # its lane must be free again
            await asyncio.sleep(POLL_S)
            record = await records.turn(f"probe{number}")
        times.claimed.append(float((record.claimed_ms or 0) - record.enqueued_ms))
    return times


async def measure(url: str, workers: int, running: int, turns: int) -> Times:
    """One case on an empty server."""
    options = Options(url=url, worker_id="", slots=100, drain_s=0.1)
    blocking = connect(url, blocking=True)
    async with ProcessFleet(options) as fleet:
        await fleet.redis.flushall()
        await fleet.start(workers)
        # A silent turn of another partition: it holds a slot and a lease, as a long stream does.
        other = next(c for c in range(2, 100) if fleet.keys.out_of(c) != fleet.keys.out_of(1))
        for number in range(running):
            request = turn(
                f"long{number}",
                channel=other + 1_000 * number,
                guild=1_000 + number,
                target=Target(provider="rehearsal", model="deaf"),
            )
            await fleet.queue.admit(request)
        records = TurnRecords(fleet.redis, fleet.keys)
        load = await records.load()
        while load.running < running:
            await asyncio.sleep(POLL_S)
            load = await records.load()
        times = await pick_ups(fleet, blocking, turns)
    await blocking.aclose(close_connection_pool=True)
    return times


def words(times: list[float]) -> str:
    """Median, p99 and maximum."""
    ordered = sorted(times)
    p99 = ordered[max(0, int(len(ordered) * 0.99) - 1)]
    return f"{statistics.median(ordered):.1f} / {p99:.1f} / {ordered[-1]:.1f} ms"


def main() -> int:
    """Prints one line per server and case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--limit-ms", type=float, default=None)
    chosen = parser.parse_args()
    print("median / p99 / maximum")
    is_good = True
    for flavor in flavors():
        with running_server(flavor) as server:
            for workers, running in CASES:
                times = asyncio.run(measure(server.url, workers, running, chosen.turns))
                print(
                    f"{flavor:7} {workers} workers, {running:3} running: "
                    f"claimed {words(times.claimed)}, shown {words(times.shown)}"
                )
                p99 = sorted(times.claimed)[max(0, int(len(times.claimed) * 0.99) - 1)]
                title = f"{flavor}, {workers} workers, {running} running: claimed, p99 ms"
                is_good &= told([Goal(goal="G11", name=title, value=p99, limit=PICKUP_P99_MS)])
                median = statistics.median(times.claimed)
                if not running and chosen.limit_ms is not None and median > chosen.limit_ms:
                    is_good = False
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())

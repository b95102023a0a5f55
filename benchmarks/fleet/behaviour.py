"""Fairness, recovery and memory of a fleet, with scripted turns in real worker processes.

Comes in: sizes. Goes out: lines of a report, and whether the goals hold.
"""

import asyncio
import statistics
import time
from pathlib import Path

from shared.edges.records import TurnRecords
from shared.turns import Target
from tests.support.fleet import ProcessFleet, WorkerProcess
from tests.support.fleet_process import Options
from tests.support.servers import running_server
from tests.support.turns import turn

TURN_S = 0.5
QUIET_GUILDS = 100
GUILD_RUNNING = 40
"""Of the eighty slots of the fleet: what one busy guild may take."""
LEASE_S = 6.0
MAX_GROWTH = 1.1


async def send(fleet: ProcessFleet, turn_id: str, script: str, channel: int, guild: int) -> None:
    """Admits a scripted turn."""
    target = Target(provider="rehearsal", model=script)
    await fleet.queue.admit(turn(turn_id, channel=channel, guild=guild, target=target))


async def wait_of(records: TurnRecords, turn_id: str) -> float:
    """How long a turn waited for its start, in seconds of the server's clock."""
    while True:
        record = await records.turn(turn_id)
        if record is not None and record.claimed_ms is not None:
            return (record.claimed_ms - record.enqueued_ms) / 1000
        await asyncio.sleep(0.05)


async def _fairness(url: str, busy: int) -> list[float]:
    options = Options(
        url=url, worker_id="", slots=20, guild_running=GUILD_RUNNING, partitions=8, drain_s=0.1
    )
    async with ProcessFleet(options) as fleet:
        for number in range(busy):
            await send(fleet, f"busy{number}", f"1x{TURN_S * 1000:.0f}", 1_000 + number, 1)
        await fleet.start(4)
        await asyncio.sleep(2 * TURN_S)
        for number in range(QUIET_GUILDS):
            await send(fleet, f"quiet{number}", f"1x{TURN_S * 1000:.0f}", number, 100 + number)
        records = TurnRecords(fleet.redis, fleet.keys)
        waits = [wait_of(records, f"quiet{number}") for number in range(QUIET_GUILDS)]
        return sorted(await asyncio.gather(*waits))


def fairness(*, busy: int) -> bool:
    """One guild with so many turns, a hundred with one each, all at once: two rounds at most."""
    with running_server("redis", appendfsync="everysec") as server:
        waits = asyncio.run(_fairness(server.url, busy))
    print(
        f"{busy} turns of one guild wait; of {QUIET_GUILDS} quiet guilds the median waits "
        f"{statistics.median(waits):.2f} s, the last {waits[-1]:.2f} s; a turn lasts {TURN_S} s"
    )
    # 80 slots, 40 of them kept from the busy guild: a hundred turns are two rounds and a half.
    rounds = waits[-1] / TURN_S
    print(f"rounds until the last quiet guild starts: {rounds:.1f}")
    return rounds <= QUIET_GUILDS / GUILD_RUNNING + 0.5


async def _recovery(url: str, times: int) -> list[float]:
    seconds = []
    async with ProcessFleet(Options(url=url, worker_id="", slots=20)) as fleet:
        records = TurnRecords(fleet.redis, fleet.keys)
        await fleet.start(2)
        for number in range(times):
            await send(fleet, f"l{number}", "100x50", number, number)
            record = await records.turn(f"l{number}")
            while record is None or record.seq < 3:
                await asyncio.sleep(0.01)
                record = await records.turn(f"l{number}")
            holder = next(w for w in fleet.workers if w.options.worker_id == record.worker_id)
            holder.kill()
            fleet.workers.remove(holder)
            begun_s = time.monotonic()
            await fleet.start()
            while record is None or record.attempt < 2:
                await asyncio.sleep(0.01)
                record = await records.turn(f"l{number}")
            seconds.append(time.monotonic() - begun_s)
    return sorted(seconds)


def recovery(*, times: int) -> bool:
    """SIGKILL of a worker with a turn in hand: how long until another one has it."""
    with running_server("redis", appendfsync="everysec") as server:
        seconds = asyncio.run(_recovery(server.url, times))
    print(f"recovery after SIGKILL: {', '.join(f'{s:.1f}' for s in seconds)} s (lease {LEASE_S} s)")
    return seconds[-1] <= LEASE_S + 2


def memory_kib(worker: WorkerProcess) -> int:
    """What a process holds in memory."""
    status = Path(f"/proc/{worker.process.pid}/status").read_text(encoding="utf-8")
    return int(status.partition("VmRSS:")[2].split()[0])


async def _memory(url: str, seconds: float) -> list[int]:
    kib: list[int] = []
    async with ProcessFleet(Options(url=url, worker_id="", slots=50, partitions=8)) as fleet:
        (worker,) = await fleet.start()
        begun_s, number = time.monotonic(), 0
        while (passed_s := time.monotonic() - begun_s) < seconds:
            for _ in range(20):
                await send(fleet, f"l{number}", "5x20", number % 200, number % 20)
                number += 1
            for partition in range(fleet.keys.partitions):
                await fleet.redis.xtrim(fleet.keys.out(partition), maxlen=100)
            await asyncio.sleep(0.2)
            if passed_s * 10 >= seconds * len(kib):
                kib.append(memory_kib(worker))
    return kib


def memory(*, seconds: float) -> bool:
    """A worker under steady load: its memory from the first third to the end."""
    with running_server("redis", appendfsync="everysec") as server:
        kib = asyncio.run(_memory(server.url, seconds))
    print(f"memory of a worker over {seconds:.0f} s: {' '.join(str(one) for one in kib)} KiB")
    return kib[-1] <= MAX_GROWTH * kib[len(kib) // 3]

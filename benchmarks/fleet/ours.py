"""Our side of the comparison, as one process: `python ours.py produce|work URL JOBS`.

A turn here does nothing but count up the key `done` and end: admission, claim, lease, arq's start,
the terminal event on an out stream. It ends with a record and its place in the lane, which no rival
has; that is part of what is measured.
"""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import msgspec
import uvloop

from shared.config import Settings
from shared.edges.policy import Policy
from shared.edges.queue import TurnQueue
from shared.edges.redis import connect
from shared.keys import Keys
from shared.segments import TurnDone
from tests.support.turns import turn
from worker.edges.fleet.worker import FleetWorker

SLOTS, GUILDS = 100, 200


async def main(role: str, url: str, jobs: int) -> None:
    """Admits turns, or serves them until it is killed."""
    redis, blocking = connect(url), connect(url, blocking=True, max_connections=2)
    settings = Settings(slots=SLOTS, guild_depth=100_000, global_depth=1_000_000)
    policy = msgspec.structs.replace(Policy.of(settings), guild_running=1_000)
    queue = TurnQueue(redis, Keys("bench"), settings, policy=policy)
    if role == "produce":
        for number in range(jobs):
            await queue.admit(turn(f"l{number}", channel=number, guild=number % GUILDS))
        await redis.aclose()
        return

    async def run_turn(ctx: dict[str, Any], turn_id: str) -> None:
        lease = ctx["leases"][turn_id]
        await redis.incr("done")
        await queue.finish(lease.token, TurnDone(count=0))
        lease.is_finished = True

    worker = FleetWorker(
        [run_turn],
        queue=queue,
        blocking=blocking,
        settings=settings,
        worker_id=f"bench-{id(redis)}",
    )
    await worker.serve()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))

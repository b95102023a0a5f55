"""A worker process whose turns are scripted by their model's name: `python -m` this module.

`5x20` sends five segments, 20 ms apart; `hang` waits until it is stopped; `deaf` waits for ever;
`block` blocks the event loop for longer than its lease.
"""

import asyncio
import sys
import time
from typing import Any

import msgspec
import uvloop

from shared.config import Settings
from shared.edges.policy import Policy
from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords
from shared.edges.redis import check_server, connect
from shared.keys import Keys
from shared.segments import TurnDone
from shared.turns import TurnOutcome, TurnState
from shared.wire import decode_turn_request
from tests.support.turns import segment
from worker.edges.fleet.worker import FleetWorker
from worker.edges.outbox import Outbox


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the process is told on its command line, as JSON."""

    url: str
    worker_id: str
    cell: str = "test"
    partitions: int = 2
    slots: int = 8
    drain_s: float = 5.0
    lease_ms: int = 6_000
    beat_s: float = 2.0
    reap_s: float = 0.5
    guild_running: int = 1_000
    key_running: int = 1_000

    def policy(self) -> Policy:
        """The policy that the test's own queue must share."""
        settings = Settings(slots=self.slots, guild_depth=10_000, global_depth=100_000)
        return msgspec.structs.replace(
            Policy.of(settings),
            lease_ms=self.lease_ms,
            reap_gap_ms=self.lease_ms // 2,
            guild_running=self.guild_running,
            key_running=self.key_running,
        )


async def play(outbox: Outbox, stopped: asyncio.Event, script: str) -> None:
    """Runs one turn."""
    sent, state = 0, TurnState.DONE
    match script.partition("x"):
        case ("hang", _, _):
            await stopped.wait()
            state = TurnState.CANCELLED
        case ("deaf", _, _):
            await asyncio.Event().wait()
        case ("block", _, seconds):
            time.sleep(float(seconds))  # a stalled process is the point
        case (count, _, gap_ms):
            for seq in range(1, int(count) + 1):
                if int(gap_ms):
                    await asyncio.sleep(int(gap_ms) / 1000)
                await outbox.send(segment(outbox.token, seq, f"text {seq}").segment)
                sent = seq
    event = TurnDone(count=sent, state=state)
    await outbox.finish(event, TurnOutcome(state=state, segments=sent))


async def main(options: Options) -> None:
    redis, blocking = connect(options.url), connect(options.url, blocking=True, max_connections=2)
    await check_server(redis, options.url)
    keys = Keys(options.cell, options.partitions)
    settings = Settings(slots=options.slots, drain_s=options.drain_s)
    queue = TurnQueue(redis, keys, settings, policy=options.policy())
    records = TurnRecords(redis, keys)

    async def run_turn(ctx: dict[str, Any], turn_id: str) -> None:
        lease = ctx["leases"][turn_id]
        request = decode_turn_request(lease.request)
        await play(Outbox(queue, records, lease), lease.stopped, request.target.model)

    worker = FleetWorker(
        [run_turn],
        queue=queue,
        blocking=blocking,
        settings=settings,
        worker_id=options.worker_id,
        beat_s=options.beat_s,
        reap_s=options.reap_s,
    )
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await worker.serve()
    await blocking.aclose(close_connection_pool=True)
    await redis.aclose(close_connection_pool=True)


if __name__ == "__main__":
    uvloop.run(main(msgspec.json.decode(sys.argv[1], type=Options)))

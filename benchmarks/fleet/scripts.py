"""What each script costs the server: its own time by call, and the CPU time around it.

Comes in: how many turns. Goes out: a line per script, and what a turn of twelve segments and
twenty seconds comes to: the constants of `docs/scale.md`.
"""

import asyncio
import statistics
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec

from shared.config import Settings
from shared.edges.policy import Policy
from shared.edges.queue import TurnQueue
from shared.edges.redis import connect
from shared.keys import Keys
from shared.messages import Message, Role
from shared.segments import TurnDone
from shared.turns import AttemptToken
from tests.support.servers import flavors, running_server
from tests.support.turns import segment, turn

CLIENTS = 20
"""Calls at once: a server that is busy reads several with one system call."""
REQUEST_CHARS, SEGMENT_CHARS = 4_000, 180
SEGMENTS, SECONDS, BEAT_S, BEAT_TURNS = 12, 20.0, 2.0, 50
ROUNDS = 3


class Cost:
    """Microseconds by call: in the script, and of CPU around it."""

    def __init__(self, script_us: float, cpu_us: float) -> None:
        self.script_us = script_us
        self.cpu_us = cpu_us


async def spent(queue: TurnQueue) -> tuple[float, float, float]:
    """Calls of scripts, microseconds in them, microseconds of CPU."""
    stats: Any = await queue.redis.info("commandstats")
    cpu: Any = await queue.redis.info("cpu")
    calls = usec = 0.0
    for name in ("cmdstat_evalsha", "cmdstat_eval"):
        calls += stats.get(name, {}).get("calls", 0)
        usec += stats.get(name, {}).get("usec", 0)
    return calls, usec, 1e6 * (cpu["used_cpu_sys"] + cpu["used_cpu_user"])


async def cost(queue: TurnQueue, calls: list[Callable[[], Awaitable[object]]]) -> Cost:
    """What one of the calls costs the server."""
    before = await spent(queue)
    todo = iter(calls)

    async def work() -> None:
        for call in todo:
            await call()

    async with asyncio.TaskGroup() as group:
        for _ in range(CLIENTS):
            group.create_task(work())
    count, usec, cpu_us = (now - then for now, then in zip(await spent(queue), before, strict=True))
    return Cost(usec / count, cpu_us / count)


async def measured(url: str, turns: int) -> dict[str, Cost]:
    """Each script once for each turn."""
    settings = Settings(slots=100, guild_depth=100_000, global_depth=1_000_000)
    policy = msgspec.structs.replace(Policy.of(settings), guild_running=1_000)
    redis = connect(url)
    queue = TurnQueue(redis, Keys("bench", partitions=1), settings, policy=policy)
    queue.out_max_entries = 10_000_000
    await redis.flushall()
    found: dict[str, Cost] = {}
    message = Message(role=Role.USER, content="x" * REQUEST_CHARS)
    requests = [
        msgspec.structs.replace(turn(f"l{n}", channel=n, guild=n % 200), messages=[message])
        for n in range(turns)
    ]
    found["admit"] = await cost(queue, [partial(queue.admit, r) for r in requests])
    tokens: list[AttemptToken] = []

    async def claim() -> None:
        tokens.extend(one.token for one in await queue.claim("w1", 8))

    found["claim of 8"] = await cost(queue, [claim] * (turns // 8))
    text = "x" * SEGMENT_CHARS
    found["append"] = await cost(
        queue, [partial(queue.append, t, 1, segment(t, 1, text)) for t in tokens]
    )
    batches = [tokens[n : n + BEAT_TURNS] for n in range(0, len(tokens), BEAT_TURNS)]
    found["beat of 50"] = await cost(queue, [partial(queue.beat, batch) for batch in batches])
    found["reap of none"] = await cost(queue, [queue.reap] * 200)
    found["finish"] = await cost(
        queue, [partial(queue.finish, t, TurnDone(count=1)) for t in tokens]
    )
    await redis.aclose()
    return found


def turn_us(costs: dict[str, Cost]) -> float:
    """CPU of the server for a turn of `SEGMENTS` and `SECONDS`, without its delivery."""
    beats = SECONDS / BEAT_S / BEAT_TURNS
    return (
        costs["admit"].cpu_us
        + costs["claim of 8"].cpu_us / 8
        + SEGMENTS * costs["append"].cpu_us
        + beats * costs["beat of 50"].cpu_us
        + costs["finish"].cpu_us
    )


def run(*, turns: int) -> bool:
    """Measures on every server and prints."""
    for flavor in flavors():
        rounds: list[dict[str, Cost]] = []
        with running_server(flavor, appendfsync="everysec") as server:
            rounds.extend(asyncio.run(measured(server.url, turns)) for _ in range(ROUNDS))
        for name in rounds[0]:
            script_us = statistics.median(costs[name].script_us for costs in rounds)
            cpu_us = statistics.median(costs[name].cpu_us for costs in rounds)
            print(f"{flavor:7} {name:12} {script_us:6.0f} us in the script, {cpu_us:6.0f} us CPU")
        total_us = statistics.median(turn_us(costs) for costs in rounds)
        print(
            f"{flavor:7} a turn of {SEGMENTS} segments and {SECONDS:.0f} s: "
            f"{total_us / 1000:.2f} ms of CPU; half a core for {500_000 / total_us:.0f} a second"
        )
    return True

"""The shards of a bot, as Redis knows them: which gateway has which, and how it stands with it.

Comes in: nothing. Goes out: rows, for operators. `gateway.edges.shard_leases` writes them.
"""

from typing import Any

import msgspec
from redis.asyncio import Redis

from shared.edges.redis import within
from shared.keys import Keys


class ShardRow(msgspec.Struct, frozen=True, kw_only=True):
    """One shard of `count`. `left_ms` is negative for a gateway that is gone.

    `state` is `connected`, `starting`, `resuming`, `waiting` (for another start) or `no_starts`
    (too few session starts are left today), since `since_ms`.
    """

    shard: int
    count: int
    gateway: str
    state: str
    left_ms: int
    since_ms: int


async def shard_rows(redis: Redis, keys: Keys) -> list[ShardRow]:
    """Every shard that somebody has or had, by count and number. Raises `StoreUnavailable`."""
    async with redis.pipeline(transaction=False) as pipe:
        pipe.hgetall(keys.front("leases"))
        pipe.time()
        answer: Any = await within(pipe.execute())
    rows, (seconds, micros) = answer
    now_ms = int(seconds) * 1000 + int(micros) // 1000
    found = []
    for name, row in rows.items():
        shard, count = name.decode().split("/")
        until_ms, gateway, state, since_ms = row.decode().split("|")
        found.append(
            ShardRow(
                shard=int(shard),
                count=int(count),
                gateway=gateway,
                state=state,
                left_ms=int(until_ms) - now_ms,
                since_ms=int(since_ms),
            )
        )
    return sorted(found, key=lambda one: (one.count, one.shard))

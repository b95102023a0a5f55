"""Who delivers a partition: one gateway at a time, by a lease in Redis.

Comes in: a gateway's name. Goes out: whether it leads. It is the real `Leadership` of
`gateway.delivery`; only the composition root constructs it. All calls may be repeated and raise
`StoreUnavailable` when nobody answers.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from redis.asyncio import Redis

from shared.edges.redis import within
from shared.edges.scripting import Script
from shared.keys import Keys
from shared.lifetimes import LAST_LEADER_TTL_MS

LEASE_MS: Final = 3_000
"""Three renewals. Delivery does nothing long in its loop, so a silent second is rare."""
YIELD_S: Final = 2 * LEASE_MS / 1000
"""How long who stands by waits for the leader of before, once the server was started anew: it asks
every second, and a call that hung when the server went takes some seconds to fail."""


def awake_s() -> float:
    """Seconds that go on while the process, or with Linux the machine, is stopped."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class PartitionLease:
    """The leadership of one partition.

    Args:
        redis: a client for short commands.
        keys: the cell's keys.
        partition: its number.
        owner: unique among living gateways.
        now_s: a clock that goes on while the process is stopped.
    """

    def __init__(
        self,
        redis: Redis,
        keys: Keys,
        partition: int,
        owner: str,
        *,
        now_s: Callable[[], float] = awake_s,
    ) -> None:
        self._names = [keys.leader(partition), keys.last_leader(partition)]
        self._owner = owner
        self._lead = Script(redis, "lead")
        self._now_s = now_s
        self._sure_until_s = 0.0
        self._refused_by = ""  # the run of the server that said that another one leads
        self._yields_until_s: float | None = None

    async def take(self) -> bool:
        """Takes the lease, or keeps it; False when another gateway has it, or should have it.

        A server that was started anew may have forgotten its last second, or everything. What was
        shown then knows only who showed it: who stood by waits for that one for `YIELD_S`.
        """
        now_s = self._now_s()
        if self._yields_until_s is not None and now_s >= self._yields_until_s:
            self._refused_by, self._yields_until_s = "", None  # nobody came
        code, run = await self._ask("take")
        if code < 0 and self._yields_until_s is None:
            self._yields_until_s = now_s + YIELD_S
        elif code >= 0:
            self._refused_by, self._yields_until_s = run, None
        return code == 1

    async def keep(self) -> bool:
        """Renews the lease; False when another gateway has it, or had it meanwhile."""
        code, _ = await self._ask("keep")
        return code == 1

    def is_sure(self) -> bool:
        """Whether nobody else can have the lease yet, by this process's own clock."""
        return self._now_s() < self._sure_until_s

    async def release(self) -> None:
        """Gives the lease up, if it is held."""
        await self._ask("leave")

    async def _ask(self, word: str) -> tuple[int, str]:
        asked_s = self._now_s()
        args: list[str | bytes | int] = [
            *(self._owner, word, LEASE_MS, LAST_LEADER_TTL_MS, self._refused_by)
        ]
        answer: list[Any] = await within(self._lead(self._names, args))
        code, run = int(answer[0]), answer[1].decode()
        # The server's time began to run when it was asked, at the earliest.
        self._sure_until_s = asked_s + LEASE_MS / 1000 if code == 1 else 0.0
        return code, run

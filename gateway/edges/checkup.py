"""Whether a gateway is well: what probes are told.

Comes in: its loop and Redis. Goes out: problems by name, none where it is well. `gateway.app` gives
them to the health server.

An outage of Redis kills no gateway: it waits, and is only not ready.
"""

import asyncio
from typing import Final

from redis.asyncio import Redis

from shared.edges.redis import within
from shared.errors import StoreError

LOOK_S: Final = 1.0
"""How often the loop is measured."""
MAX_LAG_S: Final = 6.0
"""As late as a worker may be; its leases of partitions have ended by then, too."""


class Checkup:
    """Looks at one gateway.

    Args:
        redis: short commands.
        stop: set when the gateway drains.
    """

    def __init__(self, redis: Redis, stop: asyncio.Event) -> None:
        self._redis = redis
        self._stop = stop
        self.lag_s = 0.0

    async def run(self) -> None:
        """Measures how late the loop is, until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + LOOK_S
            await asyncio.sleep(LOOK_S)
            self.lag_s = max(0.0, loop.time() - due_s)

    def living(self) -> dict[str, str]:
        """What only a restart would mend."""
        return {"loop": f"it was {self.lag_s:.1f} s late"} if self.lag_s > MAX_LAG_S else {}

    async def readiness(self) -> dict[str, str]:
        """What keeps it from taking prompts now."""
        problems = self.living()
        if self._stop.is_set():
            problems["drain"] = "it takes nothing new and ends"
        try:
            await within(self._redis.ping())
        except StoreError as exc:
            problems["redis"] = str(exc)
        return problems

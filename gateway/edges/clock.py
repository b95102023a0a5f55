"""The time that delivery goes by: the machine's, set to that of Redis.

Deadlines count from the ids of stream entries, which Redis's clock made. A machine whose own clock
is wrong by minutes would otherwise drop replies that are fresh, or send those that nobody awaits.
"""

import asyncio
import logging
import time
from typing import Final

from redis.asyncio import Redis

from shared.edges.redis import within
from shared.errors import StoreFull, StoreUnavailable

logger = logging.getLogger(__name__)

FOLLOW_S: Final = 30.0
"""How often the server is asked for its time: clocks drift by milliseconds in this while."""
WRONG_S: Final = 5.0
"""A difference that somebody should know of."""


class SystemClock:
    """Wall time and real waits."""

    def __init__(self) -> None:
        self._ahead_s = 0.0

    def now_s(self) -> float:
        """Seconds since the epoch, as Redis counts them once it was asked."""
        return time.time() + self._ahead_s

    async def sleep(self, seconds: float) -> None:
        """Waits; nothing is left behind when cancelled."""
        await asyncio.sleep(max(0.0, seconds))

    async def follow(self, redis: Redis) -> None:
        """Sets the clock to the server's, now and then, for ever."""
        while True:
            try:
                await self.set_by(redis)
            except (StoreUnavailable, StoreFull):
                logger.debug("clock.store_away")
            await asyncio.sleep(FOLLOW_S)

    async def set_by(self, redis: Redis) -> None:
        """Sets the clock to the server's. Raises `StoreUnavailable`."""
        asked_s = time.time()
        seconds, microseconds = await within(redis.time())
        middle_s = (asked_s + time.time()) / 2
        ahead_s = int(seconds) + int(microseconds) / 1e6 - middle_s
        if abs(ahead_s - self._ahead_s) > WRONG_S:
            logger.warning("clock.set", extra={"ahead_s": round(ahead_s, 1)})
        self._ahead_s = ahead_s

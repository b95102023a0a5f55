"""The machine's time. Goes out: the `Clock` that delivery asks for."""

import asyncio
import time


class SystemClock:
    """Wall time and real waits."""

    def now_s(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Waits; nothing is left behind when cancelled."""
        await asyncio.sleep(max(0.0, seconds))

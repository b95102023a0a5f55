"""The real time, for the driver's `Clock` port."""

import time


class SystemClock:
    """This machine's clocks."""

    __slots__ = ()

    def monotonic_s(self) -> float:
        """Seconds that only grow."""
        return time.monotonic()

    def epoch_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

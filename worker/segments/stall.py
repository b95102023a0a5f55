"""When a silence is long enough to show what is held.

Comes in: the driver's clock and how far the text has come. Goes out: whether a stall is due. The
room has no clock: the same ticks give the same segments. Used by `worker.segments.buffer` only.
"""

from worker.segments.limits import LONGEST_HOLD_S


class StallWatch:
    """Compares what a tick sees with what the ticks before it saw."""

    __slots__ = ("_after_s", "_held_from", "_held_since_s", "_seen", "_since_s")

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._seen: tuple[int, int] | None = None  # base and end of the held text
        self._since_s = 0.0
        self._held_from: int | None = None  # base of the text behind the oldest held boundary
        self._held_since_s = 0.0

    def is_due(self, now_s: float, *, base: int, end: int, holds_back: bool) -> bool:
        """Whether nothing came for long enough, or a finished line was held for too long.

        Args:
            now_s: the driver's clock.
            base: where the held text begins.
            end: where it ends.
            holds_back: a boundary has passed that a hold does not let through.
        """
        if self._seen != (base, end):
            self._seen, self._since_s = (base, end), now_s
        if not holds_back:
            self._held_from = None
        elif self._held_from != base:
            self._held_from, self._held_since_s = base, now_s
        silent = end > base and now_s - self._since_s >= self._after_s
        aged = self._held_from is not None and now_s - self._held_since_s >= LONGEST_HOLD_S
        return silent or aged

"""The alarm clock of a stream: it interrupts who waits for bytes when somebody must look.

Comes in: an attempt with its limits. Goes out: an interruption, at the next tick or at the nearest
limit, and when a user stops the turn. `streaming` uses it.

One timer a quarter of a second, whatever comes meanwhile: a wait with a limit of its own for each
chunk was a seventh of a worker's time (docs/decisions/0019).
"""

import asyncio
from collections.abc import Callable

from worker.turn.attempt import TICK_S, Attempt
from worker.turn.ports import Clock


class Alarm:
    """Rings once each time it is set.

    Args:
        attempt: whose limits are watched.
        clock: the time that the limits are in.
        interrupt: wakes who waits.
    """

    __slots__ = ("_at_s", "_attempt", "_clock", "_interrupt", "_timer")

    def __init__(self, attempt: Attempt, clock: Clock, interrupt: Callable[[], None]) -> None:
        self._attempt = attempt
        self._clock = clock
        self._interrupt = interrupt
        self._timer: asyncio.TimerHandle | None = None
        self._at_s = 0.0

    def set(self) -> None:
        """Sets it to the next tick or limit, unless it will ring by then anyway."""
        due_s = self._attempt.due_s
        if self._timer is not None:
            if due_s >= self._at_s:
                return
            self._timer.cancel()
        now_s = self._clock.monotonic_s()
        self._at_s = min(now_s + TICK_S, due_s)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(0.0, self._at_s - now_s), self.ring)

    def ring(self, _stop: object = None) -> None:
        """Interrupts who waits, or whoever waits next; as a callback of a task, too."""
        self.cancel()
        self._interrupt()

    def cancel(self) -> None:
        """Lets it be silent."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

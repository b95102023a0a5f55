"""What the outside hangs onto a worker: reports of mishaps, and accounts of itself.

Comes in: awaitables of the composition root. Goes out: nothing. `FleetWorker` and its reaper use
it. A hook that fails, hangs or is cancelled from inside must not end the loop that calls it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from shared.causes import Cause
from shared.edges.queue import GivenBack, TurnQueue
from shared.errors import StoreError
from worker.edges.fleet.mishaps import Mishap
from worker.edges.fleet.outage import Outage

HOOK_LIMIT_S = 5.0
"""What a report gets: more than a slow Redis needs, and the next one waits behind it."""

OnMishap = Callable[[Mishap], Awaitable[None]]

_WHY = {GivenBack.EXPIRED: (Cause.REQUEST_TIMEOUT, "no worker was free in time")}
"""Why a turn was reaped, where it is not that its worker died."""

log = logging.getLogger(__name__)


async def nothing(*_: object) -> None:
    """A hook that does nothing."""


async def safely(hook: Awaitable[None], limit_s: float) -> None:
    """Awaits a hook, whose failure or sloth is not the worker's.

    Cancelled from outside, it raises; a `CancelledError` of the hook's own is one more failure.
    Passed on, it would end the calling loop without a word, and a task group takes that for an
    orderly end.
    """
    try:
        async with asyncio.timeout(limit_s):
            await hook
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        log.exception("worker.hook_failed")
    except Exception:
        log.exception("worker.hook_failed")


class Teller:
    """Tells of turns that ended outside of their jobs, and of workers that died."""

    def __init__(self, on_mishap: OnMishap) -> None:
        self._on_mishap = on_mishap

    async def tell(self, cause: Cause, turn_id: str, reason: str, became: GivenBack) -> None:
        """Reports one mishap; never raises but to be cancelled."""
        mishap = Mishap(cause=cause, turn_id=turn_id, reason=reason, became=became)
        await safely(self._on_mishap(mishap), HOOK_LIMIT_S)


class Reaper:
    """Looks for dead workers, for ever: every worker does, so that no lock can be left behind."""

    def __init__(self, queue: TurnQueue, teller: Teller, outage: Outage, period_s: float) -> None:
        self._queue = queue
        self._teller = teller
        self._outage = outage
        self._period_s = period_s

    async def run(self) -> None:
        """Reaps until it is cancelled."""
        while True:
            await asyncio.sleep(self._period_s)
            try:
                reaped = await self._queue.reap()
            except StoreError as exc:
                self._outage.began(exc)
                continue
            for turn_id, became in reaped:
                cause, reason = _WHY.get(became, (Cause.WORKER_LOST, "its worker went silent"))
                await self._teller.tell(cause, turn_id, reason, became)

"""Turns that wait although they could start: keys of the queue were lost, and nobody else can tell.

Comes in: looks at the queue, now and then. Goes out: a repair, and a problem for the liveness probe
where that did not help. The composition root runs it beside the worker.

A server that evicts keys, or an operator who deletes one, may take a guild out of the ring: its
turns wait, slots are free, every look at the queue is answered, and nothing is ever claimed.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from shared.edges.overview import FleetStatus, GuildLoad, Overview
from shared.errors import StoreError
from shared.logs import fields

LOOK_S: Final = 5.0
"""How often is looked: one small command while nothing waits."""
REPAIR_S: Final = 10.0
"""A guild that waits for so long is put right: a claim takes milliseconds."""
STUCK_S: Final = 30.0
"""After this the repair has not helped: the probe fails, so that a person looks."""

log = logging.getLogger(__name__)


class Stalls:
    """Looks for guilds whose turns nobody starts.

    Args:
        overview: of the queue.
        has_slot: whether this worker would take a turn now.
        now_s: a clock.
        stuck_s: after how long a guild is a problem.
    """

    def __init__(
        self,
        overview: Overview,
        has_slot: Callable[[], bool],
        *,
        now_s: Callable[[], float] = time.monotonic,
        stuck_s: float = STUCK_S,
    ) -> None:
        self._overview = overview
        self._has_slot = has_slot
        self._now_s = now_s
        self._stuck_s = stuck_s
        self._since_s: dict[str, float] = {}
        self._is_repaired = False

    @property
    def problem(self) -> str | None:
        """What keeps turns from being started, None where nothing does."""
        waits_s = self._now_s() - min(self._since_s.values(), default=self._now_s())
        if waits_s < self._stuck_s:
            return None
        return f"turns of {len(self._since_s)} guilds wait for {waits_s:.0f} s, and slots are free"

    async def run(self) -> None:
        """Looks again and again, until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except StoreError as exc:
                log.debug("stalls.not_looked", extra=fields(reason=str(exc)))

    async def look(self) -> None:
        """Looks once, and repairs what has waited for long enough. Raises `StoreError`."""
        try:
            found = await self._found()
        except StoreError:
            self._since_s = {}  # nobody can tell now: an outage of the server is no stall
            raise
        now_s = self._now_s()
        self._since_s = {guild: self._since_s.get(guild, now_s) for guild in found}
        if not self._since_s:
            self._is_repaired = False
        elif not self._is_repaired and now_s - min(self._since_s.values()) >= REPAIR_S:
            await self._repair()
            self._is_repaired = True

    async def _found(self) -> set[str]:
        if self._has_slot() and await self._overview.waiting():
            return set(stalled(await self._overview.status()))
        return set()

    async def _repair(self) -> None:
        findings = Counter(one.what for one in await self._overview.mend())
        facts = fields(guilds=len(self._since_s), findings=dict(findings))
        log.error("queue.repaired" if findings else "queue.stalled", extra=facts)


def stalled(status: FleetStatus) -> list[str]:
    """The guilds of which turns wait, although nothing that is known keeps them."""
    if "fleet" in status.pauses:
        return []
    return [one.guild for one in status.guilds if _is_stalled(one, status)]


def _is_stalled(guild: GuildLoad, status: FleetStatus) -> bool:
    # What runs, or waits in a delay, may lock the lanes of the others.
    is_kept = guild.running or guild.parked or guild.delayed
    return guild.queued > 0 and not is_kept and f"guild:{guild.guild}" not in status.pauses

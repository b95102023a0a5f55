"""Turns that were taken a moment ago, for a server that forgets.

Comes in: requests on their way to admission. Goes out: the same, and once more to a server that
came back, since it may have lost its last second, and with it turns that it had taken. Admission
takes a turn once, so that asking again does no harm. `gateway.app` puts it between intake and the
queue.
"""

import asyncio
import logging
from collections import deque
from typing import Final, Protocol

from gateway.intake import Admissions, Answer
from shared.errors import StoreFull, StoreUnavailable
from shared.turns import TurnRequest

logger = logging.getLogger(__name__)

LOOK_S: Final = 0.5
"""How often the server is asked who it is: soon, so that few later prompts overtake a lost one."""
KEPT_S: Final = 10.0
"""`everysec` forgets a second, two at worst; a promoted replica may be further behind."""
KEPT_MAX: Final = 1_000
"""Requests kept at most, some kilobytes each: a hundred a second for as long as they are kept."""


class Queue(Admissions, Protocol):
    """What is asked of the queue. Every call may raise `StoreUnavailable` and be repeated."""

    async def server_id(self) -> str:
        """Which run of which server answers."""
        ...


class Recall:
    """Admissions that outlive a server's memory.

    Args:
        queue: the queue.
        kept_s: how long a request is kept.
        look_s: how often the server is asked who it is.
    """

    def __init__(self, queue: Queue, *, kept_s: float = KEPT_S, look_s: float = LOOK_S) -> None:
        self._queue = queue
        self._kept_s = kept_s
        self._look_s = look_s
        self._kept: deque[tuple[float, TurnRequest]] = deque(maxlen=KEPT_MAX)
        self._server_id: str | None = None

    async def admit(self, request: TurnRequest) -> str:
        """Takes a turn, or says why not; what was taken is kept for a while."""
        answer = await self._queue.admit(request)
        if answer == Answer.ACCEPTED:
            self._kept.append((asyncio.get_running_loop().time(), request))
        return answer

    async def is_blocked(self, channel_id: int) -> bool:
        """Whether the channel refused us not long ago."""
        return await self._queue.is_blocked(channel_id)

    async def decline(self, turn_id: str) -> None:
        """Notes that a prompt was answered with a notice."""
        await self._queue.decline(turn_id)

    async def is_known(self, turn_id: str) -> bool:
        """Whether a prompt became a turn or was declined."""
        return await self._queue.is_known(turn_id)

    async def run(self) -> None:
        """Looks for another server, for ever."""
        while True:
            try:
                await self.look()
            except (StoreUnavailable, StoreFull) as exc:
                logger.debug("recall.store_waits", extra={"error": str(exc)})
            await asyncio.sleep(self._look_s)

    async def look(self) -> None:
        """Asks who answers; another one is asked to take again what the last one took.

        Raises:
            StoreUnavailable: nobody answers; the next look begins again.
        """
        found = await self._queue.server_id()
        if self._server_id in (None, found):
            # Only now: however long the server was away, what it had just taken is still kept.
            now_s = asyncio.get_running_loop().time()
            while self._kept and now_s - self._kept[0][0] > self._kept_s:
                self._kept.popleft()
        else:
            await self._give_again()
        self._server_id = found

    async def _give_again(self) -> None:
        """Has everything taken that is not there; that is as young then as what is new."""
        for kept in list(self._kept):
            if await self._queue.admit(kept[1]) != Answer.ACCEPTED:
                continue
            logger.warning("recall.admitted_again", extra={"turn_id": kept[1].turn_id})
            if kept in self._kept:  # else it made room for newer ones meanwhile
                self._kept.remove(kept)
                self._kept.append((asyncio.get_running_loop().time(), kept[1]))

"""Turns that were taken a moment ago, for a server that forgets.

Comes in: requests on their way to admission, and what people change of them. Goes out: the same,
and once more to a server that came back, since it may have lost its last second, and with it turns
that it had taken. Admission takes a turn once, so that asking again does no harm. `gateway.app`
puts it between intake and the queue.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Final, Protocol

import msgspec

from gateway.ports import Admit, Prompts
from gateway.telling import NOTICES
from shared.errors import StoreFull, StoreUnavailable
from shared.merging import amended
from shared.private import told_by_size
from shared.turns import Admission, TurnRequest

logger = logging.getLogger(__name__)

LOOK_S: Final = 0.5
"""How often the server is asked who it is: soon, so that few later prompts overtake a lost one."""
KEPT_S: Final = 10.0
"""`everysec` forgets a second, two at worst; a promoted replica may be further behind."""
TEND_S: Final = 10.0
"""How often is asked which turns have ended: a tenth of a command for each second of a turn."""
LONGEST_S: Final = 15 * 60.0
"""A turn that has not ended is kept for longer, for a server that forgets everything; after this
nobody waits for its answer."""
KEPT_MAX: Final = 1_000
"""Requests kept at most, some kilobytes each: the newest, a hundred a second for ten seconds."""


class Queue(Prompts, Protocol):
    """What is asked of the queue. Every call may raise `StoreUnavailable` and be repeated."""

    async def server_id(self) -> str:
        """Whose memory answers."""
        ...

    async def ended(self, turn_ids: list[str]) -> set[str]:
        """Which of these turns have ended, or are unknown."""
        ...


class _Change(msgspec.Struct, frozen=True, kw_only=True):
    """An edit of a prompt, or, without a text, its deletion."""

    __repr__ = told_by_size

    at_s: float
    turn_id: str
    text: str | None = None


Tell = Callable[[TurnRequest, Admission], Coroutine[None, None, None]]
"""Says to whoever asked that a turn which was taken has no room now."""


class Recall:
    """Admissions that outlive a server's memory.

    Args:
        admit: takes turns.
        queue: where changes of prompts go, and which turns and whose memory it has.
        tell: says that there is no room for a turn that was taken before.
        kept_s: how long a request is kept, and longer while its turn has not ended.
        tend_s: how often is asked which turns have ended.
        look_s: how often the server is asked who it is.
    """

    def __init__(
        self,
        admit: Admit,
        queue: Queue,
        tell: Tell,
        *,
        kept_s: float = KEPT_S,
        tend_s: float = TEND_S,
        look_s: float = LOOK_S,
    ) -> None:
        self._admit = admit
        self._queue = queue
        self._tell = tell
        self._kept_s = kept_s
        self._tend_s = tend_s
        self._tended_s = 0.0
        self._look_s = look_s
        self._kept: deque[tuple[float, TurnRequest]] = deque(maxlen=KEPT_MAX)
        self._changes: deque[_Change] = deque(maxlen=KEPT_MAX)
        self._refused: deque[tuple[TurnRequest, Admission]] = deque()
        self._unsure: dict[str, None] = {}
        self._server_id: str | None = None

    async def admit(self, request: TurnRequest) -> Admission:
        """Takes a turn, or says why not; what was taken is kept for a while.

        Raises:
            StoreUnavailable: it may have been taken all the same. Who asks again then hears that it
                is accepted, not that it is there already: it is the same question.
        """
        turn_id = request.turn_id
        try:
            answer = await self._admit(request)
        except StoreUnavailable:
            self._unsure[turn_id] = None
            if len(self._unsure) > KEPT_MAX:
                del self._unsure[next(iter(self._unsure))]
            raise
        is_unsure = turn_id in self._unsure
        self._unsure.pop(turn_id, None)
        if is_unsure and answer is Admission.DUPLICATE:
            answer = Admission.ACCEPTED
        if answer is Admission.ACCEPTED:
            self._kept.append((_now_s(), request))
        return answer

    async def amend(self, turn_id: str, text: str) -> bool:
        """Replaces the prompt of a turn that still waits; False when there is none."""
        is_amended = await self._queue.amend(turn_id, text)
        if is_amended:
            kept = ((at_s, amended(one, turn_id, text) or one) for at_s, one in self._kept)
            self._kept = deque(kept, KEPT_MAX)
            self._changes.append(_Change(at_s=_now_s(), turn_id=turn_id, text=text))
        return is_amended

    async def withdraw(self, turn_id: str) -> None:
        """Stops a turn that nobody waits for any more, and says nothing about it."""
        await self._queue.withdraw(turn_id)
        self._kept = deque((one for one in self._kept if one[1].turn_id != turn_id), KEPT_MAX)
        self._changes.append(_Change(at_s=_now_s(), turn_id=turn_id))

    async def run(self) -> None:
        """Looks for another server, for ever."""
        async with asyncio.TaskGroup() as telling:
            while True:
                try:
                    await self.look()
                except (StoreUnavailable, StoreFull) as exc:
                    logger.debug("recall.store_waits", extra={"error": str(exc)})
                while self._refused:
                    # A channel under a rate limit must not keep the others waiting.
                    telling.create_task(self._tell(*self._refused.popleft()), name="tell")
                await asyncio.sleep(self._look_s)

    async def look(self) -> None:
        """Asks who answers; another one is asked to take again what the last one took.

        Raises:
            StoreUnavailable: nobody answers; the next look begins again.
        """
        now_s = _now_s()
        # Asked before who answers: a server that has just forgotten them knows no turn, either.
        ended = await self._ended(now_s)
        found = await self._queue.server_id()
        if self._server_id in (None, found):
            # Only now: however long the server was away, what it had just taken is still kept.
            self._drop(ended, now_s)
        else:
            await self._give_again()
        self._server_id = found

    async def _ended(self, now_s: float) -> set[str]:
        old = [request.turn_id for at_s, request in self._kept if now_s - at_s > self._kept_s]
        if not old or now_s - self._tended_s < self._tend_s:
            return set()
        ended = await self._queue.ended(old)
        self._tended_s = now_s
        return ended

    def _drop(self, ended: set[str], now_s: float) -> None:
        kept = [
            (at_s, request)
            for at_s, request in self._kept
            if request.turn_id not in ended and now_s - at_s <= LONGEST_S
        ]
        self._kept = deque(kept, KEPT_MAX)
        while self._changes and now_s - self._changes[0].at_s > self._kept_s:
            self._changes.popleft()

    async def _give_again(self) -> None:
        """Has everything taken that is not there; that is as young then as what is new."""
        for kept in list(self._kept):
            request, answer = kept[1], await self._admit(kept[1])
            if answer is Admission.DUPLICATE or kept not in self._kept:
                continue  # there it is, or it was withdrawn, or made room for newer ones meanwhile
            self._kept.remove(kept)
            if answer in NOTICES:
                logger.warning("recall.refused", extra=_facts(request, answer))
                self._refused.append((request, answer))
            else:
                logger.warning("recall.admitted_again", extra=_facts(request, answer))
                self._kept.append((_now_s(), request))
        for change in list(self._changes):
            if change.text is None:
                await self._queue.withdraw(change.turn_id)
            else:
                await self._queue.amend(change.turn_id, change.text)


def _facts(request: TurnRequest, answer: Admission) -> dict[str, str]:
    return {"turn_id": request.turn_id, "answer": answer.value}


def _now_s() -> float:
    return asyncio.get_running_loop().time()

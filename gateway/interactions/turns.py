"""Turns by button and command: stop, retry, continue.

Comes in: asks, acknowledged already. Goes out: stops, replays, replies that go on. What a button
names is only a turn's id: whether it exists, whose it is and what may be done is looked up, so that
a forged id gives nothing that a command would not.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from gateway.asks import Again, Answers, Ask, TurnSeen
from gateway.interactions.entrance import Entrance
from gateway.interactions.permissions import Act, may
from gateway.interactions.ports import Turns
from shared.errors import StoreFull, StoreUnavailable
from shared.i18n import Texts
from shared.turns import next_generation

ALL: Final = "all"
PRESS_BUDGET_S: Final = 1.5
"""An answer that changes the message must be the first, within three seconds: half of them."""

_OVER: Final = frozenset({"ask.stopped", "ask.is_over"})
"""What is said where a button Stop has nothing to do any more."""

_RETRIED: Final = {
    Again.STARTED: "ask.retried",
    Again.ALREADY: "ask.retried_already",
    Again.GONE: "ask.gone",
    Again.BUSY: "notice.busy",
    Again.BLOCKED: "ask.blocked",
}
_WENT_ON: Final = {**_RETRIED, Again.STARTED: "ask.goes_on", Again.ALREADY: "ask.goes_on_already"}


class TurnDesk:
    """Acts on turns.

    Args:
        turns: the turns of the cell.
        entrance: who may have one more.
        texts: the catalogs.
        budget_s: how long the first answer to a press may wait for them.
    """

    def __init__(
        self, turns: Turns, entrance: Entrance, texts: Texts, *, budget_s: float = PRESS_BUDGET_S
    ) -> None:
        self._budget_s = budget_s
        self._entrance = entrance
        self._turns = turns
        self._texts = texts

    async def stop(self, ask: Ask, answers: Answers) -> None:
        """`/stop`: the person's own turns in the channel; with `all` those of everybody."""
        wants_all = ask.values.get(ALL) == "true"
        if wants_all and not ask.caller.moderates:
            await self._say(ask, answers, "ask.forbidden")
            return
        stopped = 0
        for seen in await self._turns.recent(ask.caller.channel_id):
            is_own = seen.owned.user_id == ask.caller.user_id
            if seen.is_over or not (is_own or wants_all) or not may(
                Act.STOP, ask.caller, seen.owned
            ):  # fmt: skip
                continue
            stopped += await self._turns.stop(seen.turn_id)
        await self._say(ask, answers, "ask.stopped" if stopped else "ask.nothing_runs")

    async def stop_one(self, ask: Ask, answers: Answers) -> None:
        """The button Stop. Acknowledges by itself: the first answer takes the button away.

        So one that was left below a reply that has ended goes, whoever presses it.
        """
        try:
            async with asyncio.timeout(self._budget_s):
                key = await self._stop_one(ask)
        except (TimeoutError, StoreUnavailable, StoreFull):
            await answers.hold()
            key = await self._stop_one(ask)
        if key in _OVER:
            await answers.unbutton()
        await self._say(ask, answers, key)

    async def _stop_one(self, ask: Ask) -> str:
        """Stops what a button names; what is said of it. It may be done twice."""
        seen = await self._turns.look(ask.argument)
        if seen is None:
            return "ask.is_over"  # so long ago that its record is gone
        if seen.owned.channel_id != ask.caller.channel_id:
            return "ask.gone"
        if seen.is_over:
            return "ask.is_over"
        if not may(Act.STOP, ask.caller, seen.owned):
            return "ask.forbidden"
        return "ask.stopped" if await self._turns.stop(seen.turn_id) else "ask.is_over"

    async def retry(self, ask: Ask, answers: Answers) -> None:
        """`/retry`: the last turn of the channel that failed and that this person may retry."""
        seen = await self._last(ask, Act.RETRY, lambda one: one.has_failed)
        await self._retry(ask, answers, seen)

    async def retry_one(self, ask: Ask, answers: Answers) -> None:
        """The button Retry."""
        seen = await self._permitted(ask, answers, Act.RETRY)
        if seen is not None:
            await self._retry(ask, answers, seen if seen.has_failed else None)

    async def go_on(self, ask: Ask, answers: Answers) -> None:
        """`/continue`: the last turn of the channel that was cut off at its length."""
        seen = await self._last(ask, Act.CONTINUE, lambda one: one.reached_length)
        await self._go_on(ask, answers, seen)

    async def go_on_one(self, ask: Ask, answers: Answers) -> None:
        """The button Continue."""
        seen = await self._permitted(ask, answers, Act.CONTINUE)
        if seen is not None:
            await self._go_on(ask, answers, seen if seen.reached_length else None)

    async def _retry(self, ask: Ask, answers: Answers, seen: TurnSeen | None) -> None:
        if seen is None:
            await self._say(ask, answers, "ask.nothing_failed")
            return
        if not await self._is_refused(ask, answers, seen):
            await self._say(ask, answers, _RETRIED[await self._turns.retry(seen.turn_id)])

    async def _go_on(self, ask: Ask, answers: Answers, seen: TurnSeen | None) -> None:
        if seen is None:
            await self._say(ask, answers, "ask.nothing_cut")
            return
        if not await self._is_refused(ask, answers, seen):
            await self._say(ask, answers, _WENT_ON[await self._turns.go_on(seen.turn_id)])

    async def _is_refused(self, ask: Ask, answers: Answers, seen: TurnSeen) -> bool:
        """Whether this person may have no more turns here now; told if so."""
        refusal = await self._entrance.refusal(ask.caller, next_generation(seen.turn_id))
        if refusal is not None:
            await self._say(ask, answers, refusal)
        return refusal is not None

    async def _last(
        self, ask: Ask, act: Act, is_meant: Callable[[TurnSeen], bool]
    ) -> TurnSeen | None:
        for seen in await self._turns.recent(ask.caller.channel_id):
            if is_meant(seen) and may(act, ask.caller, seen.owned):
                return seen
        return None

    async def _permitted(self, ask: Ask, answers: Answers, act: Act) -> TurnSeen | None:
        """The turn that a button names, if it is of this channel and this person may do this."""
        seen = await self._turns.look(ask.argument)
        if seen is None or seen.owned.channel_id != ask.caller.channel_id:
            await self._say(ask, answers, "ask.gone")
            return None
        if not may(act, ask.caller, seen.owned):
            await self._say(ask, answers, "ask.forbidden")
            return None
        return seen

    async def _say(self, ask: Ask, answers: Answers, key: str) -> None:
        await answers.whisper(self._texts.text(key, ask.caller.locale))

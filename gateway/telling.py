"""A notice of the gateway's own on its way to a channel, and who hears that a turn is not taken.

Comes in: messages; turns that a server forgot and has no room for now. Goes out: the message in the
channel, however often that takes. `gateway.intake` and `gateway.app` use it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from gateway.front import (
    Budget,
    ChannelFront,
    Outcome,
    OutgoingMessage,
    Rank,
    Unavailable,
)
from gateway.notices import BUSY, GUILD_BUSY, Notices
from gateway.ports import Marks, Signs
from gateway.steps import nonce_of
from shared.errors import StoreFull, StoreUnavailable
from shared.turns import Admission, Front, TurnRequest

logger = logging.getLogger(__name__)

INTAKE_CLAIM: Final = "intake"
"""The claim in the nonces of intake's own notices; a worker's claim is hexadecimal."""
DECLINE_WAITS_S: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 60.0, 120.0)
"""Waits of a notice that does not get through; after four minutes nobody reads it any more."""
MAX_DECLINING: Final = 16
"""Notices on their way at once: a flood of prompts must not eat the rate limit of answers."""

Sleep = Callable[[float], Awaitable[None]]


NOTICES: Final[Mapping[Admission, str]] = {
    Admission.GUILD_FULL: GUILD_BUSY,
    Admission.FULL: BUSY,
}
"""What is said where there is no room for a turn."""


class Teller:
    """Brings notices to one front.

    Args:
        front: where to.
        budget: how many requests it takes.
        sleep: waits.
    """

    def __init__(self, front: ChannelFront, budget: Budget, sleep: Sleep) -> None:
        self._front = front
        self._budget = budget
        self._sleep = sleep
        self._room = asyncio.Semaphore(MAX_DECLINING)

    async def tell(self, message: OutgoingMessage) -> Outcome:
        """Sends until the front says yes or never, or nobody would read it any more.

        The nonce makes a repetition harmless.
        """
        outcome: Outcome = Unavailable(reason="not_tried")
        has_permit = False
        for wait_s in (0.0, *DECLINE_WAITS_S):
            await self._sleep(wait_s)
            async with self._room:
                if not has_permit:
                    await self._budget.permit(Rank.NOTICE)
                outcome = await self._front.send(message)
            if not isinstance(outcome, Unavailable):
                break
            has_permit = outcome.is_limited
            if outcome.retry_after_s is not None:
                await self._sleep(outcome.retry_after_s)
        logger.debug("intake.declined", extra={"outcome": type(outcome).__name__})
        return outcome


class Regrets:
    """Tells who was promised a reply that there will be none.

    Args:
        tellers: by front.
        notices: what is said.
        signs: of waiting turns.
        marks: where it is noted.
    """

    def __init__(
        self, tellers: Mapping[Front, Teller], notices: Notices, signs: Signs, marks: Marks
    ) -> None:
        self._tellers = tellers
        self._notices = notices
        self._signs = signs
        self._marks = marks

    async def tell(self, request: TurnRequest, answer: Admission) -> None:
        """Says why a turn that was taken is not taken again; cancelled, it may have been said."""
        route, turn_id = request.route, request.turn_id
        self._signs.stop(turn_id)
        if (teller := self._tellers.get(route.front)) is None:
            return
        message = OutgoingMessage(
            channel_id=route.channel_id,
            text=self._notices.say(NOTICES[answer], route.locale),
            nonce=nonce_of(turn_id, 0, INTAKE_CLAIM, 0, 0),
            reply_to=route.reply_to,
            is_notice=True,
        )
        if isinstance(await teller.tell(message), Unavailable):
            logger.warning("recall.not_told", extra={"turn_id": turn_id})
            return
        try:
            await self._marks.decline(turn_id)
        except (StoreUnavailable, StoreFull):
            logger.debug("recall.not_marked", extra={"turn_id": turn_id})

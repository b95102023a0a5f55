"""Which messages carry Stop, and who takes it away when the reply has ended.

Comes in: the lane of a channel; messages of ended replies. Goes out: whether a message carries the
button; edits of nothing but buttons. `gateway.delivery.partition` runs one `StopButtons` while it
leads, beside the lanes: no text waits for it.

What is to be done stands in the store since the reply ended, and the next leader begins with it.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

import msgspec

from gateway.delivery.ports import Journal
from gateway.delivery.surroundings import Surroundings
from gateway.front import SHARES, Button, Rank, Unavailable
from gateway.notices import STOP
from gateway.steps import Armed, Post, Rewrite
from shared.errors import StoreFull, StoreUnavailable
from shared.segments import Envelope, SegmentReady, TurnDone, TurnFailed
from shared.turns import Front

logger = logging.getLogger(__name__)

WAITS_S: Final = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 60.0, 120.0)
"""When it is asked again whether an edit may be made now: while the bot is busy it is put off, and
after five minutes nobody looks at that message: a click takes the button away as well."""
MAX_FAILURES: Final = 3
"""Requests for one button where Discord does not answer."""
MAX_WAITING: Final = 1_000
"""Buttons that are to be taken away, of one partition; what is beyond is left to the click."""


def may_go_on(waiting: Sequence[Envelope]) -> bool:
    """Whether more of the reply whose envelope is first may come: its end is not among them."""
    turn_id = waiting[0].turn_id
    return not any(_ends(envelope) for envelope in waiting if envelope.turn_id == turn_id)


def _ends(envelope: Envelope) -> bool:
    event = envelope.event
    is_last = isinstance(event, SegmentReady) and event.segment.is_last
    return is_last or isinstance(event, TurnDone | TurnFailed)


def carries(around: Surroundings, waiting: Sequence[Envelope]) -> bool:
    """Whether the message that is next may carry Stop.

    Not where the bot is so busy that buttons could not be taken away in time, and only in Discord:
    a local channel has none.
    """
    front = waiting[0].route.front
    is_shown = around.shows_stop and front is Front.DISCORD
    return is_shown and may_go_on(waiting) and around.couriers[front].load < SHARES[Rank.TIDY]


def with_stop(around: Surroundings, step: Post | Rewrite, envelope: Envelope) -> Post | Rewrite:
    """The step with its button made, where it has one."""
    if not step.has_stop:
        return step
    button: Button = around.notices.button(STOP, envelope.turn_id, envelope.route.locale)
    return msgspec.structs.replace(step, buttons=(button,))


class StopButtons:
    """Takes the buttons of ended replies away.

    Args:
        journal: what is to be done, and done.
        around: what all partitions share.
        group: what its tasks end with.
    """

    def __init__(self, journal: Journal, around: Surroundings, group: asyncio.TaskGroup) -> None:
        self._journal = journal
        self._around = around
        self._group = group
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(self) -> None:
        """Goes on with what an earlier leader has left; without Redis that is left to the click."""
        try:
            found = await self._journal.armed()
        except (StoreUnavailable, StoreFull) as exc:
            logger.debug("stop_buttons.store_away", extra={"error": str(exc)})
            return
        for armed in found:
            self.take(armed)

    def take(self, armed: Armed) -> None:
        """Takes the button of a reply away, when there is a moment for it."""
        if armed.turn_id in self._tasks or len(self._tasks) >= MAX_WAITING:
            return
        task = self._group.create_task(self._disarm(armed), name=f"stop button {armed.turn_id}")
        self._tasks[armed.turn_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(armed.turn_id, None))

    def end(self) -> None:
        """Leaves what is not done to the next leader."""
        for task in list(self._tasks.values()):
            task.cancel()

    async def _disarm(self, armed: Armed) -> None:
        try:
            for message_id in armed.message_ids:
                await self._disarm_one(armed, message_id)
            await self._journal.disarmed(armed.turn_id)
        except (StoreUnavailable, StoreFull) as exc:
            logger.debug("stop_buttons.store_away", extra={"error": str(exc)})
        except Exception:
            # A button is not worth a gateway: a bug here must not end the partition's delivery.
            logger.exception("stop_buttons.crashed", extra={"turn_id": armed.turn_id})

    async def _disarm_one(self, armed: Armed, message_id: int) -> None:
        courier, failures = self._around.couriers[armed.route.front], 0
        for wait_s in WAITS_S:
            if wait_s:
                await self._around.clock.sleep(wait_s)
            if not await courier.may(Rank.TIDY):
                continue
            outcome = await courier.disarm(armed.route, message_id)
            if not isinstance(outcome, Unavailable):
                return
            failures += not outcome.is_limited
            if failures == MAX_FAILURES:
                break
        logger.info("stop_buttons.left", extra={"turn_id": armed.turn_id})

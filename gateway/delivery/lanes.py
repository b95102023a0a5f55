"""The channels of a partition, each with its queue and, while it holds something, a task.

Comes in: envelopes, in the order of the stream. Goes out: each channel's to `turns`, in that order,
and acknowledgements. `gateway.delivery.partition` drives it. Channels do not wait for each other.
"""

import asyncio
import logging

import msgspec

from gateway.delivery.choice import Lane
from gateway.delivery.ports import EnvelopeSource
from gateway.delivery.turns import TurnDelivery
from shared.cancelling import is_cancelled
from shared.segments import Envelope

logger = logging.getLogger(__name__)


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers that tests change."""

    renew_s: float = 1.0
    """The lease lasts three of these, so that one lost renewal does not cost it."""
    max_held: int = 4_000
    """Envelopes read and not acknowledged, per partition: 8 MB at most. So many that one channel
    under a long limit does not fill the house, and a bound for a dead front."""
    room_s: float = 0.2
    """How often a full house is looked at; nothing is in a hurry then."""


class Lanes:
    """A queue and, while it holds something, a task per channel."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        source: EnvelopeSource,
        turns: TurnDelivery,
        pace: Pace,
    ) -> None:
        self._pace = pace
        self._group = group
        self._source = source
        self._turns = turns
        self._lanes: dict[int, Lane] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._held: set[str] = set()

    async def put(self, envelope: Envelope, stop: asyncio.Event) -> bool:
        """Appends to the channel's queue; waits while too much is held, False when `stop` is set.

        An envelope that is in hand already is left where it is.
        """
        if len(self._held) >= self._pace.max_held and not await self._has_room(stop):
            return False
        if envelope.entry_id in self._held:
            return True
        self._held.add(envelope.entry_id)
        channel_id = envelope.route.channel_id
        if (lane := self._lanes.get(channel_id)) is not None:
            lane.append(envelope)
            return True
        self._lanes[channel_id] = lane = Lane()
        lane.append(envelope)
        task = self._group.create_task(self._work(channel_id), name=f"channel {channel_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _has_room(self, stop: asyncio.Event) -> bool:
        """Waits while too much is held; False when `stop` is set."""
        while len(self._held) >= self._pace.max_held:
            if stop.is_set():
                return False
            for lane in self._lanes.values():
                lane.press()
            await until(stop, self._pace.room_s)
        for lane in self._lanes.values():
            lane.is_pressed = False
        return True

    async def drain(self, seconds: float) -> None:
        """Waits for the queues to be empty, and lets go of what is not done in time."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=seconds)
            for task in late:
                task.cancel()

    async def _work(self, channel_id: int) -> None:
        lane = self._lanes[channel_id]
        while lane.waiting:
            try:
                await self._show(lane)
            except asyncio.CancelledError:
                if is_cancelled():
                    raise
                # The group would take no notice, and the lane be fed for ever without a task.
                logger.exception("delivery.lane_crashed", extra={"channel_id": channel_id})
                await asyncio.sleep(self._pace.room_s)
        del self._lanes[channel_id]

    async def _show(self, lane: Lane) -> None:
        for _ in range(await self._turns.show(lane)):
            entry_id = lane.waiting[0].entry_id
            if entry_id in lane.acked:
                self._source.acked(entry_id)
            else:
                await self._turns.stored(lambda: self._source.ack(entry_id))  # noqa: B023 -- awaited here
            lane.waiting.popleft()
            self._held.discard(entry_id)


async def until(stop: asyncio.Event, seconds: float) -> None:
    """Waits so long, or until the stop."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return

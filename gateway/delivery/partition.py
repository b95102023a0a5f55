"""One partition's out stream, delivered by one gateway at a time.

Comes in: envelopes, in the order of the stream. Goes out: each channel's envelopes in that order,
one after another; acknowledgements when they are shown. `gateway.app` runs one of these per
partition.

Channels do not wait for each other. What was read and not acknowledged comes again after a crash,
before anything new.
"""

import asyncio
import logging
from collections import deque

import msgspec

from gateway.delivery.ports import EnvelopeSource, Journal, Leadership
from gateway.delivery.turns import RETRY_STORE_S, LeaseLost, Surroundings, TurnDelivery
from shared.errors import ConfigError, StoreFull, StoreUnavailable
from shared.segments import Envelope

logger = logging.getLogger(__name__)


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers that tests change."""

    renew_s: float = 1.0
    """The lease lasts three of these, so that one lost renewal does not cost it."""
    max_held: int = 1_000
    """Envelopes read and not acknowledged, per partition: 2 MB, and a bound for a dead front."""
    room_s: float = 0.2
    """How often a full house is looked at; nothing is in a hurry then."""


class PartitionDelivery:
    """Delivers one partition while it holds the lease.

    Args:
        partition: its number, for logs.
        source: its stream.
        journal: its journal, fenced by the lease.
        lease: the leadership of the partition.
        around: what all partitions share.
        pace: how often, how much.
    """

    def __init__(
        self,
        partition: int,
        *,
        source: EnvelopeSource,
        journal: Journal,
        lease: Leadership,
        around: Surroundings,
        pace: Pace | None = None,
    ) -> None:
        self._partition = partition
        self._pace = pace or Pace()
        self._source = source
        self._journal = journal
        self._lease = lease
        self._around = around

    async def run(self, stop: asyncio.Event, *, drain_s: float) -> None:
        """Delivers until `stop`, then finishes what is in hand within `drain_s`.

        Cancelled at any moment, it leaves unacknowledged envelopes to the next leader.

        Raises:
            ConfigError: the front's token is refused; this process can deliver nothing.
        """
        try:
            while not stop.is_set():
                if await self._may_lead():
                    await self._lead(stop, drain_s)
                else:
                    await _until(stop, self._pace.renew_s)
        finally:
            try:
                await self._lease.release()
            except StoreUnavailable:
                logger.debug("delivery.lease_left", extra={"partition": self._partition})

    async def _may_lead(self) -> bool:
        try:
            return await self._lease.take()
        except StoreUnavailable:
            return False

    async def _lead(self, stop: asyncio.Event, drain_s: float) -> None:
        logger.info("delivery.leading", extra={"partition": self._partition})
        try:
            async with asyncio.TaskGroup() as group:
                renewer = group.create_task(self._renew(), name=f"lease {self._partition}")
                await self._consume(group, stop, drain_s)
                renewer.cancel()
        except* LeaseLost:
            logger.warning("delivery.lease_lost", extra={"partition": self._partition})
        except* ConfigError as refused:
            raise ConfigError(str(refused.exceptions[0])) from refused

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._pace.renew_s)
            try:
                if not await self._lease.keep():
                    raise LeaseLost
            except StoreUnavailable:
                # Nothing is written meanwhile, and nothing is sent once the lease is not sure.
                logger.debug("delivery.renewal_waits", extra={"partition": self._partition})

    async def _consume(self, group: asyncio.TaskGroup, stop: asyncio.Event, drain_s: float) -> None:
        turns = TurnDelivery(self._journal, self._lease, self._around)
        lanes = _Lanes(group, self._source, turns, self._pace)
        self._source.rewind()
        while not stop.is_set():
            try:
                found = await self._source.read()
            except (StoreUnavailable, StoreFull) as exc:
                # Not `turns.stored`: with the server gone for good, a stop must still end this.
                logger.debug("delivery.store_waits", extra={"error": str(exc)})
                await _until(stop, RETRY_STORE_S)
                continue
            for envelope in found:
                if not await lanes.put(envelope, stop):
                    break
        await lanes.drain(drain_s)


class _Lanes:
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
        self._queues: dict[int, deque[Envelope]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._held: set[str] = set()

    async def put(self, envelope: Envelope, stop: asyncio.Event) -> bool:
        """Appends to the channel's queue; waits while too much is held, False when `stop` is set.

        An envelope that is in hand already is left where it is.
        """
        while len(self._held) >= self._pace.max_held:
            if stop.is_set():
                return False
            await _until(stop, self._pace.room_s)
        if envelope.entry_id in self._held:
            return True
        self._held.add(envelope.entry_id)
        channel_id = envelope.route.channel_id
        if (queue := self._queues.get(channel_id)) is not None:
            queue.append(envelope)
            return True
        self._queues[channel_id] = deque([envelope])
        task = self._group.create_task(self._work(channel_id), name=f"channel {channel_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def drain(self, seconds: float) -> None:
        """Waits for the queues to be empty, and lets go of what is not done in time."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=seconds)
            for task in late:
                task.cancel()

    async def _work(self, channel_id: int) -> None:
        queue = self._queues[channel_id]
        while queue:
            envelope = queue[0]
            await self._turns.show(envelope)
            await self._turns.stored(lambda: self._source.ack(envelope.entry_id))  # noqa: B023 -- awaited here
            queue.popleft()
            self._held.discard(envelope.entry_id)
        del self._queues[channel_id]


async def _until(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return

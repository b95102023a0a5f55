"""One partition's out stream, delivered by one gateway at a time.

Comes in: envelopes, in the order of the stream. Goes out: each channel's envelopes in that order,
one after another; acknowledgements when they are shown. `gateway.app` runs one of these per
partition.

Channels do not wait for each other. What was read and not acknowledged comes again after a crash,
before anything new.
"""

import asyncio
import logging

from gateway.delivery.lanes import Lanes, Pace, until
from gateway.delivery.ports import EnvelopeSource, Journal, Leadership
from gateway.delivery.stop_buttons import StopButtons
from gateway.delivery.surroundings import Surroundings
from gateway.delivery.turns import RETRY_STORE_S, LeaseLost, TurnDelivery
from shared.errors import ConfigError, StoreFull, StoreUnavailable

logger = logging.getLogger(__name__)


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
                # Also after a lease that was lost and is had at once: what lost it may do so again,
                # and each round reads the stream anew and reports.
                await until(stop, self._pace.renew_s)
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
        buttons = StopButtons(self._journal, self._around, group)
        await buttons.begin()
        turns = TurnDelivery(self._journal, self._lease, self._around, buttons)
        lanes = Lanes(group, self._source, turns, self._pace)
        self._source.rewind()
        while not stop.is_set():
            try:
                found = await self._source.read()
            except (StoreUnavailable, StoreFull) as exc:
                # Not `turns.stored`: with the server gone for good, a stop must still end this.
                logger.debug("delivery.store_waits", extra={"error": str(exc)})
                await until(stop, RETRY_STORE_S)
                continue
            for envelope in found:
                if not await lanes.put(envelope, stop):
                    break
        await lanes.drain(drain_s)
        buttons.end()

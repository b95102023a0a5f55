"""One envelope at a time: journal, act, journal, until the channel shows it.

Comes in: envelopes of a partition, those of one channel one after another. Goes out: steps to the
fronts, patches to the journal, reports. `gateway.delivery.partition` drives it and acknowledges
what returns.
"""

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

import msgspec

from gateway.delivery.courier import Courier, Letter
from gateway.delivery.pieces import pieces_of
from gateway.delivery.ports import Clock, Fleet, Journal, Leadership, Reporter, TypingSigns
from gateway.delivery.reports import delivery_failure
from gateway.front import Refusal, Refused, Sent
from gateway.notices import Notices, unknown_notes
from gateway.sequencer import Patch, Step, TurnSequencer, Written
from shared.errors import ConfigError, StoreFull, StoreUnavailable
from shared.failures import Fault
from shared.segments import Envelope, SegmentReady, TurnDone
from shared.turns import Front

logger = logging.getLogger(__name__)

DEADLINE_S: Final = 15 * 60.0
"""After this nobody waits for an answer any more: it becomes a report, not a late message."""
MAX_TURNS: Final = 10_000
"""Sequencers kept in memory, some 10 MB, those of ended turns too: a server that forgets its last
seconds brings them back. An older one is read from the journal when it is needed again."""
RETRY_STORE_S: Final = 0.5
"""How often Redis is asked again when it is away: an outage restarts nothing."""
BLOCK_S: Final = 15 * 60.0
"""How long a channel that refused us is left alone; as long as intake's mark in Redis."""

_LOST_CHANNEL = frozenset({Refusal.CHANNEL, Refusal.PERSON})

T = TypeVar("T")


class LeaseLost(Exception):
    """Another gateway delivers this partition now."""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What all partitions of a gateway share. `new_report_id` and `clock` are the outside world."""

    couriers: Mapping[Front, Courier]
    reporter: Reporter
    fleet: Fleet
    typing: TypingSigns
    notices: Notices
    clock: Clock
    new_report_id: Callable[[], str]


class TurnDelivery:
    """Shows envelopes. Calls for one channel never overlap; calls for several may.

    Args:
        journal: the partition's journal, fenced by its lease.
        lease: the leadership of the partition.
        around: what all partitions share.
    """

    def __init__(self, journal: Journal, lease: Leadership, around: Surroundings) -> None:
        self._journal = journal
        self._lease = lease
        self._around = around
        self._turns: OrderedDict[str, TurnSequencer] = OrderedDict()
        self._blocked_until_s: dict[int, float] = {}

    async def show(self, envelope: Envelope) -> None:
        """Shows an envelope, or finds that it need not be shown; then it may be acknowledged.

        Cancelled, it leaves a journal from which the same envelope goes on.

        Raises:
            LeaseLost: another gateway took over; nothing may be acknowledged.
            ConfigError: the front's token is refused.
        """
        turn = TurnSequencer(envelope.turn_id)  # an unreadable journal leaves nothing to go on from
        try:
            turn = await self._sequencer(envelope.turn_id)
            await self._show(turn, envelope)
        except (LeaseLost, ConfigError):
            raise
        except Exception as exc:
            # One turn that trips over a bug must not stop its partition, nor repeat it for ever.
            logger.exception("delivery.crashed", extra={"turn_id": envelope.turn_id})
            await self._give_up(
                turn,
                envelope,
                "delivery_crashed",
                message=f"delivery failed with {type(exc).__name__}",
                fault=Fault.TURNFLEET,
            )
        if turn.is_closed:
            self._around.typing.stop(envelope.turn_id)

    async def stored(self, call: Callable[[], Awaitable[T]]) -> T:
        """Asks Redis until it answers. Only for calls that may be repeated, as all here are."""
        while True:
            try:
                return await call()
            except (StoreUnavailable, StoreFull) as exc:
                logger.debug("delivery.store_waits", extra={"error": str(exc)})
            await self._around.clock.sleep(RETRY_STORE_S)

    async def _sequencer(self, turn_id: str) -> TurnSequencer:
        turn = self._turns.get(turn_id)
        if turn is None:
            record = await self.stored(lambda: self._journal.read(turn_id))
            turn = self._turns[turn_id] = TurnSequencer(turn_id, record)
            if len(self._turns) > MAX_TURNS:
                self._turns.popitem(last=False)
        self._turns.move_to_end(turn_id)
        return turn

    async def _show(self, turn: TurnSequencer, envelope: Envelope) -> None:
        if turn.is_closed:
            # A repetition. When the server forgot that the turn had ended, a worker answers it once
            # more; who leads after us must know better, too.
            await self._write(turn, envelope, turn.whole())
            return
        route = envelope.route
        is_command = route.interaction is not None
        pieces = pieces_of(
            envelope.event, self._around.notices, locale=route.locale, is_command=is_command
        )
        patch = turn.feed(envelope, pieces)
        if patch is not None:
            self._log_unknown_notes(envelope)
            await self._write(turn, envelope, patch)
        if not turn.is_busy:
            return
        if turn.has_gap:
            await self._report(
                envelope,
                "delivery_gap",
                message="segments are missing before this one",
                fault=Fault.REDIS,
            )
        if self._is_blocked(envelope.route.channel_id):
            await self._write(turn, envelope, turn.abandon())
            return
        while (step := turn.step()) is not None:
            self._around.typing.stop(envelope.turn_id)
            await self._take(turn, step, envelope)

    async def _confirm(self) -> None:
        """Returns while nobody else can lead: a front knows no leases, and a process may stall.

        Raises:
            LeaseLost: the lease ended; what is in hand may be another gateway's, and old.
        """
        if not self._lease.is_sure() and not await self.stored(self._lease.keep):
            raise LeaseLost

    def _log_unknown_notes(self, envelope: Envelope) -> None:
        if isinstance(envelope.event, TurnDone) and (keys := unknown_notes(envelope.event)):
            facts = {"turn_id": envelope.turn_id, "notes": keys}
            logger.warning("delivery.unknown_notes", extra=facts)

    async def _take(self, turn: TurnSequencer, step: Step, envelope: Envelope) -> None:
        now_s = self._around.clock.now_s()
        await self._write(turn, envelope, turn.intent(step, int(now_s * 1000)))
        letter = Letter(
            step=step,
            route=envelope.route,
            expires_s=_appended_s(envelope) + DEADLINE_S,
            is_notice=not isinstance(envelope.event, SegmentReady),
        )
        outcome = await self._around.couriers[envelope.route.front].carry(letter, self._confirm)
        match outcome:
            case None:
                message = f"the front did not take it within {DEADLINE_S:.0f} s"
                await self._give_up(turn, envelope, "delivery_expired", message=message)
            case Refused(refusal=Refusal.TOKEN):
                raise ConfigError(
                    "Discord refuses the bot's token (TURNFLEET_DISCORD_TOKEN); "
                    "set a valid one and restart, undelivered replies wait"
                )
            case Refused(refusal=refusal) if refusal in _LOST_CHANNEL:
                await self._lose_channel(turn, envelope, outcome)
            case Sent() | Refused():
                if isinstance(outcome, Refused) and outcome.refusal is Refusal.CONTENT:
                    await self._report(
                        envelope,
                        "content_refused",
                        message="the front does not accept a text of this reply",
                        outcome=outcome,
                    )
                await self._write(turn, envelope, turn.settle(step, outcome))

    async def _lose_channel(
        self, turn: TurnSequencer, envelope: Envelope, outcome: Refused
    ) -> None:
        channel_id = envelope.route.channel_id
        if not self._is_blocked(channel_id):
            await self._report(
                envelope,
                "channel_refused",
                message="the bot may not speak in this channel, or it is gone",
                outcome=outcome,
            )
        self._blocked_until_s[channel_id] = self._around.clock.now_s() + BLOCK_S
        await self._write(turn, envelope, turn.abandon())
        await self.stored(lambda: self._around.fleet.block_channel(channel_id))
        await self.stored(lambda: self._around.fleet.cancel(envelope.turn_id))

    async def _give_up(
        self,
        turn: TurnSequencer,
        envelope: Envelope,
        cause: str,
        *,
        message: str,
        fault: Fault = Fault.DISCORD,
    ) -> None:
        await self._report(envelope, cause, message=message, fault=fault)
        await self._write(turn, envelope, turn.abandon())

    async def _report(
        self,
        envelope: Envelope,
        cause: str,
        *,
        message: str,
        outcome: Refused | None = None,
        fault: Fault = Fault.DISCORD,
    ) -> None:
        report = delivery_failure(
            cause,
            envelope,
            report_id=self._around.new_report_id(),
            now_s=self._around.clock.now_s(),
            message=message,
            status=outcome.status if outcome else 0,
            code=outcome.code if outcome else 0,
            fault=fault,
        )
        await self._around.reporter.report(report)

    async def _write(self, turn: TurnSequencer, envelope: Envelope, patch: Patch | None) -> None:
        if patch is None:
            return
        written = await self.stored(lambda: self._journal.write(envelope.turn_id, patch))
        if written is Written.FORGOTTEN:
            logger.warning("delivery.journal_forgotten", extra={"turn_id": envelope.turn_id})
            whole = turn.whole()
            written = await self.stored(lambda: self._journal.write(envelope.turn_id, whole))
        if written is not Written.DONE:
            raise LeaseLost

    def _is_blocked(self, channel_id: int) -> bool:
        until_s = self._blocked_until_s.get(channel_id)
        if until_s is None:
            return False
        if until_s > self._around.clock.now_s():
            return True
        del self._blocked_until_s[channel_id]
        return False


def _appended_s(envelope: Envelope) -> float:
    """When the event was appended: a stream's entry id begins with the server's milliseconds."""
    return int(envelope.entry_id.partition("-")[0]) / 1000

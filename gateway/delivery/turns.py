"""One run of envelopes at a time: journal, act, journal, until the channel shows it.

Comes in: envelopes of a partition, those of one channel one after another. Goes out: steps to the
fronts, patches to the journal, reports. `gateway.delivery.partition` drives it and acknowledges
what returns.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import msgspec

from gateway.asks import KeptTable
from gateway.delivery.choice import Chooser, Lane
from gateway.delivery.courier import Letter
from gateway.delivery.pieces import otherwise, with_file, with_picture
from gateway.delivery.ports import Journal, Leadership
from gateway.delivery.reports import delivery_failure
from gateway.delivery.stop_buttons import StopButtons, carries, with_stop
from gateway.delivery.surroundings import Surroundings
from gateway.front import Refusal, Refused, Sent
from gateway.notices import SHOW_SOURCE, unknown_notes
from gateway.sequencer import TurnSequencer
from gateway.steps import Armed, Erase, Patch, Piece, Post, Rewrite, Step, TornJournal, Written
from shared.cancelling import is_cancelled
from shared.errors import ConfigError, StoreFull, StoreUnavailable
from shared.failures import Fault
from shared.segments import Envelope, SegmentPreview, TurnDone, TurnFailed
from shared.turns import Route

logger = logging.getLogger(__name__)

DEADLINE_S: Final = 15 * 60.0
"""After this nobody waits for an answer any more: it becomes a report, not a late message."""
MAX_TURNS: Final = 10_000
"""Sequencers kept in memory, some 10 MB, those of ended turns too: a server that forgets its last
seconds brings them back. An older one is read from the journal when it is needed again."""
RETRY_STORE_S: Final = 0.5
"""How often Redis is asked again when it is away: an outage restarts nothing."""
NO_PERMISSION: Final = 50013
"""Discord's code for what a permission of the channel forbids: with files it may be the files."""
INVALID_FORM: Final = 50035
"""Discord's code for a text that is not taken as it is."""

_LOST_CHANNEL = frozenset({Refusal.CHANNEL, Refusal.PERSON})
_REFUSED_TEXT = frozenset({Refusal.CONTENT, Refusal.MODERATED, Refusal.FILES})

T = TypeVar("T")


class LeaseLost(Exception):
    """Another gateway delivers this partition now."""


class TurnDelivery:
    """Shows envelopes. Calls for one channel never overlap; calls for several may.

    Args:
        journal: the partition's journal, fenced by its lease.
        lease: the leadership of the partition.
        around: what all partitions share.
        buttons: who takes away what can be pressed below ended replies.
    """

    def __init__(
        self, journal: Journal, lease: Leadership, around: Surroundings, buttons: StopButtons
    ) -> None:
        self._buttons = buttons
        self._journal = journal
        self._lease = lease
        self._around = around
        self._chooser = Chooser(around)
        self._turns: OrderedDict[str, TurnSequencer] = OrderedDict()

    async def show(self, lane: Lane) -> int:
        """Shows the first envelopes of a lane, or finds that they need not be shown.

        Cancelled, it leaves a journal from which the same envelopes go on.

        Returns:
            How many may be acknowledged now.

        Raises:
            LeaseLost: another gateway took over; nothing may be acknowledged.
            ConfigError: the front's token is refused.
        """
        envelope, count = lane.waiting[0], 1
        turn = TurnSequencer(envelope.turn_id)  # an unreadable journal leaves nothing to go on from
        try:
            turn = await self._sequencer(envelope.turn_id)
            count = await self._show(turn, lane)
        except (LeaseLost, ConfigError):
            raise
        except (Exception, asyncio.CancelledError) as exc:
            if isinstance(exc, asyncio.CancelledError) and is_cancelled():
                raise
            # One turn that trips over a bug must not stop its partition, nor repeat it for ever.
            logger.exception("delivery.crashed", extra={"turn_id": envelope.turn_id})
            await self._give_up(
                turn,
                envelope,
                "delivery_crashed",
                message=f"delivery failed with {type(exc).__name__}",
                fault=Fault.TURNFLEET,
                over=exc.head if isinstance(exc, TornJournal) else None,
            )
        if turn.is_closed:
            self._around.typing.stop(envelope.turn_id)
        return count

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

    async def _show(self, turn: TurnSequencer, lane: Lane) -> int:
        envelope = lane.waiting[0]
        if turn.is_closed:
            # A repetition. When the server forgot that the turn had ended, a worker answers it once
            # more; who leads after us must know better, too.
            await self._end(turn, lane, turn.whole(), lane.first(1))
            return 1
        if self._is_blocked(envelope):
            await self._write(turn, envelope, turn.abandon())
            await self.stored(lambda: self._around.fleet.cancel(envelope.turn_id))
            return 1
        if self._is_stale(turn, lane):
            return 1
        run = await self._chooser.choose(turn, lane)
        patch = turn.feed(
            envelope,
            run.pieces,
            upto=run.upto,
            is_partial=run.is_partial,
            may_go_on=carries(self._around, lane.waiting),
        )
        shown = lane.first(run.count)
        if patch is not None:
            self._log_unknown_notes(envelope)
            if not turn.postpone(patch):
                await self._end(turn, lane, patch, shown)
        if turn.is_busy and turn.has_gap:
            await self._report(
                envelope,
                "delivery_gap",
                message="segments are missing before this one",
                fault=Fault.REDIS,
            )
        has_permit, started_s = run.has_permit, self._around.clock.now_s()
        while turn.is_busy:
            self._around.typing.stop(envelope.turn_id)
            await self._prepare(turn, envelope)
            step = turn.step()
            if step is None:
                break
            patch = await self._take(turn, step, envelope, has_permit=has_permit)
            if patch is not None:
                await self._end(turn, lane, patch, shown)
            has_permit = False
        lane.waited_s = self._around.clock.now_s() - started_s
        return run.count

    async def _end(
        self, turn: TurnSequencer, lane: Lane, patch: Patch, shown: tuple[str, ...]
    ) -> None:
        """Writes what has become of a step; with the last one its envelopes are acknowledged."""
        ended = () if turn.is_busy else shown
        await self._write(turn, lane.waiting[0], patch, shown=ended)
        lane.acked = frozenset(ended)

    def _is_stale(self, turn: TurnSequencer, lane: Lane) -> bool:
        """A preview that something newer follows, or that is beyond the cap of messages.

        One that was begun goes on: only its nonce tells whether its message is there.
        """
        envelope = lane.waiting[0]
        if not isinstance(envelope.event, SegmentPreview) or turn.is_pending(envelope):
            return False
        return len(lane.waiting) > 1 or turn.written >= self._around.max_messages - 1

    async def _prepare(self, turn: TurnSequencer, envelope: Envelope) -> None:
        """Readies the piece that is next, or puts it otherwise where that cannot or must not be."""
        piece = turn.piece
        if piece is None or (piece.table is None and piece.picture is None and not piece.files):
            return
        around, channel_id = self._around, envelope.route.channel_id
        if await self.stored(lambda: around.fleet.takes_files(channel_id)) or not piece.plain:
            ready = await self._ready(piece, turn.nonce, envelope.route)
            if ready is not None:
                turn.fill(ready)
                return
        await self._write(turn, envelope, turn.otherwise(otherwise(piece)))

    async def _ready(self, piece: Piece, name: str, route: Route) -> Piece | None:
        """The piece with its files; None where its table or picture is not to be had."""
        around, source, picture = self._around, piece.table, piece.picture
        if picture is not None:
            data = await self.stored(lambda: around.fleet.picture(picture))
            return None if data is None else with_file(piece, data)
        if source is None:
            return piece
        drawn = await around.painter.paint(source)
        if drawn is None:
            return None
        kept = KeptTable(
            text=source,
            channel_id=route.channel_id,
            user_id=route.user_id,
            guild_id=route.guild_id,
        )
        await self.stored(lambda: around.fleet.keep_source(name, kept))
        return with_picture(piece, drawn, name, around.notices.say(SHOW_SOURCE, route.locale))

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

    async def _take(
        self, turn: TurnSequencer, step: Step, envelope: Envelope, *, has_permit: bool
    ) -> Patch | None:
        """Does a step and what its outcome asks for; what is left to be written of it."""
        courier = self._around.couriers[envelope.route.front]
        if isinstance(step, Post) and step.since_ms is None:
            after_id = courier.last_in(envelope.route.channel_id)
            step = msgspec.structs.replace(step, after_id=after_id)
        now_s = self._around.clock.now_s()
        await self._write(turn, envelope, turn.intent(step, int(now_s * 1000)))
        letter = Letter(
            step=step if isinstance(step, Erase) else with_stop(self._around, step, envelope),
            route=envelope.route,
            expires_s=_appended_s(envelope) + DEADLINE_S,
            is_notice=isinstance(envelope.event, TurnDone | TurnFailed),
            has_permit=has_permit,
        )
        outcome = await courier.carry(letter, self._confirm)
        match outcome:
            case None:
                message = f"the front did not take it within {DEADLINE_S:.0f} s"
                await self._give_up(turn, envelope, "delivery_expired", message=message)
            case Refused(refusal=Refusal.TOKEN):
                raise ConfigError(
                    "Discord refuses the bot's token (TURNFLEET_DISCORD_TOKEN); "
                    "set a valid one and restart, undelivered replies wait"
                )
            case Refused() if others := self._others(turn, step, outcome):
                await self._write(turn, envelope, turn.otherwise(others))
                if outcome.code == NO_PERMISSION:
                    channel_id = envelope.route.channel_id
                    await self.stored(lambda: self._around.fleet.refuse_files(channel_id))
            case Refused(refusal=refusal) if refusal in _LOST_CHANNEL and not (
                outcome.code == NO_PERMISSION and isinstance(step, Post | Rewrite) and step.files
            ):
                await self._lose_channel(turn, envelope, outcome)
            case Sent() | Refused():
                is_segment = not isinstance(envelope.event, SegmentPreview)
                is_refused = isinstance(outcome, Refused) and outcome.refusal in _REFUSED_TEXT
                if isinstance(outcome, Refused) and is_refused and is_segment:
                    await self._report(
                        envelope,
                        "content_refused",
                        message="the front does not accept a text of this reply",
                        outcome=outcome,
                    )
                return turn.settle(step, outcome)
        return None

    def _others(self, turn: TurnSequencer, step: Step, outcome: Refused) -> tuple[Piece, ...]:
        """What to show instead of a piece that was refused; nothing where that is of no use."""
        piece = turn.piece
        if piece is None or isinstance(step, Erase):
            return ()
        if piece.files:
            is_of_files = outcome.refusal in (Refusal.FILES, Refusal.CONTENT)
            return otherwise(piece) if is_of_files or outcome.code == NO_PERMISSION else ()
        is_of_text = outcome.refusal is Refusal.CONTENT and outcome.code == INVALID_FORM
        return otherwise(piece) if is_of_text else ()

    async def _lose_channel(
        self, turn: TurnSequencer, envelope: Envelope, outcome: Refused
    ) -> None:
        channel_id = envelope.route.channel_id
        if not self._is_blocked(envelope):
            await self._report(
                envelope,
                "channel_refused",
                message="the bot may not speak in this channel, or it is gone",
                outcome=outcome,
            )
        now_s = self._around.clock.now_s()
        self._around.channels.block(channel_id, envelope.route.guild_id, now_s)
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
        over: bytes | None = None,
    ) -> None:
        await self._report(envelope, cause, message=message, fault=fault)
        patch = turn.abandon()
        if over is not None:
            patch = msgspec.structs.replace(patch, before=None, over=over)
        await self._write(turn, envelope, patch)

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

    async def _write(
        self,
        turn: TurnSequencer,
        envelope: Envelope,
        patch: Patch | None,
        *,
        shown: tuple[str, ...] = (),
    ) -> None:
        if patch is None:
            return
        turn_id, armed = envelope.turn_id, None
        if patch.armed:
            armed = Armed(turn_id=turn_id, route=envelope.route, message_ids=patch.armed)
        written = await self.stored(lambda: self._journal.write(turn_id, patch, armed, shown=shown))
        if written is Written.FENCED and await self.stored(self._lease.keep):
            # A server without memory knew of no leader. Nobody else led: what is known here holds.
            written = Written.FORGOTTEN
        if written is Written.FORGOTTEN:
            logger.warning("delivery.journal_forgotten", extra={"turn_id": turn_id})
            whole = turn.whole()
            written = await self.stored(
                lambda: self._journal.write(turn_id, whole, armed, shown=shown)
            )
        if written is not Written.DONE:
            raise LeaseLost
        if armed is not None:
            self._buttons.take(armed)

    def _is_blocked(self, envelope: Envelope) -> bool:
        route, now_s = envelope.route, self._around.clock.now_s()
        return self._around.channels.is_blocked(route.channel_id, route.guild_id, now_s)


def _appended_s(envelope: Envelope) -> float:
    """When the event was appended: a stream's entry id begins with the server's milliseconds."""
    return int(envelope.entry_id.partition("-")[0]) / 1000

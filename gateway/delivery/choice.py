"""What is shown next: one envelope, texts that piled up, or all that is left of a reply.

Comes in: a lane, and what was shown of its first turn. Goes out: a `Choice`, once the front may be
asked. `gateway.delivery.turns` drives it.

Texts are merged where limits are felt: a message that had to wait, or a request budget that is
nearly spent. What an earlier life began goes on as it was begun: its message may have arrived.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from typing import Final

import msgspec

from gateway.delivery.pieces import pieces_of, resumed, within
from gateway.delivery.runs import Run, covers, has_end, merged, rest_of
from gateway.delivery.surroundings import Surroundings
from gateway.editions import is_of
from gateway.front import Rank
from gateway.notices import REST_IN_FILE
from gateway.sequencer import TurnSequencer
from gateway.steps import Head, Piece, Plan
from shared.segments import Envelope, SegmentKind, SegmentPreview, SegmentReady
from shared.turns import Front

logger = logging.getLogger(__name__)

SLOW_S: Final = 0.5
"""A message that waited this long met a limit: what piled up behind it goes as one message."""
MERGE_LOAD: Final = 0.8
"""Above this part of the request budget texts are merged in every channel."""
MAX_GROWING: Final = 1_000
"""Replies whose last preview is remembered; of an older one the same is shown once more."""
RUN_WAIT_S: Final = 5.0
"""How long the rest of a run that an earlier life began is waited for; it is read right away."""


class Lane:
    """The envelopes that wait in one channel, the next one first.

    Attributes:
        waited_s: how long its last message took.
        is_pressed: nothing more is read until something is shown, so nobody may wait for more.
        acked: envelopes that were acknowledged with their receipt.
    """

    def __init__(self) -> None:
        self.waiting: deque[Envelope] = deque()
        self.waited_s = 0.0
        self.is_pressed = False
        self.acked: frozenset[str] = frozenset()
        self._grown = asyncio.Event()

    def first(self, count: int) -> tuple[str, ...]:
        """The names of so many envelopes."""
        return tuple(self.waiting[at].entry_id for at in range(count))

    def append(self, envelope: Envelope) -> None:
        """Takes an envelope to the end."""
        self.waiting.append(envelope)
        self._grown.set()

    def press(self) -> None:
        """Says that no other one will come."""
        self.is_pressed = True
        self._grown.set()

    async def more(self) -> None:
        """Waits until another one came, or none will."""
        self._grown.clear()
        await self._grown.wait()


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown next: so many envelopes of a lane, as these pieces (`TurnSequencer.feed`)."""

    pieces: tuple[Piece, ...]
    count: int = 1
    upto: int = 0
    is_partial: bool = False
    has_permit: bool = False


class Chooser:
    """Decides what is shown next.

    Args:
        around: what all partitions share.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._previewed: OrderedDict[str, int] = OrderedDict()

    async def choose(self, turn: TurnSequencer, lane: Lane) -> Choice:
        """What to show next of a lane. Cancelled, nothing was decided."""
        envelope = lane.waiting[0]
        whole = pieces_of(
            envelope.event,
            self._around.notices,
            locale=envelope.route.locale,
            is_command=envelope.route.interaction is not None,
            turn_id=envelope.turn_id if envelope.route.front is Front.DISCORD else None,
        )
        # One message is left for what is beyond the cap.
        room = self._around.max_messages - 1 - _before(envelope, turn.whole().head)
        pieces = within(whole, room)
        if isinstance(envelope.event, SegmentPreview) and self._is_shown(envelope, pieces):
            return Choice(pieces=())
        plan = turn.plan(envelope)
        if plan is not None:
            return await self._as_begun(turn, lane, plan, pieces)
        if not isinstance(envelope.event, SegmentReady) or not turn.is_new(envelope):
            return Choice(pieces=pieces)
        if self._is_full(turn):
            while not (has_end(lane.waiting) or lane.is_pressed):
                await lane.more()
            return _choice(self._rest(lane), pieces)
        if envelope.event.segment.kind is not SegmentKind.TEXT:
            return Choice(pieces=pieces)
        is_slow = await self._is_slow(turn, lane)
        found = merged(tuple(lane.waiting)) if is_slow else None
        return _choice(found, pieces, has_permit=True)

    def _is_shown(self, envelope: Envelope, pieces: tuple[Piece, ...]) -> bool:
        """Whether a preview looks like the last one: such edits are limited, and show nothing."""
        texts = tuple(piece.text for piece in pieces)
        look = hash((envelope.attempt, envelope.claim, envelope.seq, texts))
        last = self._previewed.get(envelope.turn_id)
        self._previewed[envelope.turn_id] = look
        self._previewed.move_to_end(envelope.turn_id)
        if len(self._previewed) > MAX_GROWING:
            self._previewed.popitem(last=False)
        return look == last

    async def _as_begun(
        self, turn: TurnSequencer, lane: Lane, plan: Plan, pieces: tuple[Piece, ...]
    ) -> Choice:
        if not plan.upto:
            return Choice(pieces=resumed(pieces, plan.again))
        if not await self._is_here(lane, plan.upto):
            return Choice(pieces=pieces, upto=plan.upto, is_partial=True)
        if self._is_full(turn):
            return _choice(self._rest(lane, plan.upto), pieces, again=plan.again)
        found = merged(tuple(lane.waiting), upto=plan.upto)
        return _choice(found, pieces, again=plan.again)

    def _is_full(self, turn: TurnSequencer) -> bool:
        return turn.written >= self._around.max_messages - 1

    def _rest(self, lane: Lane, upto: int = 0) -> Run | None:
        waiting = tuple(lane.waiting)
        intro = self._around.notices.say(REST_IN_FILE, waiting[0].route.locale)
        return rest_of(waiting, intro, upto=upto)

    async def _is_slow(self, turn: TurnSequencer, lane: Lane) -> bool:
        """Waits for the right to send; whether limits are felt, so that messages must be few."""
        courier = self._around.couriers[lane.waiting[0].route.front]
        asked_s = self._around.clock.now_s()
        await courier.permit(Rank.FURTHER if turn.written else Rank.FIRST)
        waited_s = self._around.clock.now_s() - asked_s
        return lane.waited_s + waited_s >= SLOW_S or courier.load >= MERGE_LOAD

    async def _is_here(self, lane: Lane, upto: int) -> bool:
        """Whether the envelopes of a run that was begun earlier came again, all of them."""
        try:
            async with asyncio.timeout(RUN_WAIT_S):
                while not covers(lane.waiting, upto):
                    await lane.more()
        except TimeoutError:
            return False  # the server forgot some of them
        return True


def _before(envelope: Envelope, head: Head) -> int:
    """How many messages of its attempt stand before those of an envelope.

    Those of it that are there already are none of them: an envelope that an earlier life began
    must get the same pieces.
    """
    if is_of(head, envelope):
        return head.cursor - head.parts
    return 0 if envelope.seq == 1 else head.cursor


def _choice(
    run: Run | None,
    pieces: tuple[Piece, ...],
    *,
    again: tuple[int, ...] = (),
    has_permit: bool = False,
) -> Choice:
    if run is None:
        return Choice(pieces=pieces, has_permit=has_permit)
    logger.debug("delivery.run", extra={"count": run.count})
    return Choice(
        pieces=resumed((run.piece,), again),
        count=run.count,
        upto=run.upto,
        has_permit=has_permit,
    )

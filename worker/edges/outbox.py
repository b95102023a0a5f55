"""The way back of one turn: fenced writes that wait for Redis and are never given up half-way.

Comes in: segments and the terminal event of a turn. Goes out: entries of its out stream. It is the
real `OutboxPort` of `worker.turn`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from shared.at_rest import opened, sealed
from shared.edges.continuing import Continuations
from shared.edges.queue import Appended, Finished, TurnQueue
from shared.edges.records import TurnRecords
from shared.errors import Fenced, FleetError, StoreError, StoreFull, StoreUnavailable
from shared.failures import FaultDetails
from shared.logs import fields
from shared.segments import Segment, SegmentReady, TurnDone, TurnFailed
from shared.thoughts import KeptThoughts
from shared.turns import AttemptToken, TurnOutcome, TurnState
from shared.wire import decode_turn_request
from worker.edges.fleet.lease import Lease
from worker.edges.rules import Obey, obeyed

FIRST_WAIT_S = 0.05
LONGEST_WAIT_S = 1.0
"""Between tries while Redis is away or the stream is full; a gateway catches up in about that."""
PICTURE_WAIT_S = 30.0
"""What Redis gets to take a picture; a reply goes on without it."""

log = logging.getLogger(__name__)

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


class Outbox:
    """Writes for one lease.

    Every method waits while Redis is away: for as long as the caller lets it, whose deadline ends
    the turn. A cancelled `send` may or may not have appended; the same segment sent again is a
    duplicate that the server refuses.

    Args:
        queue: the queue that gave the lease.
        records: where recordings are kept.
        lease: the turn; its token follows `next_attempt`.
        obey: what the output rules make of a segment; None where there are none.
        shows_previews: whether text may be seen before its segment is whole. Not where there are
            output rules: half of what a rule withholds is what it withholds.
        sleep: how to wait, for tests.
    """

    def __init__(
        self,
        queue: TurnQueue,
        records: TurnRecords,
        lease: Lease,
        *,
        obey: Obey | None = None,
        shows_previews: bool = True,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._queue = queue
        self._records = records
        self._lease = lease
        self._obey = obey
        self._shows_previews = shows_previews
        self._sleep = sleep
        # Kept until the turn ends: a server that forgot its last second gets them again.
        self._segments: list[Segment] = []
        self._pictures: dict[str, bytes] = {}
        self._rounds = 0  # of this attempt, that are kept

    @property
    def token(self) -> AttemptToken:
        """The attempt that may write now."""
        return self._lease.token

    async def send(self, segment: Segment) -> bool:
        """Appends a segment, waiting while the out stream is full.

        Returns:
            False where it is full and a user has stopped the turn: the segment is not sent.

        Raises:
            Fenced: another worker has the turn.
        """
        if segment.seq != len(self._segments) + 1:
            raise FleetError(f"segment {segment.seq} follows {len(self._segments)}")
        shown = segment if self._obey is None else await self._obey(segment)
        self._segments.append(shown)
        return await self._append_up_to(segment.seq, until=self._lease.stopped)

    async def preview(self, text: str) -> None:
        """Shows what there is of the next segment, or does not: it is never waited for.

        Raises:
            Fenced: another worker has the turn.
        """
        if not self._shows_previews:
            return
        try:
            answer = await self._queue.preview(self.token, len(self._segments), text)
        except StoreError:
            return
        if answer is Appended.FENCED:
            raise self._fenced()

    async def next_attempt(self) -> AttemptToken:
        """Starts the next attempt; what the old one showed is superseded in the same step.

        Raises:
            Fenced: another worker has the turn.
        """
        token = await self._until_answered(lambda: self._queue.next_attempt(self.token))
        if token is None:
            raise self._fenced()
        self._lease.token = token
        self._segments.clear()
        self._pictures.clear()
        self._rounds = 0
        return token

    async def note_tool(self) -> None:
        """Remembers that a tool is about to run: until its result is kept nobody starts over.

        Raises:
            Fenced: another worker has the turn.
        """
        number = self._rounds + 1
        if not await self._until_answered(lambda: self._queue.note_tool(self.token, number)):
            raise self._fenced()

    async def keep_rounds(self, kept: bytes) -> None:
        """Keeps the completed rounds; a server without memory does not, and that is logged.

        Raises:
            Fenced: another worker has the turn.
        """
        number = self._rounds + 1
        try:
            is_ours = await self._until_answered(
                lambda: self._queue.keep_rounds(self.token, sealed(kept), number)
            )
        except StoreFull as exc:
            log.warning("rounds.lost", extra=fields(bytes=len(kept), reason=str(exc)))
            return
        if not is_ours:
            raise self._fenced()
        self._rounds = number

    async def kept_rounds(self) -> bytes | None:
        """The rounds that an earlier claim of the turn has completed.

        Raises:
            WireError: they are sealed with a key that is not here any more.
        """
        if self.token.attempt == 1:
            return None
        kept = await self._until_answered(lambda: self._queue.kept_rounds(self.token.turn_id))
        return None if kept is None else opened(kept)

    async def finish(self, event: TurnDone | TurnFailed, outcome: TurnOutcome) -> None:
        """Ends the turn with its one terminal event.

        Cancelled, it completes the write before it gives way: a reply that is whole must not be
        handed back and written once more.

        Raises:
            Fenced: another worker has the turn.
        """
        task = asyncio.create_task(self._finish(event, outcome), name=f"finish {self.token}")
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            done, _ = await asyncio.wait({task}, timeout=LONGEST_WAIT_S)
            if not done:
                task.cancel()
            elif not task.cancelled():
                task.exception()  # fenced or not: who cancels does not ask any more
            raise

    async def keep_recording(self, payload: bytes) -> None:
        """Stores the recording of the current attempt; without Redis it is lost, and logged."""
        try:
            await self._records.save_recording(self.token.turn_id, self.token.attempt, payload)
        except StoreError as exc:
            log.warning("recording.lost", extra=fields(reason=str(exc), size=len(payload)))

    async def keep_picture(self, picture_id: str, data: bytes) -> bool:
        """Keeps a picture until the gateway has fetched it; without Redis or memory it is lost.

        Raises:
            Fenced: another worker has the turn.
        """
        try:
            async with asyncio.timeout(PICTURE_WAIT_S):
                await self._until_answered(lambda: self._records.save_picture(picture_id, data))
        except (StoreFull, TimeoutError) as exc:
            log.warning("picture.lost", extra=fields(reason=str(exc), size=len(data)))
            return False
        self._pictures[picture_id] = data
        return True

    async def keep_continuation(self, payload: bytes) -> None:
        """Keeps a reply that was cut off; without Redis it cannot go on, which is logged."""
        store = Continuations(self._queue.redis, self._queue.keys)
        try:
            await store.keep(self.token.turn_id, payload)
        except StoreError as exc:
            log.warning("continuation.lost", extra=fields(reason=str(exc)))

    async def keep_thoughts(self, text: str, keep_s: int) -> bool:
        """Stores what the model thought, as the output rules let it be shown.

        Without Redis it is lost, and logged.
        """
        if self._obey is not None:
            text = await obeyed(self._obey, self.token.turn_id, text)
        request = decode_turn_request(self._lease.request)
        kept = KeptThoughts(
            text=text,
            user_id=request.route.user_id,
            channel_id=request.route.channel_id,
            guild_id=request.route.guild_id,
            source=request.credential_source,
        )
        try:
            await self._records.save_thoughts(self.token.turn_id, kept, keep_s)
        except StoreError as exc:
            log.warning("thoughts.lost", extra=fields(reason=str(exc), size=len(text)))
            return False
        return True

    async def may_tell(self, channel_id: int, word: str) -> bool:
        """Whether a channel was not told this lately; without Redis nothing is told."""
        try:
            return await self._records.may_tell(channel_id, word)
        except StoreError:
            return False

    async def keep_details(self, report_id: str, details: FaultDetails) -> None:
        """Stores what "Show full error" may open; without Redis it is lost, and logged."""
        try:
            await self._records.save_details(report_id, details)
        except StoreError as exc:
            log.warning("details.lost", extra=fields(report_id=report_id, reason=str(exc)))

    async def _finish(self, event: TurnDone | TurnFailed, outcome: TurnOutcome) -> None:
        if isinstance(event, TurnDone) and event.state is TurnState.CANCELLED:
            note = await self._until_answered(lambda: self._queue.stop_note(self.token))
            event = msgspec.structs.replace(event, notes=(*event.notes, *filter(None, [note])))
        while True:
            answer = await self._until_answered(
                lambda: self._queue.finish(self.token, event, outcome)
            )
            match answer:
                case Finished.OK:
                    self._lease.is_finished = True
                    return
                case Finished.FENCED:
                    raise self._fenced()
                case Finished.GAP:
                    if event.count != len(self._segments):
                        raise FleetError(f"{event.count} segments are counted, not sent")
                    await self._first_forgotten()
                    await self._append_up_to(event.count)

    async def _append_up_to(self, seq: int, until: asyncio.Event | None = None) -> bool:
        """Appends the segments that the server does not know, `seq` the last.

        False: `until` was set while the stream was full; `seq` is forgotten.
        """
        at, wait_s = seq, FIRST_WAIT_S
        while at <= seq:
            event = SegmentReady(segment=self._segments[at - 1])
            number = at
            answer = await self._until_answered(
                lambda: self._queue.append(self.token, number, event)  # noqa: B023  # awaited here
            )
            match answer:
                case Appended.OK | Appended.DUPLICATE:
                    at, wait_s = at + 1, FIRST_WAIT_S
                case Appended.FENCED:
                    raise self._fenced()
                case Appended.GAP:
                    at = await self._first_forgotten()
                case Appended.BACKPRESSURE:
                    if until is not None and until.is_set() and at == seq:
                        self._segments.pop()
                        return False
                    await self._pause(wait_s, until)
                    wait_s = min(LONGEST_WAIT_S, wait_s * 2)
        return True

    async def _pause(self, wait_s: float, until: asyncio.Event | None) -> None:
        """Waits, less where `until` is set meanwhile."""
        if until is None or until.is_set():
            await self._sleep(wait_s)
            return
        sleeping = asyncio.ensure_future(self._sleep(wait_s))
        stopping = asyncio.create_task(until.wait(), name="stop")
        try:
            await asyncio.wait({sleeping, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            stopping.cancel()

    async def _first_forgotten(self) -> int:
        """The first segment that the server does not know; its pictures are there again."""
        first = await self._accepted() + 1
        for segment in self._segments[first - 1 :]:
            if segment.picture is not None and segment.picture in self._pictures:
                await self.keep_picture(segment.picture, self._pictures[segment.picture])
        return first

    async def _accepted(self) -> int:
        known = await self._until_answered(lambda: self._queue.accepted(self.token))
        if known is None:
            raise self._fenced()
        return known

    async def _until_answered(self, call: Callable[[], Awaitable[T]]) -> T:
        wait_s = FIRST_WAIT_S
        while True:
            try:
                return await call()
            except StoreUnavailable as exc:
                log.debug("outbox.waits", extra=fields(reason=str(exc)))
            if self._lease.lost.is_set():
                raise self._fenced()
            await self._sleep(wait_s)
            wait_s = min(LONGEST_WAIT_S, wait_s * 2)

    def _fenced(self) -> Fenced:
        self._lease.lost.set()
        return Fenced(f"attempt {self.token.attempt} of {self.token.turn_id} was taken over")

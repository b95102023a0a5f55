"""What a person is told of a turn that waits, from the queue itself.

Comes in: a turn's id. Goes out: a sentence, or None once it does not wait. It is the real
`WaitingPort` of `gateway.typist`; only `gateway.app` constructs it.
"""

import logging
from typing import Final, assert_never

import msgspec

from gateway.edges.mishaps import Tell, mishap, to_nobody
from gateway.front import Button
from gateway.notices import STOP, Notices
from gateway.steps import nonce_of
from gateway.typist import Elsewhere, Left
from shared.edges.overview import Overview, Place, Why
from shared.edges.queue import TurnQueue
from shared.edges.redis import within
from shared.errors import StoreError
from shared.failures import ReportCategory
from shared.i18n import Texts
from shared.lifetimes import PLACES_TTL_MS
from shared.turns import ENDS, TurnState
from shared.wire import UNREADABLE

logger = logging.getLogger(__name__)

CLAIM: Final = "place"
"""The claim in the nonces of these notices; a worker's claim is hexadecimal."""

_encode = msgspec.json.Encoder().encode
_left = msgspec.json.Decoder(Left)


class Waiting:
    """Asks the queue.

    Args:
        queue: the queue of the cell.
        own: this gateway's process id.
        texts: the catalogs.
        tell: takes reports of notices that cannot be read.
    """

    def __init__(
        self, queue: TurnQueue, texts: Texts, own: str = "", *, tell: Tell = to_nobody
    ) -> None:
        self._overview = Overview(queue)
        self._redis = queue.redis
        self._places = queue.keys.places
        self._turn = queue.keys.turn
        self._heartbeat = queue.keys.heartbeat
        self._own = own
        self._texts = texts
        self._notices = Notices(texts)
        self._tell = tell

    async def words(self, turn_id: str, locale: str) -> str | None:
        """What a person is told of a waiting turn; None once it waits no more.

        Empty while Redis is away, and where there is nothing to say.
        """
        try:
            place = await self._overview.place(turn_id)
        except StoreError as exc:
            logger.debug("place.store_waits", extra={"error": str(exc)})
            return ""
        if place.state is not TurnState.QUEUED:
            return None
        return sentence(place, self._texts, locale)

    async def is_answered(self, turn_id: str) -> bool:
        """Whether something of the answer is there; no while Redis is away, or forgot the turn."""
        try:
            facts: list[bytes | None] = await within(
                self._redis.hmget(self._turn(turn_id), ["state", "shown"])
            )
        except StoreError as exc:
            logger.debug("place.store_waits", extra={"error": str(exc)})
            return False
        state, shown = facts
        return shown == b"1" or (state is not None and state.decode() in ENDS)

    def buttons(self, turn_id: str, locale: str) -> tuple[Button, ...]:
        """Stop, for turns of Discord: a local channel has no buttons."""
        return () if turn_id.startswith("l") else (self._notices.button(STOP, turn_id, locale),)

    def nonce(self, turn_id: str, nth: int) -> str:
        """The nonce of a turn's notice."""
        return nonce_of(turn_id, 0, CLAIM, nth, 0)

    async def remember(self, left: Left) -> None:
        """Keeps where a notice stands; without Redis it is not kept."""
        try:
            async with self._redis.pipeline(transaction=True) as pipe:
                row = msgspec.structs.replace(left, gateway=self._own)
                pipe.hset(self._places, left.turn_id, _encode(row).decode())
                pipe.pexpire(self._places, PLACES_TTL_MS)
                await within(pipe.execute())
        except StoreError as exc:
            logger.debug("place.not_kept", extra={"error": str(exc)})

    async def forget(self, turn_id: str) -> None:
        """The turn has no notice any more."""
        try:
            await within(self._redis.hdel(self._places, turn_id))
        except StoreError as exc:
            logger.debug("place.not_forgotten", extra={"error": str(exc)})

    async def elsewhere(self, turn_id: str) -> Left | Elsewhere:
        """The notice of a turn as it is kept, if its gateway is gone."""
        try:
            row: bytes | None = await within(self._redis.hget(self._places, turn_id))
            if row is None:
                return Elsewhere.NONE
            left = _left.decode(row)
            is_living = left.gateway and await within(
                self._redis.exists(self._heartbeat(left.gateway))
            )
        except (StoreError, *UNREADABLE) as exc:
            logger.debug("place.not_known", extra={"error": str(exc)})
            return Elsewhere.KEPT
        return Elsewhere.KEPT if is_living else left

    async def left_behind(self, *, is_local: bool) -> list[Left]:
        """The notices that stand in local channels, or in Discord; none while Redis is away.

        One that cannot be read is reported and left where it is: nobody takes it away any more.
        """
        try:
            rows: dict[bytes, bytes] = await within(self._redis.hgetall(self._places))
        except StoreError as exc:
            logger.debug("place.store_waits", extra={"error": str(exc)})
            return []
        found: list[Left] = []
        for name, row in rows.items():
            if name.startswith(b"l") != is_local:
                continue
            try:
                found.append(_left.decode(row))
            except UNREADABLE as exc:
                turn_id = name.decode(errors="replace")
                logger.warning("place.not_read", extra={"turn_id": turn_id, "error": str(exc)})
                await self._tell(
                    mishap("places", exc, category=ReportCategory.DECODE, turn_id=turn_id)
                )
        return found


def sentence(place: Place, texts: Texts, locale: str) -> str:
    """A waiting turn's place in words; empty where there is nothing to say."""
    match place.why:
        case Why.LANE | Why.GUILD | Why.FLEET:
            if place.ahead == 0:
                return texts.text("notice.queued_next", locale)
            return texts.count("notice.queued", place.ahead, locale)
        case Why.KEY:
            return texts.text("notice.queued_provider", locale)
        case Why.PAUSED:
            return texts.text("notice.queued_paused", locale)
        case Why.CRASH:
            return texts.text("notice.queued_again", locale)
        case Why.LATER | Why.NOTHING:
            return ""
        case _:
            assert_never(place.why)

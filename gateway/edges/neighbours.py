"""What a gateway hears of places, told to the other gateways of the bot.

Comes in: changes of a front. Goes out: the same to the gateways that did not hear them. Events come
to whoever has the guild's shard, messages go out from whoever leads the channel's partition: that
one must know that a channel is gone, or may be tried again. `gateway.app` composes it.
"""

import asyncio
import logging
from typing import Any, Final

from redis.asyncio import Redis

from gateway.front import Change, PlaceChanged, PlaceGone
from gateway.ports import Heed
from shared.edges.redis import within
from shared.errors import StoreError
from shared.keys import Keys
from shared.lifetimes import FRONT_CHANGES_MAX, FRONT_CHANGES_TTL_MS

logger = logging.getLogger(__name__)

LOOK_S: Final = 1.0
"""How late another gateway knows."""
NOBODY: Final = 0
"""In place of the bot's id, which only edits of prompts ask for."""

Place = PlaceGone | PlaceChanged

_WORDS: Final[dict[str, type[PlaceGone] | type[PlaceChanged]]] = {
    "gone": PlaceGone,
    "changed": PlaceChanged,
}


class Neighbours:
    """The other gateways.

    Args:
        redis: a client for short commands.
        keys: the cell's keys.
        own: this gateway's name.
        heed: takes what others heard.
    """

    def __init__(self, redis: Redis, keys: Keys, own: str, heed: Heed) -> None:
        self._redis = redis
        self._stream = keys.front("changes")
        self._own = own
        self._heed = heed
        self._last: bytes | None = None

    def telling(self, heed: Heed) -> Heed:
        """Heeds changes, and tells the others of places."""

        async def both(change: Change, bot_id: int) -> None:
            await heed(change, bot_id)
            if isinstance(change, PlaceGone | PlaceChanged):
                await self._tell(change)

        return both

    async def run(self) -> None:
        """Looks what others tell, until it is cancelled."""
        while True:
            try:
                await self.look()
            except StoreError as exc:
                logger.debug("neighbours.store_waits", extra={"error": str(exc)})
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Heeds what others have told since the last look; what was told before us is theirs.

        Raises:
            StoreError: nobody answers.
        """
        if self._last is None:
            seconds, micros = await within(self._redis.time())
            self._last = b"%d" % (seconds * 1000 + micros // 1000)
        start = b"(" + self._last if b"-" in self._last else self._last
        entries: Any = await within(self._redis.xrange(self._stream, start, count=100))
        for entry_id, row in entries:
            self._last = entry_id
            place = None if row.get(b"from") == self._own.encode() else _place_of(row)
            if place is not None:
                await self._heed(place, NOBODY)

    async def _tell(self, place: Place) -> None:
        word = "gone" if isinstance(place, PlaceGone) else "changed"
        row: Any = {"from": self._own, "what": word, "guild": str(place.guild_id)}
        if place.channel_id is not None:
            row["channel"] = str(place.channel_id)
        try:
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.xadd(self._stream, row, maxlen=FRONT_CHANGES_MAX, approximate=True)
                pipe.pexpire(self._stream, FRONT_CHANGES_TTL_MS)
                await within(pipe.execute())
        except StoreError as exc:
            # The others find out by a refusal, or after a quarter of an hour.
            logger.debug("neighbours.not_told", extra={"error": str(exc)})


def _place_of(row: dict[bytes, bytes]) -> Place | None:
    """What somebody tells; None for what another version says otherwise."""
    channel = row.get(b"channel")
    try:
        return _WORDS[row[b"what"].decode()](
            guild_id=int(row[b"guild"]), channel_id=None if channel is None else int(channel)
        )
    except (KeyError, ValueError):
        return None

"""Replies that were cut off at their length, kept for a day, and the turns that go on with them.

Comes in: what a worker keeps of such a reply; the wish to go on. Goes out: an admitted turn. The
worker's outbox, the gateway and ops import it.
"""

from redis.asyncio import Redis

from shared.at_rest import opened, sealed
from shared.continuing import continued, load
from shared.edges.queue import Admission, TurnQueue
from shared.edges.redis import within
from shared.keys import Keys
from shared.lifetimes import CONTINUATION_TTL_MS
from shared.turns import TurnRequest


class Continuations:
    """What is kept of replies that were cut off. All methods may raise `StoreUnavailable`.

    Args:
        redis: a client of `shared.edges.redis.connect`.
        keys: the key names of the cell.
    """

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys

    async def keep(self, turn_id: str, payload: bytes) -> None:
        """Keeps what `shared.continuing.dump` gives. Raises `StoreFull` without memory for it."""
        name = self._keys.continuation(turn_id)
        await within(self._redis.set(name, sealed(payload), px=CONTINUATION_TTL_MS))

    async def request(self, turn_id: str) -> TurnRequest | None:
        """The request of a turn whose reply can go on; None where nothing is kept of it.

        Raises:
            WireError: what is kept was written by another version.
        """
        payload: bytes | None = await within(self._redis.get(self._keys.continuation(turn_id)))
        return None if payload is None else load(opened(payload)).request

    async def go_on(self, turn_id: str, queue: TurnQueue, now_ms: int) -> Admission | None:
        """Admits the turn that goes on with a reply; None where nothing is kept of it.

        `DUPLICATE` says that it goes on already: asked twice, there is one such turn.

        Raises:
            WireError: what is kept was written by another version.
            RequestTooLarge: the conversation is too long to be sent once more.
        """
        payload: bytes | None = await within(self._redis.get(self._keys.continuation(turn_id)))
        if payload is None:
            return None
        return await queue.admit(continued(load(opened(payload)), created_ms=now_ms))

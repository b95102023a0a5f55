"""What waits on its way: finished text for its channels, reports for the recorder.

Comes in: nothing. Goes out: counts and ages, for the console, checks and alarms. Reads only.
"""

from typing import Any, Final

import msgspec
from redis.asyncio import Redis

from shared.edges.redis import within
from shared.keys import Keys

LOOKED_AT: Final = 200
"""Waiting turns whose age is looked at, about the oldest: the page is drawn every two seconds."""


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """Entries of a stream that nobody has acknowledged; `oldest_ms` is the age of the first."""

    entries: int = 0
    oldest_ms: int = 0


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the channels: what waits to be shown, and which gateway shows it ('' for none)."""

    number: int
    leader: str
    entries: int
    oldest_ms: int


class Buried(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that nobody could read: from which stream, and why. Its content is only counted."""

    id: str
    at_ms: int
    stream: str
    entry: str
    reason: str
    size_bytes: int


class Standstill(msgspec.Struct, frozen=True, kw_only=True):
    """How long the oldest turn waits for a worker, and what operators have paused.

    `pauses` are names with the milliseconds that are left, None until somebody ends it.
    """

    oldest_ms: int = 0
    pauses: dict[str, int | None] = msgspec.field(default_factory=dict)


class Backlog:
    """What waits in a cell. All methods raise `StoreUnavailable` when nobody answers."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys

    async def delivery(self) -> list[Partition]:
        """Each partition of the channels, in order."""
        found = []
        for number in range(self._keys.partitions):
            waiting = await self._of(self._keys.out(number))
            leader: bytes | None = await within(self._redis.get(self._keys.leader(number)))
            found.append(
                Partition(
                    number=number,
                    leader=(leader or b"").decode(),
                    entries=waiting.entries,
                    oldest_ms=waiting.oldest_ms,
                )
            )
        return found

    async def reports(self) -> Waiting:
        """Reports and summaries that no recorder has stored yet."""
        return await self._of(self._keys.errors)

    async def buried(self) -> int:
        """Entries that nobody could read."""
        count: int = await within(self._redis.xlen(self._keys.buried))
        return count

    async def buried_entries(self, limit: int) -> list[Buried]:
        """Entries that nobody could read, the latest first."""
        rows: Any = await within(self._redis.xrevrange(self._keys.buried, count=limit))
        return [_buried(entry_id.decode(), fields) for entry_id, fields in rows]

    async def drop_buried(self, ids: list[str]) -> None:
        """Removes such entries, after somebody has looked at them."""
        if ids:
            await within(self._redis.xdel(self._keys.buried, *ids))

    async def standstill(self) -> Standstill:
        """The oldest turn that waits for a worker, and pauses. By plain reads, as the console may.

        Who waits for an earlier prompt of their channel, or for their time, waits for no worker. A
        key that rests is no operator's word, and ends by itself.
        """
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.zrange(self._keys.waiting, 0, LOOKED_AT - 1)
            pipe.zrange(self._keys.pauses, 0, -1, withscores=True)
            pipe.time()
            ids, pauses, (seconds, micros) = await within(pipe.execute())
        now_ms = int(seconds) * 1000 + int(micros) // 1000
        born_ms = await self._for_a_worker([turn_id.decode() for turn_id in ids])
        return Standstill(
            oldest_ms=max([0, *(now_ms - one for one in born_ms)]),
            pauses={
                name.decode(): None if until_ms == float("inf") else int(until_ms) - now_ms
                for name, until_ms in pauses
                if until_ms > now_ms and not name.startswith(_RESTS)
            },
        )

    async def _for_a_worker(self, turn_ids: list[str]) -> list[int]:
        """When those of the turns began to wait that nothing but a worker keeps."""
        if not turn_ids:
            return []
        async with self._redis.pipeline(transaction=False) as pipe:
            for turn_id in turn_ids:
                pipe.hmget(self._keys.turn(turn_id), ["enqueued", "lane", "held"])
            pipe.hkeys(self._keys.running_lanes)
            *rows, running = await within(pipe.execute())
        busy = set(running)
        return [int(born) for born, lane, held in rows if born and not held and lane not in busy]

    async def _of(self, stream: str) -> Waiting:
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.xlen(stream)
            pipe.xrange(stream, count=1)
            pipe.time()
            answer: Any = await within(pipe.execute())
        entries, first, (seconds, micros) = answer
        if not first:
            return Waiting()
        born_ms = int(first[0][0].split(b"-")[0])
        now_ms = int(seconds) * 1000 + int(micros) // 1000
        return Waiting(entries=int(entries), oldest_ms=max(0, now_ms - born_ms))


def _buried(entry_id: str, fields: dict[bytes, bytes]) -> Buried:
    stream, entry, reason = (
        fields.get(name, b"").decode("utf-8", "replace")
        for name in (b"stream", b"entry", b"reason")
    )
    content = [value for name, value in fields.items() if name not in _ABOUT]
    return Buried(
        id=entry_id,
        at_ms=int(entry_id.partition("-")[0]),
        stream=stream,
        entry=entry,
        reason=reason,
        size_bytes=sum(map(len, content)),
    )


_ABOUT: Final = frozenset({b"stream", b"entry", b"reason"})
_RESTS: Final = b"rest:"

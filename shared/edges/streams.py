"""Reading streams, each entry until it is acknowledged: by position, or by group.

Comes in: a stream's name. Goes out: entries, and `Envelope`s from those of the out streams. Gateway
and recorder import it.

An out stream has one reader at a time, its partition's leader, and order matters: `TailReader`. The
reports have as many readers as there are recorders, in any order: `GroupReader`.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from shared.edges.redis import CALL_TIMEOUT_S, MAX_BLOCK_S, translated, within
from shared.edges.scripting import Script
from shared.errors import WireError
from shared.segments import Envelope
from shared.wire import decode_route, decode_turn_event

READ_COUNT = 64
"""Entries of one read: enough to amortize it, few enough to keep order cheap after a crash."""
RECREATE_DELAY_S = 0.5
"""After a group was lost: a server that forgets it at once is not asked in a hot loop."""
BURIED_MAX = 1_000
"""Unreadable entries kept for an operator."""


class Entry(msgspec.Struct, frozen=True):
    """One entry of a stream."""

    id: str
    fields: dict[bytes, bytes]


class TailReader:
    """Reads a stream that one leader at a time empties, oldest first, by position.

    What is acknowledged is removed, so the stream itself is the list of what is not shown yet. A
    group would be a trap here: it gives each entry out once, and a leader that was stalled beyond
    its lease takes entries, as it wakes, that its successor then never sees. To read by position
    takes nothing from anyone.

    Args:
        redis: a client for short commands.
        blocking: a client of its own for reads that wait (`connect(url, blocking=True)`).
        stream: the stream's name.
    """

    def __init__(self, redis: Redis, blocking: Redis, *, stream: str) -> None:
        self.stream = stream
        self._redis = redis
        self._blocking = blocking
        self._after = "0"

    def rewind(self) -> None:
        """Begins again with everything that is not acknowledged."""
        self._after = "0"

    async def read(self, *, block_s: float = 2.0, count: int = READ_COUNT) -> list[Entry]:
        """The next entries, oldest first; nothing after `block_s` without any.

        After a cancelled or failed read the next one begins again with everything that is not
        acknowledged: the server that comes back may have forgotten how far it was.

        Raises:
            StoreUnavailable: nobody answers.
        """
        after, self._after = self._after, "0"
        block_ms = max(1, int(min(block_s, MAX_BLOCK_S) * 1000))
        answer: Any = await within(
            self._blocking.xread({self.stream: after}, count=count, block=block_ms)
        )
        found = [_entry(row) for _, rows in answer for row in rows]
        self._after = found[-1].id if found else after
        return found

    async def ack(self, ids: list[str]) -> int:
        """Acknowledges entries, which removes them; answers how many there were."""
        if not ids:
            return 0
        removed: int = await within(self._redis.xdel(self.stream, *ids))
        return removed

    async def bury(self, entry: Entry, reason: str, into: str) -> None:
        """Moves an entry that nobody can read to the stream `into`, where an operator finds it."""
        await within(_copy(self._redis, self.stream, entry, reason, into))
        await self.ack([entry.id])


class GroupReader:
    """Reads one stream as one consumer of a group.

    Args:
        redis: a client for short commands.
        blocking: a client of its own for reads that wait (`connect(url, blocking=True)`).
        stream: the stream's name.
        group: made when it is missing, from the first entry on.
        consumer: whose pending entries are read first.
    """

    def __init__(
        self, redis: Redis, blocking: Redis, *, stream: str, group: str, consumer: str
    ) -> None:
        self.stream = stream
        self.group = group
        self.consumer = consumer
        self.remade = 0
        self._redis = redis
        self._blocking = blocking
        self._ack = Script(redis, "ack")
        self._pending_after: str | None = "0"
        self._is_ready = False

    def rewind(self) -> None:
        """Reads own pending entries again: after a failure between reading and acknowledging."""
        self._pending_after = "0"

    async def read(self, *, block_s: float = 2.0, count: int = READ_COUNT) -> list[Entry]:
        """The next entries, oldest first; nothing after `block_s` without any.

        After a cancelled or failed read the next one starts with the own pending entries, those
        that were given out before and not acknowledged included.

        Raises:
            StoreUnavailable: nobody answers.
        """
        if not self._is_ready:
            await self._make_group()
        with translated():
            try:
                return await self._read(block_s, count)
            except ResponseError as exc:
                if not str(exc).startswith(("NOGROUP", "UNBLOCKED")):
                    raise
        self._is_ready = False
        self.remade += 1
        self._pending_after = "0"
        await asyncio.sleep(RECREATE_DELAY_S)
        return []

    async def entries(self, *, block_s: float = 2.0) -> AsyncGenerator[Entry]:
        """Entries one by one, for ever; close it with `aclosing`."""
        while True:
            for entry in await self.read(block_s=block_s):
                yield entry

    async def ack(self, ids: list[str]) -> int:
        """Acknowledges entries and removes them, in one step; answers how many there were."""
        if not ids:
            return 0
        removed: int = await within(self._ack([self.stream], [self.group, *ids]))
        return removed

    async def bury(self, entry: Entry, reason: str, into: str) -> None:
        """Moves an entry that nobody can read to the stream `into`, where an operator finds it."""
        await within(_copy(self._redis, self.stream, entry, reason, into))
        await self.ack([entry.id])

    async def take_over(self, *, idle_ms: int = 60_000, count: int = READ_COUNT) -> list[Entry]:
        """Entries that other consumers of the group have held for longer than `idle_ms`."""
        if not self._is_ready:
            await self._make_group()
        answer: Any = await within(
            self._redis.xautoclaim(
                self.stream, self.group, self.consumer, min_idle_time=idle_ms, count=count
            )
        )
        return [_entry(row) for row in answer[1] if row[1]]

    async def length(self) -> int:
        """Entries that are not acknowledged yet: the backlog. A group's own lag lies after XDEL."""
        length: int = await within(self._redis.xlen(self.stream))
        return length

    async def memory(self) -> int:
        """What the stream takes of the server's memory, about."""
        size: int | None = await within(self._redis.memory_usage(self.stream))
        return size or 0

    async def oldest(self, count: int) -> list[Entry]:
        """The oldest entries, whoever has them in hand."""
        rows: Any = await within(self._redis.xrange(self.stream, count=count))
        return [_entry(row) for row in rows]

    async def trim(self, min_id: str) -> int:
        """Removes entries older than `min_id`. Never by length: that drops what nobody has read."""
        removed: int = await within(self._redis.xtrim(self.stream, minid=min_id, approximate=False))
        return removed

    async def _read(self, block_s: float, count: int) -> list[Entry]:
        while self._pending_after is not None:
            rows = await self._xreadgroup(self._pending_after, None, count)
            if not rows:
                self._pending_after = None
                break
            self._pending_after = rows[-1].id
            alive = [entry for entry in rows if entry.fields]
            await self.ack([entry.id for entry in rows if not entry.fields])
            if alive:
                return alive
        return await self._xreadgroup(">", min(block_s, MAX_BLOCK_S), count)

    async def _xreadgroup(self, after: str, block_s: float | None, count: int) -> list[Entry]:
        block_ms = None if block_s is None else max(1, int(block_s * 1000))
        rewind, self._pending_after = self._pending_after, "0"
        async with asyncio.timeout(CALL_TIMEOUT_S):
            answer: Any = await self._blocking.xreadgroup(
                self.group, self.consumer, {self.stream: after}, count=count, block=block_ms
            )
        # Only now: a read that failed or was cancelled may have taken entries.
        self._pending_after = rewind
        return [_entry(row) for _, rows in answer for row in rows]

    async def _make_group(self) -> None:
        with translated():
            async with asyncio.timeout(CALL_TIMEOUT_S):
                try:
                    await self._redis.xgroup_create(self.stream, self.group, id="0", mkstream=True)
                except ResponseError as exc:
                    if not str(exc).startswith("BUSYGROUP"):
                        raise
        self._is_ready = True


def _copy(redis: Redis, stream: str, entry: Entry, reason: str, into: str) -> Any:
    fields: dict[Any, Any] = {
        **entry.fields,
        "reason": reason,
        "stream": stream,
        "entry": entry.id,
    }
    return redis.xadd(into, fields, maxlen=BURIED_MAX, approximate=True)


def _entry(row: Any) -> Entry:
    entry_id, fields = row
    return Entry(entry_id.decode(), dict(fields or {}))


def envelope_of(entry: Entry) -> Envelope:
    """Reads an entry of an out stream.

    Raises:
        WireError: it is none, or of another version: `bury` it and go on.
    """
    fields = entry.fields
    try:
        return Envelope(
            entry_id=entry.id,
            turn_id=fields[b"turn"].decode(),
            attempt=int(fields[b"attempt"]),
            claim=fields[b"claim"].decode(),
            seq=int(fields[b"seq"]),
            route=decode_route(fields[b"route"]),
            event=decode_turn_event(fields[b"data"]),
        )
    except (KeyError, ValueError) as exc:
        raise WireError(f"entry {entry.id} is no envelope: {exc!r}") from exc

"""What the gateway keeps in Redis: the journal, blocked channels, marks of its fronts.

Comes in: patches and marks of delivery. Goes out: the same after a restart. `gateway.outward`
imports it. All calls may be repeated and raise `StoreUnavailable` when nobody answers.
"""

import contextlib
import secrets
import time
from typing import Final, cast

import msgspec
from redis.asyncio import Redis

from gateway.asks import KeptTable
from gateway.edges.prompt_parts import PromptParts
from gateway.steps import Armed, Head, JournalRecord, Patch, Slot, TornJournal, Written
from shared.at_rest import opened
from shared.edges.queue import TurnQueue
from shared.edges.redis import within
from shared.edges.scripting import Script
from shared.edges.streams import Entry, TailReader, envelope_of
from shared.errors import StoreError, StoreFull, StoreUnavailable, WireError
from shared.keys import Keys
from shared.lifetimes import (
    FRONT_TTL_MS,
    JOURNAL_TTL_MS,
    MEMORY_TTL_MS,
    NO_FILES_TTL_MS,
    SEND_BLOCK_TTL_MS,
    SOURCE_TTL_MS,
)
from shared.segments import Envelope
from shared.turns import ENDS, Route
from shared.wire import UNREADABLE, decode_route, encode_json

READ_BLOCK_S: Final = 1.0
"""How long a read waits: a stop is noticed within a second."""

SILENT_MAX: Final = 200
"""Typing signs that are shown again after a restart: four seconds of requests."""
DIRECT_CHANNELS_MAX: Final = 200
"""Channels of direct messages whose history is read after an outage."""

_head = msgspec.json.Decoder(Head)
_slot = msgspec.json.Decoder(Slot)
_armed_of = msgspec.json.Decoder(Armed).decode


class RedisJournal:
    """The journal of one partition's turns, written only while its lease is held."""

    def __init__(self, redis: Redis, keys: Keys, partition: int, owner: str) -> None:
        self._redis = redis
        self._keys = keys
        self._leaders = [keys.leader(partition), keys.last_leader(partition)]
        self._armed = keys.armed(partition)
        self._stream = keys.out(partition)
        self._owner = owner
        self._write = Script(redis, "journal")

    async def read(self, turn_id: str) -> JournalRecord | None:
        """The record of a turn, None if it was never delivered to. Raises `TornJournal`."""
        answer = await within(self._redis.hgetall(self._keys.journal(turn_id)))
        fields = cast("dict[bytes, bytes]", answer)
        if b"head" not in fields:
            return None
        try:
            numbers = sorted(int(name) for name in fields if name != b"head")
            return JournalRecord(
                head=_head.decode(fields[b"head"]),
                slots=tuple(_slot.decode(fields[b"%d" % number]) for number in numbers),
            )
        except (*UNREADABLE, ValueError, KeyError) as exc:  # numbers of slots are fields
            what = f"the journal of {turn_id} cannot be read: {exc}"
            raise TornJournal(what, fields[b"head"]) from exc

    async def write(
        self,
        turn_id: str,
        patch: Patch,
        armed: Armed | None = None,
        *,
        shown: tuple[str, ...] = (),
    ) -> Written:
        """Writes a patch in one step, with buttons that are left, and acknowledges what it ends."""
        args: list[str | bytes | int] = [
            self._owner,
            JOURNAL_TTL_MS,
            _before(patch),
            encode_json(patch.head),
            turn_id,
            b"" if armed is None else encode_json(armed),
            len(patch.put),
            len(patch.drop),
        ]
        for number, slot in patch.put:
            args += [number, encode_json(slot)]
        args += [*patch.drop, *shown]
        keys = [self._keys.journal(turn_id), *self._leaders, self._armed, self._stream]
        answer: bytes = await within(self._write(keys, args))
        return Written(answer.decode())

    async def armed(self) -> list[Armed]:
        """The ended replies of the partition whose button to stop them is not taken away yet."""
        found: list[bytes] = await within(self._redis.hvals(self._armed))
        armed: list[Armed] = []
        for row in found:
            with contextlib.suppress(*UNREADABLE):  # of another version: left to the click
                armed.append(_armed_of(row))
        return armed

    async def disarmed(self, turn_id: str) -> None:
        """Nothing is left to take away of a reply."""
        await within(self._redis.hdel(self._armed, turn_id))


def _before(patch: Patch) -> bytes:
    if patch.before is None:
        return b"*" + (patch.over or b"")
    return b"" if patch.before == Head() else encode_json(patch.before)


class StreamSource:
    """The out stream of one partition as envelopes. What cannot be read is buried, not lost."""

    def __init__(self, reader: TailReader, keys: Keys) -> None:
        self._reader = reader
        self._keys = keys

    def rewind(self) -> None:
        """Begins again with what was read and never acknowledged."""
        self._reader.rewind()

    async def read(self) -> list[Envelope]:
        """The next envelopes, unacknowledged ones first."""
        found: list[Envelope] = []
        for entry in await self._reader.read(block_s=READ_BLOCK_S):
            try:
                found.append(envelope_of(entry))
            except WireError as exc:
                await self._bury(entry, str(exc))
        return found

    async def _bury(self, entry: Entry, reason: str) -> None:
        try:
            await self._reader.bury(entry, reason, self._keys.buried)
        except StoreError:
            self._reader.rewind()  # the others of this read go with it
            raise

    async def ack(self, entry_id: str) -> None:
        """Acknowledges an envelope and removes it from the stream."""
        await self._reader.ack([entry_id])

    def acked(self, entry_id: str) -> None:
        """An envelope was acknowledged with its receipt."""


class GatewayFleet:
    """What the gateway tells and asks the queue."""

    def __init__(self, queue: TurnQueue) -> None:
        self._queue = queue
        self._parts = PromptParts(queue)

    async def server_id(self) -> str:
        """Whose memory answers: another after a start, after a fail-over, and after a FLUSHALL."""
        redis, key = self._queue.redis, self._queue.keys.memory
        facts: dict[str, str] = await within(redis.info("server"))
        word: bytes | None = await within(redis.get(key))
        if word is None:
            own = secrets.token_hex(4)
            with contextlib.suppress(StoreFull):
                await within(redis.set(key, own, px=MEMORY_TTL_MS, nx=True))
            word = await within(redis.get(key))
        return f"{facts['run_id']} {(word or b'').decode()}"

    async def ended(self, turn_ids: list[str]) -> set[str]:
        """Which of these turns have ended, or are unknown.

        One that was taken in has not while the turn that has its words goes on.
        """
        ended: set[str] = set()
        holders = {turn_id: turn_id for turn_id in turn_ids}
        while holders:
            async with self._queue.redis.pipeline(transaction=False) as pipe:
                for holder in holders.values():
                    pipe.hmget(self._queue.keys.turn(holder), ["state", "into"])
                rows: list[list[bytes | None]] = await within(pipe.execute())
            further: dict[str, str] = {}
            for turn_id, (state, into) in zip(holders, rows, strict=True):
                if into is not None:
                    further[turn_id] = into.decode()
                elif state is None or state.decode() in ENDS:
                    ended.add(turn_id)
            holders = further
        return ended

    async def cancel(self, turn_id: str) -> None:
        """Stops a turn whose answer nobody can see."""
        await self._queue.cancel(turn_id)

    async def silent(self) -> list[tuple[str, Route]]:
        """The turns that nothing is shown of yet, at most `SILENT_MAX`: somebody waits for each.

        A server that is away has none, and neither has one of another version.
        """
        keys, redis = self._queue.keys, self._queue.redis
        try:
            async with redis.pipeline(transaction=False) as pipe:
                for place in (keys.leases, keys.waiting):
                    pipe.zrange(place, 0, SILENT_MAX)
                running, waiting = await within(pipe.execute())
            turn_ids = [found.decode() for found in (*running, *waiting)][:SILENT_MAX]
            async with redis.pipeline(transaction=False) as pipe:
                for turn_id in turn_ids:
                    pipe.hmget(keys.turn(turn_id), ["shown", "route"])
                facts = await within(pipe.execute())
            return [
                (turn_id, decode_route(route))
                for turn_id, (shown, route) in zip(turn_ids, facts, strict=True)
                if shown == b"0" and route is not None
            ]
        except (StoreUnavailable, StoreFull, WireError):
            return []

    async def withdraw(self, turn_id: str) -> None:
        """Takes a prompt back; a turn that answers nothing else is stopped without a word."""
        await self._parts.withdraw(turn_id)

    async def amend(self, turn_id: str, text: str) -> bool:
        """Puts other words in the place of a prompt that waits; False when none does."""
        return await self._parts.amend(turn_id, text)

    async def block_channel(self, channel_id: int) -> None:
        """Marks a channel as refusing for `SEND_BLOCK_TTL_MS`."""
        key = self._queue.keys.send_block(channel_id)
        await within(self._queue.redis.set(key, "1", px=SEND_BLOCK_TTL_MS))

    async def unblock_channel(self, channel_id: int) -> None:
        """Takes the mark away: something about the channel's permissions changed."""
        keys = self._queue.keys
        await within(
            self._queue.redis.delete(keys.send_block(channel_id), keys.no_files(channel_id))
        )

    async def refuse_files(self, channel_id: int) -> None:
        """Remembers that a channel takes no files."""
        key = self._queue.keys.no_files(channel_id)
        await within(self._queue.redis.set(key, "1", px=NO_FILES_TTL_MS))

    async def takes_files(self, channel_id: int) -> bool:
        """Whether files may be tried in a channel."""
        left_ms: int = await within(self._queue.redis.pttl(self._queue.keys.no_files(channel_id)))
        return not 0 < left_ms <= NO_FILES_TTL_MS  # longer: the server's clock was set back since

    async def picture(self, picture_id: str) -> bytes | None:
        """A picture that a worker has kept; None when it is gone."""
        key = self._queue.keys.picture(picture_id)
        data: bytes | None = await within(self._queue.redis.get(key))
        try:
            return None if data is None else opened(data)
        except WireError:
            return None  # sealed with a key that is not here any more

    async def keep_source(self, name: str, table: KeptTable) -> None:
        """Keeps the source of a drawn table for whoever asks to see it."""
        key = self._queue.keys.table_source(name)
        await within(self._queue.redis.set(key, encode_json(table), px=SOURCE_TTL_MS))


def _mark(shard: int, count: int) -> bytes:
    return f"{shard}/{count}".encode()


class RedisMarks:
    """Marks of the Discord front that outlive the process."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys

    async def alive_ms(self, shard: int, count: int) -> int | None:
        """Until when everything of a shard was received and taken."""
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.hgetall(self._keys.front("marks"))
            pipe.get(self._keys.front("alive"))  # of a version that had one mark for all
            answer = await within(pipe.execute())
        rows, whole = cast("tuple[dict[bytes, bytes], bytes | None]", answer)
        own = rows.get(_mark(shard, count))
        if own is not None:
            return int(own)
        by_count: dict[bytes, list[int]] = {}
        for name, ms in rows.items():
            by_count.setdefault(name.partition(b"/")[2], []).append(int(ms))
        marks = [min(found) for found in by_count.values()]
        return max(marks, default=None if whole is None else int(whole))

    async def note_alive(self, shard: int, count: int, ms: int) -> None:
        """Writes the same."""
        key = self._keys.front("marks")
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(key, _mark(shard, count).decode(), str(ms))
            pipe.pexpire(key, FRONT_TTL_MS)
            await within(pipe.execute())

    async def direct_channels(self) -> list[int]:
        """Channels of direct messages, the latest first."""
        found: list[bytes] = await within(self._redis.zrevrange(self._keys.front("dm"), 0, -1))
        return [int(channel_id) for channel_id in found]

    async def note_direct_channel(self, channel_id: int) -> None:
        """Remembers one, and forgets the oldest of too many."""
        key = self._keys.front("dm")
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.zadd(key, {str(channel_id): time.time_ns() // 1_000_000})
            pipe.zremrangebyrank(key, 0, -DIRECT_CHANNELS_MAX - 1)
            pipe.pexpire(key, FRONT_TTL_MS)
            await within(pipe.execute())

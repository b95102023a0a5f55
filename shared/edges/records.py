"""Records of turns and processes in Redis: what intake, operators and replay read and keep.

Comes in: ids and bytes. Goes out: values. Edges, composition roots and ops import it. Nothing here
moves a turn; `shared.edges.queue` does.
"""

import contextlib
import os
import socket
from collections.abc import AsyncIterator, Sequence

import msgspec
from redis.asyncio import Redis

from shared import __version__, lifetimes
from shared.at_rest import opened, sealed
from shared.edges.queue import TurnFacts
from shared.edges.redis import within
from shared.errors import StoreFull, WireError
from shared.failures import FaultDetails
from shared.keys import Keys
from shared.segments import TurnDone, TurnFailed
from shared.thoughts import KeptThoughts
from shared.turns import Route, TurnOutcome, TurnRequest, TurnState
from shared.wire import (
    UNREADABLE,
    decode_fault_details,
    decode_outcome,
    decode_route,
    decode_turn_event,
    decode_turn_request,
)

PAGE_TURNS = 200
"""Records that a listing fetches in one round trip."""
DECLINED = "declined"
"""In the mark of a prompt that became no turn; an admission's own nonce is hexadecimal."""

_facts = msgspec.json.Decoder(TurnFacts)
_thoughts = msgspec.json.Decoder(KeptThoughts)


class TimelineEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One move of a turn: `admitted`, `claimed`, `next`, `released`, `crashed`, or an end state."""

    at_ms: int
    word: str
    attempt: int
    who: str


class TurnRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What Redis knows of a turn. `event` and `outcome` are there once it has ended."""

    turn_id: str
    state: TurnState
    attempt: int
    claim: str
    seq: int
    crashes: int
    worker_id: str
    is_stopping: bool
    enqueued_ms: int
    claimed_ms: int | None
    finished_ms: int | None
    route: Route
    facts: TurnFacts
    event: TurnDone | TurnFailed | None = None
    outcome: TurnOutcome | None = None


class FleetLoad(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is to do: what a scaler and the console look at."""

    queued: int
    running: int

    @property
    def load(self) -> int:
        """Queued and running turns."""
        return self.queued + self.running


class ProcessRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A process's own account of itself, gone after `PROCESS_TTL_MS` without another."""

    process_id: str
    role: str
    host: str
    pid: int
    version: str
    started_ms: int
    seen_ms: int
    slots: int = 0
    running: int = 0
    config_digest: str = ""
    config_error: str = ""
    """What is wrong with the file since; the process runs with an older one."""
    is_draining: bool = False
    loop_lag_ms: int = 0
    trouble: str = ""
    """What keeps it from its work, in a sentence."""
    is_cordoned: bool = False
    looked_ms: int = 0
    """Milliseconds since it last looked for turns and was answered, or had no slot to look for."""


class _Shown(msgspec.Struct, frozen=True):
    """What is read here of a slot of the gateway's journal."""

    message_id: int | None = None


_process = msgspec.json.Decoder(ProcessRecord)
_shown = msgspec.json.Decoder(_Shown)
_encode = msgspec.json.Encoder().encode


def this_process(process_id: str, role: str, *, started_ms: int, now_ms: int) -> ProcessRecord:
    """The account of the process that asks; a worker adds its own facts."""
    return ProcessRecord(
        process_id=process_id,
        role=role,
        host=socket.gethostname(),
        pid=os.getpid(),
        version=__version__,
        started_ms=started_ms,
        seen_ms=now_ms,
    )


class TurnRecords:
    """The records of one cell. All methods raise `StoreUnavailable` when nobody answers."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys
        self.unread = 0
        """Records that the last listing passed over, since this version cannot read them."""

    async def state(self, turn_id: str) -> TurnState | None:
        """Where a turn stands; None when nothing is known of it (any more)."""
        word: bytes | None = await within(self._redis.hget(self._keys.turn(turn_id), "state"))
        return TurnState(word.decode()) if word else None

    async def turn(self, turn_id: str) -> TurnRecord | None:
        """The record of a turn.

        Raises:
            WireError: it cannot be read by this version; a listing passes it over.
        """
        fields: dict[bytes, bytes] = await within(self._redis.hgetall(self._keys.turn(turn_id)))
        return _record(turn_id, fields) if b"state" in fields else None

    async def request(self, turn_id: str) -> TurnRequest | None:
        """The request of a turn that is queued, runs or failed.

        Raises:
            WireError: it cannot be read by this version.
        """
        payload: bytes | None = await within(self._redis.hget(self._keys.turn(turn_id), "request"))
        return decode_turn_request(payload) if payload else None

    async def timeline(self, turn_id: str) -> list[TimelineEntry]:
        """What happened to a turn, in order."""
        rows: list[bytes] = await within(self._redis.lrange(self._keys.timeline(turn_id), 0, -1))
        return [_timeline_entry(row.decode()) for row in rows]

    async def failed(
        self, *, since_ms: int = 0, until_ms: int | None = None
    ) -> AsyncIterator[TurnRecord]:
        """Failed and dead turns, the latest first; a caller filters by what the record has."""
        top = "+inf" if until_ms is None else until_ms
        start = self.unread = 0
        while True:
            ids: list[bytes] = await within(
                self._redis.zrevrangebyscore(
                    self._keys.failed, top, since_ms, start=start, num=PAGE_TURNS
                )
            )
            for record in await self._fetch([tid.decode() for tid in ids]):
                yield record
            if len(ids) < PAGE_TURNS:
                return
            start += PAGE_TURNS

    async def is_known(self, turn_id: str) -> bool:
        """Whether a prompt became a turn or was declined, as far back as its mark lives."""
        found: int = await within(self._redis.exists(self._keys.mark(turn_id)))
        return found == 1

    async def admitted(self, turn_ids: Sequence[str]) -> set[str]:
        """Which turns of these ids were taken, as far back as their marks live."""
        taken: set[str] = set()
        for start in range(0, len(turn_ids), PAGE_TURNS):
            page = turn_ids[start : start + PAGE_TURNS]
            async with self._redis.pipeline(transaction=False) as pipe:
                for turn_id in page:
                    pipe.exists(self._keys.mark(turn_id))
                marks: list[int] = await within(pipe.execute())
            taken.update(turn_id for turn_id, is_there in zip(page, marks, strict=True) if is_there)
        return taken

    async def decline(self, turn_id: str) -> None:
        """Notes that a prompt was answered with a notice: admission takes it for a duplicate.

        A server without memory notes nothing: the notice may then be said once more.
        """
        mark = self._keys.mark(turn_id)
        with contextlib.suppress(StoreFull):
            await within(self._redis.set(mark, DECLINED, px=lifetimes.MARK_TTL_MS, nx=True))

    async def keep_mark(self, turn_id: str) -> None:
        """Refuses a second turn of this id for as long as a failed one is kept."""
        await within(self._redis.pexpire(self._keys.mark(turn_id), lifetimes.FAILED_TTL_MS))

    async def message_ids(self, turn_id: str) -> list[int]:
        """The messages that the gateway has shown for a turn, in order, as its journal has them."""
        fields: dict[bytes, bytes] = await within(self._redis.hgetall(self._keys.journal(turn_id)))
        slots = [fields[name] for name in sorted(fields.keys() - {b"head"}, key=int)]
        return [number for slot in slots if (number := _shown.decode(slot).message_id)]

    async def is_blocked(self, channel_id: int) -> bool:
        """Whether a channel has refused what we say, lately."""
        left_ms: int = await within(self._redis.pttl(self._keys.send_block(channel_id)))
        # One that lives longer than it may is older than a clock that was set back since.
        return 0 < left_ms <= lifetimes.SEND_BLOCK_TTL_MS

    async def running(self) -> list[TurnRecord]:
        """The turns that run now, by the end of their lease."""
        self.unread = 0
        ids: list[bytes] = await within(self._redis.zrange(self._keys.leases, 0, -1))
        return await self._fetch([tid.decode() for tid in ids])

    async def waiting(self) -> AsyncIterator[TurnRecord]:
        """The turns that wait, whatever for, by their deadline: about the oldest first.

        Page by page, since each has its whole request: of turns that start meanwhile some may be
        passed over.
        """
        start = self.unread = 0
        while True:
            end = start + PAGE_TURNS - 1
            ids: list[bytes] = await within(self._redis.zrange(self._keys.waiting, start, end))
            for record in await self._fetch([tid.decode() for tid in ids]):
                yield record
            if len(ids) < PAGE_TURNS:
                return
            start += PAGE_TURNS

    async def load(self) -> FleetLoad:
        """How many turns wait and run."""
        depth: bytes | None = await within(self._redis.hget(self._keys.totals, "depth"))
        running: int = await within(self._redis.zcard(self._keys.leases))
        return FleetLoad(queued=max(0, int(depth or 0) - running), running=running)

    async def save_recording(self, turn_id: str, attempt: int, payload: bytes) -> None:
        """Keeps the recording of an attempt for as long as a failed turn is kept."""
        key = self._keys.recording(turn_id, attempt)
        await within(self._redis.set(key, sealed(payload), px=lifetimes.FAILED_TTL_MS))

    async def load_recording(self, turn_id: str, attempt: int) -> bytes | None:
        """The recording of an attempt. Raises `WireError` where it is sealed with another key."""
        payload: bytes | None = await within(
            self._redis.get(self._keys.recording(turn_id, attempt))
        )
        return None if payload is None else opened(payload)

    async def save_picture(self, picture_id: str, data: bytes) -> None:
        """Keeps a picture for as long as delivery may ask for it."""
        key = self._keys.picture(picture_id)
        await within(self._redis.set(key, sealed(data), px=lifetimes.PICTURE_TTL_MS))

    async def save_details(self, report_id: str, details: FaultDetails) -> None:
        """Keeps what "Show full error" may open, for as long as a failed turn is kept."""
        key = self._keys.fault(report_id)
        await within(self._redis.set(key, _encode(details), px=lifetimes.FAULT_TTL_MS))

    async def details(self, report_id: str) -> FaultDetails | None:
        """What "Show full error" may open; None when it has expired."""
        payload: bytes | None = await within(self._redis.get(self._keys.fault(report_id)))
        return decode_fault_details(payload) if payload else None

    async def save_thoughts(self, turn_id: str, kept: KeptThoughts, keep_s: int) -> None:
        """Keeps what the model thought before a reply, as long as its guild lets it be kept."""
        await within(self._redis.set(self._keys.thoughts(turn_id), _encode(kept), ex=keep_s))

    async def thoughts(self, turn_id: str) -> KeptThoughts | None:
        """What the model thought before a reply; None when it has expired."""
        payload: bytes | None = await within(self._redis.get(self._keys.thoughts(turn_id)))
        try:
            return None if payload is None else _thoughts.decode(payload)
        except UNREADABLE:
            return None  # of another version

    async def may_tell(self, channel_id: int, word: str) -> bool:
        """Whether a channel was not told this lately; from now on it was."""
        key = self._keys.told(channel_id, word)
        is_new = await within(self._redis.set(key, "1", px=lifetimes.TOLD_TTL_MS, nx=True))
        return bool(is_new)

    async def report_process(self, record: ProcessRecord) -> None:
        """Says that a process lives."""
        oldest = record.seen_ms - 10 * lifetimes.PROCESS_TTL_MS
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.set(
                self._keys.heartbeat(record.process_id),
                _encode(record),
                px=lifetimes.PROCESS_TTL_MS,
            )
            pipe.zadd(self._keys.processes, {record.process_id: record.seen_ms})
            pipe.zremrangebyscore(self._keys.processes, "-inf", oldest)
            await within(pipe.execute())

    async def forget_process(self, process_id: str) -> None:
        """Removes a process that ends in order."""
        await within(self._redis.delete(self._keys.heartbeat(process_id)))
        await within(self._redis.zrem(self._keys.processes, process_id))

    async def processes(self) -> list[ProcessRecord]:
        """The processes that live."""
        ids: list[bytes] = await within(self._redis.zrange(self._keys.processes, 0, -1))
        if not ids:
            return []
        names = [self._keys.heartbeat(process_id.decode()) for process_id in ids]
        rows: list[bytes | None] = await within(self._redis.mget(names))
        return [_process.decode(row) for row in rows if row]

    async def _fetch(self, ids: list[str]) -> list[TurnRecord]:
        if not ids:
            return []
        async with self._redis.pipeline(transaction=False) as pipe:
            for turn_id in ids:
                pipe.hgetall(self._keys.turn(turn_id))
            rows: list[dict[bytes, bytes]] = await within(pipe.execute())
        found: list[TurnRecord] = []
        for turn_id, fields in zip(ids, rows, strict=True):
            if b"state" in fields:
                try:
                    found.append(_record(turn_id, fields))
                except WireError:
                    self.unread += 1
        return found


def _record(turn_id: str, fields: dict[bytes, bytes]) -> TurnRecord:
    try:
        return _read(turn_id, fields)
    except (WireError, *UNREADABLE, KeyError, ValueError) as exc:
        raise WireError(f"this version cannot read the record of turn {turn_id}: {exc}") from exc


def _read(turn_id: str, fields: dict[bytes, bytes]) -> TurnRecord:
    event = fields.get(b"event")
    outcome = fields.get(b"outcome")
    ended = decode_turn_event(event) if event else None
    return TurnRecord(
        turn_id=turn_id,
        state=TurnState(fields[b"state"].decode()),
        attempt=int(fields[b"attempt"]),
        claim=fields[b"claim"].decode(),
        seq=int(fields[b"seq"]),
        crashes=int(fields[b"crashes"]),
        worker_id=fields[b"worker"].decode(),
        is_stopping=fields[b"cancel"] == b"1",
        enqueued_ms=int(fields[b"enqueued"]),
        claimed_ms=_number(fields.get(b"claimed")),
        finished_ms=_number(fields.get(b"finished")),
        route=decode_route(fields[b"route"]),
        facts=_facts.decode(fields[b"facts"]),
        event=ended if isinstance(ended, TurnDone | TurnFailed) else None,
        outcome=decode_outcome(outcome) if outcome else None,
    )


def _number(text: bytes | None) -> int | None:
    return int(text) if text else None


def _timeline_entry(line: str) -> TimelineEntry:
    at_ms, word, attempt, who = line.split(" ", 3)
    return TimelineEntry(at_ms=int(at_ms), word=word, attempt=int(attempt), who=who)

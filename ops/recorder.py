"""The recorder: error reports from the stream into the database, each once.

Comes in: entries of the errors stream, of any process of the fleet. Goes out: rows; entries that
nobody can store go to the stream of the buried. An entry is acknowledged (and removed: the stream
is never trimmed by length) after its row is committed, and the report's id makes a second delivery
harmless, so that neither a killed recorder nor two at once lose or double anything. While the
database is away the entries wait in the stream, and the oldest of them in files once they take more
of Redis's memory than they may. The command `turnfleet recorder` runs it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import msgspec

from shared.edges.streams import Entry, GroupReader
from shared.errors import StoreError, StoreRejected, WireError
from shared.failures import ErrorReport
from shared.logs import fields
from shared.summaries import TurnSummary
from shared.wire import decode_report, decode_summary

BATCH: Final = 200
"""Reports of one transaction: 10 ms on SQLite, 20 ms on PostgreSQL."""
READ_BLOCK_S: Final = 1.0
"""How long a read waits for the first report, and so how soon a stop is noticed."""
CLAIM_EVERY_S: Final = 30.0
CLAIM_IDLE_MS: Final = 60_000
"""After this long an unacknowledged entry of another recorder is taken over: it is dead, or waits
for the database as this one does, and then the row is written once anyway."""
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
"""Between attempts while the database is away: quick after a restart, quiet in a long outage."""
BOUND_EVERY_S: Final = 5.0
"""How often the stream's size is looked at: 1,000 failures a second make 10 MB meanwhile."""
BOUND_BYTES: Final = 256 * 1024 * 1024
"""What waiting reports may take of Redis: some 100,000 of them, hours of an outage."""
RELIEF: Final = 0.9
"""Down to this part of the bound, so that a file holds many entries."""

Reported = ErrorReport | TurnSummary
"""What the errors stream carries: failures, and how turns ended."""


class Shelf(Protocol):
    """Where reports wait that Redis cannot hold."""

    async def keep(self, reports: Sequence[Reported]) -> bool:
        """Puts reports on the disk; whether they are there now. Does not raise."""
        ...

    async def bring_back(self) -> None:
        """Stores what is kept, if anything is. Raises `StoreError`; it is then still kept."""
        ...


Write = Callable[[Sequence[Reported]], Awaitable[int]]
"""Stores reports in one transaction and returns how many were new."""

_log = logging.getLogger(__name__)


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How the recorder waits. Tests are in more of a hurry."""

    read_block_s: float = READ_BLOCK_S
    claim_every_s: float = CLAIM_EVERY_S
    claim_idle_ms: int = CLAIM_IDLE_MS
    first_pause_s: float = FIRST_PAUSE_S
    longest_pause_s: float = LONGEST_PAUSE_S
    bound_every_s: float = BOUND_EVERY_S


class Recorder:
    """Writes what the fleet reports.

    Args:
        reader: of the errors stream, in the recorders' group.
        write: stores a batch, whole or not at all.
        prepare: brings the database to this version's schema; repeated until it succeeds.
        buried: the stream for entries that cannot be stored.
        jitter: a factor around 1 for each pause, so that two recorders do not knock together.
        pace: how long to wait for what.
        shelf: where reports go that Redis cannot hold; None keeps all of them there.
        bound_bytes: what they may take of Redis's memory.
    """

    def __init__(
        self,
        reader: GroupReader,
        write: Write,
        prepare: Callable[[], Awaitable[object]],
        *,
        buried: str,
        jitter: Callable[[], float] = lambda: 1.0,
        pace: Pace | None = None,
        shelf: Shelf | None = None,
        bound_bytes: int = BOUND_BYTES,
    ) -> None:
        self._reader = reader
        self._write = write
        self._prepare = prepare
        self._buried = buried
        self._jitter = jitter
        self._pace = pace or Pace()
        self._is_prepared = False
        self._shelf = shelf
        self._bound_bytes = bound_bytes
        self._next_bound_s = float("-inf")
        self._pauses = 0
        self.shelved = 0
        """Reports that were moved into files."""
        self.trouble = ""
        """Why nothing is recorded now, in a sentence."""
        self.written = 0
        """Rows that were new."""
        self.buried = 0
        """Entries that could not be read or stored."""

    async def run(self, stop: asyncio.Event) -> None:
        """Records until `stop` is set. A cancelled run leaves its entries in the stream."""
        loop = asyncio.get_running_loop()
        next_claim_s = loop.time()
        while not stop.is_set():
            try:
                if not self._is_prepared:
                    await self._prepare()
                    self._is_prepared = True
                await self._keep_bound()
                if loop.time() >= next_claim_s:
                    await self._take_over()
                    if self._shelf is not None:
                        await self._shelf.bring_back()
                    next_claim_s = loop.time() + self._pace.claim_every_s
                await self._record(
                    await self._reader.read(block_s=self._pace.read_block_s, count=BATCH)
                )
            except StoreError as exc:
                # Redis or the database: what was read comes again, as own pending entries.
                self._reader.rewind()
                await self._pause(stop, exc)
            else:
                self._recovered()

    async def _take_over(self) -> None:
        idle_ms = self._pace.claim_idle_ms
        while entries := await self._reader.take_over(idle_ms=idle_ms, count=BATCH):
            _log.warning("recorder.took_over", extra=fields(entries=len(entries)))
            await self._record(entries)

    async def _keep_bound(self) -> None:
        """Moves the oldest entries into files while the stream is larger than it may be.

        An entry leaves the stream when its file is on the disk. What another recorder has in hand
        may then be stored twice, once from each: the ids make that harmless.
        """
        now_s = asyncio.get_running_loop().time()
        if self._shelf is None or now_s < self._next_bound_s:
            return
        self._next_bound_s = now_s + self._pace.bound_every_s
        if await self._reader.memory() <= self._bound_bytes:
            return
        while await self._reader.memory() > self._bound_bytes * RELIEF:
            entries = await self._reader.oldest(BATCH * 5)
            if not entries:
                return
            readable = await self._readable(entries)
            if readable and not await self._shelf.keep([one for _, one in readable]):
                return
            self.shelved += len(readable)
            await self._reader.ack([entry.id for entry, _ in readable])

    async def _record(self, entries: list[Entry]) -> None:
        if readable := await self._readable(entries):
            await self._store(readable)

    async def _readable(self, entries: list[Entry]) -> list[tuple[Entry, Reported]]:
        readable: list[tuple[Entry, Reported]] = []
        for entry in entries:
            try:
                readable.append((entry, _reported(entry)))
            except WireError as exc:
                await self._bury(entry, str(exc))
        return readable

    async def _store(self, batch: list[tuple[Entry, Reported]]) -> None:
        """Stores the batch; when it is refused, its halves, down to the entry that is at fault."""
        try:
            self.written += await self._write([report for _, report in batch])
        except StoreRejected as exc:
            if len(batch) == 1:
                await self._bury(batch[0][0], str(exc))
                return
            middle = len(batch) // 2
            await self._store(batch[:middle])
            await self._store(batch[middle:])
            return
        await self._reader.ack([entry.id for entry, _ in batch])

    async def _bury(self, entry: Entry, reason: str) -> None:
        await self._reader.bury(entry, reason, self._buried)
        self.buried += 1
        _log.error("recorder.buried", extra=fields(entry=entry.id, reason=reason))

    async def _pause(self, stop: asyncio.Event, why: StoreError) -> None:
        if self._pauses == 0:
            _log.warning("recorder.waiting", extra=fields(why=str(why)))
        pace, loop = self._pace, asyncio.get_running_loop()
        self.trouble = str(why)
        pause_s = min(pace.first_pause_s * 2.0**self._pauses, pace.longest_pause_s)
        self._pauses += 1
        end_s = loop.time() + pause_s * self._jitter()
        while not stop.is_set() and (left_s := end_s - loop.time()) > 0:
            with contextlib.suppress(StoreError):
                await self._keep_bound()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left_s, pace.bound_every_s)):
                    await stop.wait()

    def _recovered(self) -> None:
        if self._pauses:
            _log.warning("recorder.recovered", extra=fields(pauses=self._pauses))
        self._pauses = 0
        self.trouble = ""


def _reported(entry: Entry) -> Reported:
    """What an entry says: a summary under `t`, else a report. Raises `WireError`."""
    if b"t" in entry.fields:
        return decode_summary(entry.fields[b"t"])
    return decode_report(entry.fields.get(b"v", b""))

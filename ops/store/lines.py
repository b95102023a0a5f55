"""Reports as lines of text: a spool, an overflow, or the JSON log of any process.

Comes in: NDJSON. Goes out: reports and summaries, and rows of the database, each once, however
often a line is read. `errors import` and the recorder use it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby, islice
from pathlib import Path
from typing import Final

import msgspec

from ops.store.engine import Database
from ops.store.errors import Record, write_reports
from ops.store.forgotten import without
from ops.store.overflow import Overflow
from ops.store.retention import RULES
from shared.errors import StoreRejected, WireError
from shared.failures import ErrorReport
from shared.logs import fields
from shared.summaries import TurnSummary
from shared.wire import UNREADABLE, decode_report, decode_summary, encode_json

BATCH: Final = 200
OLDEST: Final = max(rule.keep for rule in RULES)
"""As long as anything is kept: a line that is older than this, or has a clock that is wrong, has no
time of its own."""
_HALF_DAY_MS: Final = 43_200_000
_LOGGED: Final = frozenset({"failure.reported", "failure.expected"})


_log = logging.getLogger(__name__)


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """What became of lines: `new` rows of `error_logs`, `records` that were read, `bad` lines."""

    records: int = 0
    new: int = 0
    bad: int = 0
    others: int = 0
    """Lines of a log that are about something else."""
    old: int = 0
    """Lines that are older than anything is kept."""

    def plus(self, more: "Imported") -> "Imported":
        """Both together."""
        return Imported(
            records=self.records + more.records,
            new=self.new + more.new,
            bad=self.bad + more.bad,
            others=self.others + more.others,
            old=self.old + more.old,
        )


class _Peek(msgspec.Struct):
    """What tells the kinds of lines apart."""

    msg: str | None = None
    error_type: str | None = None
    ended_ms: int | None = None


_peek = msgspec.json.Decoder(_Peek)
_logged = msgspec.json.Decoder(ErrorReport, strict=False)
"""Logs have ids as text, since some readers of JSON keep 53 bits."""


def record_of(line: bytes) -> Record | None:
    """What a line says; None where it is a log line about something else.

    Raises:
        WireError: it is no JSON object, or one that is neither.
    """
    try:
        seen = _peek.decode(line)
    except (*UNREADABLE, UnicodeDecodeError) as exc:
        raise WireError(f"no JSON object of ours: {exc}") from exc
    if seen.ended_ms is not None and seen.error_type is None and seen.msg is None:
        return decode_summary(line)
    if seen.msg is None:
        return decode_report(line)
    if seen.msg not in _LOGGED:
        return None
    try:
        return _logged.decode(line)
    except UNREADABLE as exc:
        raise WireError(f"no report in this line of a log: {exc}") from exc


async def import_lines(
    database: Database,
    lines: Iterable[bytes],
    now: datetime,
    *,
    forgotten: Collection[str] = (),
    refuse_old: bool = False,
) -> Imported:
    """Stores what lines say. A cancelled call has stored whole batches; again, it goes on.

    Args:
        database: that may be written.
        lines: NDJSON.
        now: for lines whose clock is not credible.
        forgotten: digests of people and guilds who are taken out of them.
        refuse_old: leaves out what is older than anything is kept; else it is of now.

    Raises:
        StoreUnavailable: the database cannot now.
    """
    total = Imported()
    remaining = iter(lines)
    while chunk := list(islice(remaining, BATCH)):
        records: list[Record] = []
        bad = others = 0
        for line in chunk:
            if not line.strip():
                continue
            try:
                record = record_of(line)
            except WireError:
                bad += 1
                continue
            others += record is None
            if record is not None:
                records.append(record)
        kept = [one for one in records if not (refuse_old and _is_old(one, now))]
        new, refused = await _store(database, without(kept, forgotten), now)
        done = Imported(records=len(kept) - refused, new=new, bad=bad + refused, others=others)
        total = total.plus(done).plus(Imported(old=len(records) - len(kept)))
        await asyncio.sleep(0)
    return total


async def _store(database: Database, records: list[Record], now: datetime) -> tuple[int, int]:
    """Writes records as of when they happened. Returns how many were new, and how many refused."""
    new = refused = 0
    for received, part in _by_half_day(records, now):
        added, lost = await _halved(database, part, received)
        new, refused = new + added, refused + lost
    return new, refused


async def _halved(database: Database, part: list[Record], received: datetime) -> tuple[int, int]:
    try:
        return await write_reports(database, part, received), 0
    except StoreRejected:
        if len(part) == 1:
            return 0, 1
    middle = len(part) // 2
    left = await _halved(database, part[:middle], received)
    right = await _halved(database, part[middle:], received)
    return left[0] + right[0], left[1] + right[1]


def _by_half_day(records: list[Record], now: datetime) -> Iterator[tuple[datetime, list[Record]]]:
    """Parts that are near enough to one moment for the store to believe their clocks."""

    def half_day(record: Record) -> int:
        return _at_ms(record) // _HALF_DAY_MS

    oldest_ms, now_ms = (int(at.timestamp() * 1000) for at in (now - OLDEST, now))
    for number, part in groupby(sorted(records, key=half_day), key=half_day):
        end_ms = (number + 1) * _HALF_DAY_MS
        is_credible = oldest_ms < end_ms < now_ms
        yield (datetime.fromtimestamp(end_ms / 1000, UTC) if is_credible else now), list(part)


def _is_old(record: Record, now: datetime) -> bool:
    return _at_ms(record) < int((now - OLDEST).timestamp() * 1000)


def _at_ms(record: Record) -> int:
    return record.ended_ms if isinstance(record, TurnSummary) else record.created_ms


class FileShelf:
    """Reports in files, and from there into the database: the recorder's `Shelf`.

    Args:
        overflow: the files.
        database: where they belong.
        forgotten: tells who was forgotten since they were written, as digests.
    """

    def __init__(
        self,
        overflow: Overflow,
        database: Database,
        forgotten: Callable[[], Awaitable[frozenset[str]]],
    ) -> None:
        self._overflow = overflow
        self._database = database
        self._forgotten = forgotten
        self._stored: dict[Path, Imported] = {}
        """What came of files that are in the database, and perhaps still on the disk."""
        self.trouble = ""
        """Why files stay that should be gone, in a sentence."""

    async def keep(self, reports: Sequence[Record]) -> bool:
        """Puts reports on the disk; whether they are there now."""
        lines = [encode_json(one) for one in reports]
        try:
            path = await asyncio.to_thread(self._overflow.keep, lines)
        except OSError as exc:
            _log.error("recorder.not_shelved", extra=fields(why=str(exc)))
            return False
        _log.warning("recorder.shelved", extra=fields(reports=len(lines), file=path.name))
        return True

    async def bring_back(self) -> None:
        """Stores what is kept; a file with lines that nobody can store stays, under another name.

        What cannot be read, removed or renamed is told as `trouble`, and tried at the next call.

        Raises:
            StoreUnavailable: the database cannot now; the files are still there.
        """
        stuck: list[OSError] = []
        try:
            paths = await asyncio.to_thread(self._overflow.files)
        except OSError as exc:
            self._say(f"the files of reports cannot be listed: {exc}")
            return
        for path in paths:
            try:
                await self._bring_back(path)
            except FileNotFoundError:
                continue  # another recorder was faster
            except OSError as exc:
                stuck.append(exc)
        self._stored = {path: done for path, done in self._stored.items() if path in paths}
        self._say(f"{len(stuck)} files of reports stay on the disk: {stuck[0]}" if stuck else "")

    async def _bring_back(self, path: Path) -> None:
        done = self._stored.get(path)
        if done is None:
            lines = (await asyncio.to_thread(path.read_bytes)).splitlines()
            gone = await self._forgotten()
            done = await import_lines(self._database, lines, datetime.now(UTC), forgotten=gone)
            # A file that cannot be removed is not stored again and again: its rows may be
            # forgotten by then, and would come back.
            self._stored[path] = done
            _log.warning("recorder.brought_back", extra=fields(reports=done.records, bad=done.bad))
        if done.bad:
            await asyncio.to_thread(path.rename, path.with_suffix(".refused"))
        else:
            await asyncio.to_thread(path.unlink, missing_ok=True)

    def _say(self, trouble: str) -> None:
        if trouble and trouble != self.trouble:
            _log.error("recorder.not_removed", extra=fields(why=trouble))
        self.trouble = trouble

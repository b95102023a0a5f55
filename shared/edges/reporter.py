"""The way of an error report out of a process: a log line, and the errors stream or the spool.

Comes in: `ErrorReport` values. Goes out: one JSON log line each, and one entry of `Keys.errors`,
which the recorder turns into a row; while Redis is away, a line of the spool. Reporting never
raises, never blocks a turn for longer than `SEND_LIMIT_S`, and never reports on itself: its own
trouble goes to stderr, throttled. Workers, gateways and recorders build one each.
"""

import asyncio
import contextlib
import logging
import sys
import time
import traceback
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec
from redis.asyncio import Redis

from shared import __version__
from shared.config import Settings, data_dir
from shared.edges.redis import within
from shared.edges.spool import SPOOL, Spool, lines_of
from shared.errors import StoreUnavailable
from shared.failures import SNIPPET_CHARS, ErrorReport, Fault, ReportCategory, Severity
from shared.keys import Keys
from shared.logs import DIAGNOSTICS, OnCrash, fields, secrets_of
from shared.redaction import clean, clip, redact_counted, redact_value
from shared.secrets import Secret
from shared.summaries import TurnSummary
from shared.wire import encode_json

SEND_LIMIT_S: Final = 0.25
"""What a failing turn waits for Redis before its report goes to the disk."""
RESEND_LIMIT_S: Final = 5.0
"""What the background waits for Redis per line; longer means that it is still away."""
RESEND_EVERY_S: Final = 5.0
"""How soon after Redis is back the spool is sent."""
STACK_CHARS: Final = 16 * 1024
"""The end of a stack names the fault."""
WORD_CHARS: Final = 256
"""Model ids, hosts and codes; the longest known model id has 90."""
ENTRY_BYTES: Final = 48 * 1024
"""An entry of the stream: ten thousand of an outage are 480 MB at worst, 25 MB as a rule."""
COMPLAIN_EVERY_S: Final = 10.0
"""Lines on stderr about the reporter itself; the count tells what was between."""

Send = Callable[[bytes], Awaitable[None]]
OnReport = Callable[[ErrorReport], None]


def _nothing(_report: ErrorReport) -> None:
    """Tells nobody."""


_IDS = frozenset({"id", "turn_id", "worker_id", "worker_version", "key_id"})
_LIMITS = {"message": SNIPPET_CHARS, "stack_trace": STACK_CHARS}
_WINDOW_CHARS = 48 * 1024

_errors = logging.getLogger("turnfleet.errors")
_diagnostics = logging.getLogger(DIAGNOSTICS)


def stream_sender(redis: Redis, keys: Keys) -> Send:
    """A sender that appends to the errors stream."""

    async def send(payload: bytes) -> None:
        # No MAXLEN: it would drop the oldest, unread reports while the database is down.
        await redis.xadd(keys.errors, {"v": payload})

    return send


def summary_sender(redis: Redis, keys: Keys) -> Callable[[TurnSummary], Awaitable[None]]:
    """A sender of summaries: on the same stream, so that the same recorder counts each once.

    The sender raises `StoreUnavailable`; a summary that is lost is a turn less in the statistics.
    """

    async def send(summary: TurnSummary) -> None:
        await within(redis.xadd(keys.errors, {"t": encode_json(summary)}))

    return send


class Reporter:
    """Sends error reports. One per process, which `reporter_of` makes.

    Args:
        send: appends a payload to the errors stream, or raises.
        spool: keeps what `send` could not take.
        secrets: this process's own, removed from every text.
        send_limit_s: how long `report` waits for `send`.
        resend_every_s: how often the spool is tried again while it cannot be sent.
        on_report: told of every report that was taken, redacted; called from any thread.
    """

    def __init__(
        self,
        send: Send,
        spool: Spool,
        *,
        secrets: Iterable[Secret] = (),
        send_limit_s: float = SEND_LIMIT_S,
        resend_every_s: float = RESEND_EVERY_S,
        on_report: OnReport = _nothing,
    ) -> None:
        self._send = send
        self._spool = spool
        self._secrets = tuple(secrets)
        self._send_limit_s = send_limit_s
        self._resend_every_s = resend_every_s
        self._on_report = on_report
        self._spooled = asyncio.Event()
        self._complained_s = float("-inf")
        self._lost = 0

    @property
    def lost(self) -> int:
        """Reports that neither Redis nor the disk took; their log lines were still written."""
        return self._lost + self._spool.dropped

    async def report(self, report: ErrorReport, secrets: Iterable[Secret | str] = ()) -> None:
        """Logs the report and sends it to the recorder. Never raises, except when cancelled.

        A cancelled call leaves the report in the spool: the entry may then exist twice, and the
        recorder keeps one row per id.

        Args:
            report: the failed attempt or stage.
            secrets: those of the attempt, such as the key that was sent.
        """
        known = [*self._secrets, *secrets]
        try:
            # In a thread: a long stack takes a tenth of a second, and other turns stream meanwhile.
            payload = await asyncio.to_thread(self._prepared, report, known)
        except asyncio.CancelledError:
            if self._keep_now(report, known):
                self._spooled.set()
            raise
        except Exception as exc:  # noqa: BLE001 - a report must not take its turn down
            self._lose(exc)
            return
        await self._deliver(payload)

    def crashed(self, error: BaseException, where: str) -> None:
        """Keeps an uncaught exception as a report on the disk; `Logs` wrote its line already.

        Synchronous, because the process or its loop may be ending: the spool is sent at the next
        start, or by this process if it goes on.
        """
        report = ErrorReport(
            id=new_report_id(),
            created_ms=time.time_ns() // 1_000_000,
            severity=Severity.ERROR,
            category=ReportCategory.INTERNAL,
            error_type="uncaught",
            stage=where,
            fault=Fault.TURNFLEET,
            message=f"{type(error).__qualname__}: {error}",
            stack_trace="".join(traceback.format_exception(error)),
            worker_version=__version__,
        )
        # Only the loop's own thread may wake the task that sends.
        if self._keep_now(report, self._secrets) and where == "loop":
            self._spooled.set()

    async def resend(self) -> int:
        """Sends what the spool holds, of this process and of dead ones. Returns how many lines.

        Raises:
            Exception: whatever the sender raises; the file stays and is sent again. The recorder
                knows the ids, so nothing is doubled.
        """
        sent = 0
        for path in await asyncio.to_thread(self._spool.take):
            for line in await asyncio.to_thread(_all_lines, path):
                async with asyncio.timeout(RESEND_LIMIT_S):
                    await self._send(line)
                sent += 1
            await asyncio.to_thread(self._spool.discard, path)
        return sent

    async def run(self) -> None:
        """Sends the spool at start and whenever Redis is back; runs until it is cancelled."""
        self._spooled.set()
        while True:
            await self._spooled.wait()
            self._spooled.clear()
            try:
                sent = await self.resend()
            except Exception:  # noqa: BLE001 - still away; what was not sent stays on the disk
                self._spooled.set()
                await asyncio.sleep(self._resend_every_s)
                continue
            if sent:
                _errors.warning("reporter.resent", extra=fields(reports=sent))

    def close(self) -> None:
        """Gives the spool up; what is in it is sent by the next process."""
        self._spool.close()

    def _prepared(self, report: ErrorReport, secrets: list[Secret | str]) -> bytes:
        """Tidies the report, writes its log line, and encodes it."""
        tidy = tidied(report, secrets)
        write_line(tidy)
        self._on_report(tidy)
        return encode_json(tidy)

    async def _deliver(self, payload: bytes) -> None:
        try:
            async with asyncio.timeout(self._send_limit_s):
                await self._send(payload)
        except asyncio.CancelledError:
            if self._append(payload):
                self._spooled.set()
            raise
        except Exception:  # noqa: BLE001 - whatever Redis has, the disk takes it
            await self._keep(payload)

    async def _keep(self, payload: bytes) -> None:
        # A thread that has begun goes on when the turn is cancelled meanwhile.
        if await asyncio.to_thread(self._append, payload):
            self._spooled.set()

    def _keep_now(self, report: ErrorReport, secrets: Iterable[Secret | str]) -> bool:
        try:
            tidy = tidied(report, secrets)
            payload = encode_json(tidy)
            self._on_report(tidy)
        except Exception as exc:  # noqa: BLE001 - called from exception hooks and cancellations
            self._lose(exc)
            return False
        return self._append(payload)

    def _append(self, payload: bytes) -> bool:
        try:
            self._spool.append(payload)
        except Exception as exc:  # noqa: BLE001 - the disk is full: the log line is what is left
            self._lose(exc)
            return False
        return True

    def _lose(self, error: Exception) -> None:
        self._lost += 1
        now_s = time.monotonic()
        if now_s - self._complained_s < COMPLAIN_EVERY_S:
            return
        self._complained_s = now_s
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(
                f"turnfleet: {self._lost} error reports could not be kept "
                f"(last: {type(error).__name__}); their log lines were written\n"
            )


def _all_lines(path: Path) -> list[bytes]:
    return list(lines_of(path))


def reporter_of(
    settings: Settings,
    redis: Redis,
    keys: Keys,
    name: str,
    *,
    secrets: Iterable[Secret] = (),
    on_report: OnReport = _nothing,
) -> Reporter:
    """The reporter of a process. No text of it shows a secret of the settings.

    Args:
        settings: of the process.
        redis: a client for short commands.
        keys: of the cell.
        name: the process's, unique among living ones.
        secrets: others that it knows, such as provider keys.
        on_report: as of `Reporter`.

    Raises:
        ConfigError: the directory of the spool cannot be made.
    """
    return Reporter(
        stream_sender(redis, keys),
        Spool(data_dir(settings) / SPOOL, name),
        secrets=[*secrets_of(settings), *secrets],
        on_report=on_report,
    )


def crash_keeper(settings: Settings, name: str, secrets: Iterable[Secret] = ()) -> OnCrash:
    """Keeps what ended a process, for the next one that starts there and sends it.

    Args:
        settings: of the process.
        name: its own, unique among living ones.
        secrets: that it knows beside those of the settings.

    Raises:
        ConfigError: the directory of the spool cannot be made.
    """
    directory = data_dir(settings) / SPOOL
    known = (*secrets_of(settings), *secrets)

    def keep(error: BaseException, where: str) -> None:
        reporter = Reporter(_to_nobody, Spool(directory, name), secrets=known)
        reporter.crashed(error, where)
        reporter.close()

    return keep


async def _to_nobody(_payload: bytes) -> None:
    raise StoreUnavailable


def new_report_id() -> str:
    """A fresh id that sorts by time (UUID version 7, RFC 9562 section 5.7)."""
    stamp = (time.time_ns() // 1_000_000) << 80
    random = uuid.uuid4().int & ((1 << 76) - 1)
    value = stamp | (0x7 << 76) | (random & ~(0b11 << 62)) | (0b10 << 62)
    return str(uuid.UUID(int=value))


def write_line(report: ErrorReport) -> None:
    """Writes the report's log line: an expected failure passes at every configured level."""
    facts = {
        name: value for name, value in msgspec.structs.asdict(report).items() if value is not None
    }
    if report.severity is Severity.ERROR:
        _errors.error("failure.reported", extra=fields(**facts))
    else:
        _diagnostics.warning("failure.expected", extra=fields(**facts))


def tidied(report: ErrorReport, secrets: Iterable[Secret | str]) -> ErrorReport:
    """The report without secrets, unstorable characters and excess. Redaction comes before cuts."""
    known = tuple(secrets)
    counts: Counter[str] = Counter()
    changes: dict[str, object] = {}
    for name in report.__struct_fields__:
        value = getattr(report, name)
        if type(value) is str:
            changes[name] = _tidy_text(name, value, known, counts)
    metadata = redact_value(report.metadata, known)
    if counts:
        metadata = {**_as_dict(metadata), "redactions": dict(counts)}
    tidy = msgspec.structs.replace(report, **changes, metadata=metadata)
    return _fitted(tidy)


def _tidy_text(
    name: str, text: str, secrets: tuple[Secret | str, ...], counts: Counter[str]
) -> str:
    text = clean(text)
    limit = _LIMITS.get(name, WORD_CHARS)
    if name in _IDS:
        return text[:limit]
    if name == "stack_trace":
        text = text[-_WINDOW_CHARS:]
    found = redact_counted(text, secrets)
    counts.update(found.counts)
    if name == "stack_trace":
        return found.text[-limit:]
    return clip(found.text, limit)


def _fitted(report: ErrorReport) -> ErrorReport:
    size = len(encode_json(report))
    if size > ENTRY_BYTES:
        report = msgspec.structs.replace(report, metadata={"dropped_bytes": size})
    if len(encode_json(report)) > ENTRY_BYTES and report.stack_trace:
        stack = report.stack_trace[-STACK_CHARS // 4 :]
        report = msgspec.structs.replace(report, stack_trace=stack)
    return report


def _as_dict(value: object) -> dict[str, object]:
    return dict(value) if isinstance(value, dict) else {}

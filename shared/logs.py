"""Logs: one JSON object per line on stdout, from every process.

Comes in: records of the stdlib's `logging`, ours and those of libraries. Goes out: lines whose
`msg` is a constant dotted name, with the facts in fields, redacted. A writer thread keeps a blocked
stdout away from the event loop. The composition roots call `start_logs`; everyone else uses
`logging.getLogger(__name__)`, `fields` and `bound`.
"""

import asyncio
import contextlib
import copy
import logging
import queue
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from types import MappingProxyType, TracebackType
from typing import BinaryIO, Final

from shared.config import Settings
from shared.log_lines import JsonFormatter
from shared.secret_settings import HOLDERS, secrets_in
from shared.secrets import Secret
from shared.setting_rules import level_of

DIAGNOSTICS: Final = "turnfleet.diagnostics"
"""The logger of expected failures: its warnings pass at every configured level."""
QUEUE_LINES: Final = 10_000
"""Lines that may wait for a slow stdout: seconds of a busy worker, about 10 MB."""
CLOSE_S: Final = 5.0
"""What the writer thread gets to empty its queue when the process ends: a full one takes half of
it, and stdout may be blocked for good."""

QUIET: Final[Mapping[str, int]] = MappingProxyType(
    {
        "httpx": logging.WARNING,  # INFO has the whole URL, password and query included
        "httpx2": logging.WARNING,  # the same, under the MCP SDK
        "mcp": logging.WARNING,  # INFO has session ids
        "httpcore": logging.WARNING,  # DEBUG has request headers
        "arq": logging.WARNING,  # INFO has every job's arguments
        "hikari": logging.WARNING,  # DEBUG has payloads of the gateway
        "hpack": logging.WARNING,
        "asyncio": logging.WARNING,
        "sqlalchemy": logging.WARNING,  # INFO has the parameters of statements
        "aiosqlite": logging.WARNING,
        "alembic": logging.WARNING,
        "PIL": logging.WARNING,
    }
)
"""Libraries whose chatter leaks, and the level below which they stay silent at any setting."""

OnCrash = Callable[[BaseException, str], None]

_NOTHING: Mapping[str, object] = MappingProxyType({})
_bound: ContextVar[Mapping[str, object]] = ContextVar("turnfleet_log_facts", default=_NOTHING)


def fields(**facts: object) -> dict[str, object]:
    """The `extra` of a log call: `log.info("turn.finished", extra=fields(segments=3))`."""
    return {"fields": facts}


@contextlib.contextmanager
def bound(**facts: object) -> Iterator[None]:
    """Adds facts (turn_id, guild_id, provider, model) to every line of this task, until exit."""
    given = {name: value for name, value in facts.items() if value is not None}
    token = _bound.set({**_bound.get(), **given})
    try:
        yield
    finally:
        _bound.reset(token)


class _QueueHandler(logging.Handler):
    """Hands records to the writer thread, with the facts bound where the call was made."""

    def __init__(self, lines: "queue.Queue[logging.LogRecord | None]") -> None:
        super().__init__(logging.NOTSET)
        self._lines = lines
        self.dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        taken = copy.copy(record)
        taken.bound = _bound.get()
        try:
            self._lines.put_nowait(taken)
        except queue.Full:
            self.dropped += 1


class _Writer(threading.Thread):
    def __init__(
        self,
        lines: "queue.Queue[logging.LogRecord | None]",
        handler: _QueueHandler,
        formatter: JsonFormatter,
        stream: BinaryIO,
    ) -> None:
        super().__init__(name="turnfleet-logs", daemon=True)
        self._lines = lines
        self._handler = handler
        self._formatter = formatter
        self._stream = stream
        self._told = 0

    def run(self) -> None:
        while (record := self._lines.get()) is not None:
            self._write(self._formatter.line(record))
            if self._handler.dropped > self._told:
                self._tell()
        self._tell()

    def _tell(self) -> None:
        new = self._handler.dropped - self._told
        if new == 0:
            return
        self._told += new
        record = logging.makeLogRecord(
            {"name": __name__, "levelno": logging.ERROR, "levelname": "ERROR", "msg": "log.dropped"}
        )
        record.fields = {"lines": new}
        self._write(self._formatter.line(record))

    def _write(self, line: bytes) -> None:
        try:
            self._stream.write(line + b"\n")
            self._stream.flush()
        except (OSError, ValueError):
            # stdout is gone or closed: nobody reads, and there is no other place to say so.
            self._handler.dropped += 1
            self._told += 1


class Logs:
    """The running log pipeline of a process; `close` empties it and restores what was there."""

    def __init__(
        self,
        handler: _QueueHandler,
        writer: _Writer,
        undo: Callable[[], None],
        on_crash: OnCrash | None = None,
    ) -> None:
        self._handler = handler
        self._writer = writer
        self._undo = undo
        self._on_crash = on_crash

    @property
    def dropped(self) -> int:
        """Lines lost so far because stdout was blocked or gone."""
        return self._handler.dropped

    @contextlib.contextmanager
    def until_the_end(self, *expected: type[Exception]) -> Iterator[None]:
        """The whole rest of a process: what nobody expects becomes a line, and the exit code 1.

        Python's own traceback on stderr is bare: nothing is removed from it. So it never gets here.

        Args:
            expected: errors that the caller puts into words; a group of only these as well.
        """
        try:
            yield
        except Exception as exc:
            if isinstance(exc, expected) or _all_are(exc, expected):
                raise
            _crashed(exc, "main", self._on_crash)
            raise SystemExit(1) from None
        finally:
            self.close()

    def close(self) -> None:
        """Writes what waits, within `CLOSE_S`, and takes the pipeline down. Safe to call twice."""
        self._undo()
        with contextlib.suppress(queue.Full):
            self._writer._lines.put(None, timeout=CLOSE_S)
        self._writer.join(CLOSE_S)


def start_logs(
    process: str,
    settings: Settings,
    *,
    secrets: Iterable[Secret] = (),
    on_crash: OnCrash | None = None,
    stream: BinaryIO | None = None,
) -> Logs:
    """Sets the process's logging up: JSON on stdout, quiet libraries, hooks for what nobody caught.

    Args:
        process: the process's name, in every line.
        settings: level, truncation, and the passwords and tokens that no line may show.
        secrets: others that this process knows, such as provider keys.
        on_crash: told of an uncaught exception and where it arose, so that it becomes a report.
        stream: where lines go; None is stdout.

    Raises:
        SettingError: there is no such level.
    """
    level = level_of(settings.log_level)
    lines: queue.Queue[logging.LogRecord | None] = queue.Queue(QUEUE_LINES)
    handler = _QueueHandler(lines)
    formatter = JsonFormatter(
        process,
        secrets=[*secrets_of(settings), *secrets],
        max_string_chars=settings.log_max_string_chars,
    )
    writer = _Writer(lines, handler, formatter, stream or sys.stdout.buffer)
    undo = _install(handler, level, on_crash)
    writer.start()
    return Logs(handler, writer, undo, on_crash)


def secrets_of(settings: Settings) -> list[Secret]:
    """The secrets among the settings: tokens, keys, and the passwords in addresses."""
    texts = (text for name in HOLDERS for text in secrets_in(name, getattr(settings, name)))
    return [Secret(text) for text in dict.fromkeys(texts)]


def lines_dropped() -> int:
    """Lines that this process's logs lost so far; 0 where none were started."""
    handlers = logging.getLogger().handlers
    return sum(one.dropped for one in handlers if isinstance(one, _QueueHandler))


def watch_loop(loop: asyncio.AbstractEventLoop, on_crash: OnCrash | None = None) -> None:
    """Logs what escapes from tasks and callbacks of a loop as `process.crashed`."""

    def handle(_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        if isinstance(error, BaseException):
            _crashed(error, "loop", on_crash)
        else:
            logging.getLogger(__name__).error(
                "loop.complained", extra=fields(why=context.get("message"))
            )

    loop.set_exception_handler(handle)


def _install(handler: _QueueHandler, level: int, on_crash: OnCrash | None) -> Callable[[], None]:
    root = logging.getLogger()
    levels = {name: max(quiet, level) for name, quiet in QUIET.items()}
    levels |= {"": level, DIAGNOSTICS: logging.WARNING}
    levels_before = {name: logging.getLogger(name).level for name in levels}
    handlers_before = root.handlers[:]
    hooks_before = (sys.excepthook, threading.excepthook)
    raised, last_resort = logging.raiseExceptions, logging.lastResort
    root.handlers[:] = [handler]
    _set_levels(levels)
    # The stdlib's last resort prints bare, unredacted text on stderr.
    logging.lastResort = None
    logging.raiseExceptions = False
    logging.captureWarnings(True)

    def main_hook(
        _kind: type[BaseException], error: BaseException, _trace: TracebackType | None
    ) -> None:
        _crashed(error, "main", on_crash)

    def thread_hook(facts: threading.ExceptHookArgs) -> None:
        if facts.exc_value is not None:
            _crashed(facts.exc_value, "thread", on_crash)

    sys.excepthook, threading.excepthook = main_hook, thread_hook

    def undo() -> None:
        root.handlers[:] = handlers_before
        _set_levels(levels_before)
        sys.excepthook, threading.excepthook = hooks_before
        logging.raiseExceptions, logging.lastResort = raised, last_resort
        logging.captureWarnings(False)

    return undo


def _set_levels(levels: Mapping[str, int]) -> None:
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def _all_are(error: Exception, expected: tuple[type[Exception], ...]) -> bool:
    return isinstance(error, ExceptionGroup) and error.split(expected)[1] is None


def _crashed(error: BaseException, where: str, on_crash: OnCrash | None) -> None:
    if isinstance(error, KeyboardInterrupt):
        return
    logging.getLogger(__name__).critical(
        "process.crashed", exc_info=error, extra=fields(where=where)
    )
    if on_crash is not None:
        on_crash(error, where)

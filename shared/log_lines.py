"""One log record as one line of JSON, redacted.

Comes in: records of the stdlib's `logging`. Goes out: lines. `shared.logs` imports it.
"""

import functools
import logging
import traceback
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from shared import __version__
from shared.harmless import json_line
from shared.redaction import clean, clip, redact, redact_value
from shared.secrets import Secret

STACK_CHARS: Final = 16 * 1024
"""The end of a stack trace is what names the fault; more would drown the line."""
MAX_DEPTH: Final = 8
"""Nesting of a field; deeper values are no facts that somebody reads in a line."""
CACHED_STRINGS: Final = 4096
CACHED_CHARS: Final = 160
"""Short strings whose redaction is remembered: a megabyte at most."""

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "bound"}
_HEAD = frozenset({"ts", "level", "logger", "msg", "process", "version", "err"})
_encode = msgspec.json.Encoder().encode


class JsonFormatter(logging.Formatter):
    """Turns a record into one line of JSON. Never raises: a record that fails says so.

    Args:
        process: the process's name in the fleet, such as `worker-2`.
        secrets: what this process knows; credentials of other shapes are found by their shape.
        max_string_chars: cut strings to this many code points, after redaction; None keeps them.
    """

    def __init__(
        self,
        process: str,
        *,
        secrets: Iterable[Secret] = (),
        max_string_chars: int | None = None,
    ) -> None:
        super().__init__()
        self._common = {"process": process, "version": __version__}
        self._secrets = tuple(secrets)
        self._max_string_chars = max_string_chars
        # Redaction tries every disguise of every secret: 80 µs a string. Most strings of a log come
        # again and again (names, models, states), and a turn's id stands in several lines.
        self._hidden_pair = functools.lru_cache(CACHED_STRINGS)(self._hide_pair)

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line, without the line feed."""
        return self.line(record).decode()

    def line(self, record: logging.LogRecord) -> bytes:
        """The record as one line of UTF-8, without the line feed."""
        try:
            return json_line(_encode({**self._head(record), **self._facts(record)}))
        except Exception as exc:  # noqa: BLE001 - a log call never costs its caller anything
            lost = {"msg": "log.failed", "logger": record.name, "why": type(exc).__name__}
            return _encode({"ts": _moment(record.created), "level": "ERROR", **lost})

    def _head(self, record: logging.LogRecord) -> dict[str, object]:
        return {
            "ts": _moment(record.created),
            "level": record.levelname,
            "logger": record.name,
            "msg": self._text(record.getMessage()),
            **self._common,
        }

    def _facts(self, record: logging.LogRecord) -> dict[str, object]:
        given = {**getattr(record, "bound", {}), **_extras(record)}
        facts = {
            name: _plain(name, value, MAX_DEPTH)
            for name, value in given.items()
            if name not in _HEAD
        }
        shown = self._shown(facts)
        if record.exc_info and record.exc_info[1] is not None:
            return {**shown, "err": self._error(record.exc_info[1])}
        return shown

    def _error(self, error: BaseException) -> dict[str, str]:
        stack = redact(clean("".join(traceback.format_exception(error))), self._secrets)
        return {
            "type": type(error).__qualname__,
            "message": self._text(str(error)),
            "stack": stack[-STACK_CHARS:],
        }

    def _text(self, text: str) -> str:
        return self._pair("", text)[1]

    def _shown(self, facts: dict[str, object]) -> dict[str, object]:
        """The facts with names and texts redacted, texts clipped."""
        return {self._pair(name, "")[0]: self._value(name, item) for name, item in facts.items()}

    def _value(self, name: str, value: object) -> object:
        if isinstance(value, str):
            return self._pair(name, value)[1]
        if isinstance(value, dict):
            return self._shown(value)
        return [self._value(name, item) for item in value] if isinstance(value, list) else value

    def _pair(self, name: str, text: str) -> tuple[str, str]:
        is_short = len(name) + len(text) <= CACHED_CHARS
        return self._hidden_pair(name, text) if is_short else self._hide_pair(name, text)

    def _hide_pair(self, name: str, text: str) -> tuple[str, str]:
        """A name and its text, redacted together: a text under `api_key` goes whole."""
        hidden = redact_value({name: text}, self._secrets)
        assert isinstance(hidden, dict)  # noqa: S101 - a dict stays one
        ((shown, value),) = hidden.items()
        limit = self._max_string_chars
        return shown, value if limit is None else clip(value, limit)


def _extras(record: logging.LogRecord) -> dict[str, object]:
    given = record.__dict__.get("fields")
    extras = {
        name: value
        for name, value in record.__dict__.items()
        if name not in _STANDARD and name != "fields"
    }
    return {**extras, **given} if isinstance(given, dict) else extras


def _plain(name: str, value: object, depth: int) -> object:
    """A fact as JSON knows it."""
    if value is None or isinstance(value, bool | float | str):
        return value
    if isinstance(value, int):
        # Snowflakes have 64 bits; a reader of JSON in JavaScript keeps 53.
        return str(value) if name.endswith("_id") or abs(value) > 2**53 else value
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if depth == 0:
        return f"<{type(value).__name__}>"
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(str(key), item, depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(name, item, depth - 1) for item in value]
    if isinstance(value, BaseException):
        return f"{type(value).__qualname__}: {value}"
    return str(value)


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"

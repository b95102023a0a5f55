"""The fingerprint of a failure: failures with one repair get one group.

Comes in: an `ErrorReport`. Goes out: the parts that decide, and their hash of 32 hex digits. Put in
what the operator has to act on, and nothing else: provider failures are all raised on one line, so
a stack would merge unlike causes, and ids in messages would split one. The same parts go to Sentry.
"""

import hashlib
import re
from typing import Final

from shared.causes import CAUSES, Cause, Family
from shared.failures import ErrorReport, ReportCategory

GROUP_VERSION: Final = 1
"""Stamped on each group, so that a better algorithm never regroups what was counted before."""
MESSAGE_CHARS: Final = 400
"""What is looked at of a message: its cause stands in the first sentences."""
NORMAL_CHARS: Final = 160
"""What is kept after normalizing: enough to tell causes apart, too little for tails that vary."""
STACK_FRAMES: Final = 5
"""The innermost frames: the ones above differ by caller, not by cause."""

ACTED_ON: Final[dict[Family, tuple[str, ...]]] = {
    Family.AUTH: ("key_id",),
    Family.BILLING: ("key_id",),
    Family.ACCESS: ("key_id", "model"),
    Family.ENDPOINT: ("endpoint_host",),
    Family.MODEL: ("model",),
    Family.CONTEXT: ("model",),
    Family.GENERATION: ("model",),
    Family.REQUEST: ("provider_code", "message"),
    Family.UPSTREAM: ("serving_provider",),
    Family.RATE: (),
    Family.CONTENT: (),
    Family.TIMEOUT: (),
    Family.OVERLOAD: (),
    Family.INTERNAL: ("provider_code", "message"),
}
"""What the operator changes to mend a cause of a family: these fields tell groups apart."""
_UNKNOWN: Final = ("provider_code", "message")
"""A cause of another version, or of our own stages, says too little: its message decides."""

_PLACEHOLDERS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), word)
    for pattern, word in (
        (r"\b(?:https?|wss?)://\S+", "<url>"),
        (r"[\w.+-]{1,64}@[\w-]{1,63}\.[\w.]{1,63}", "<email>"),
        (r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", "<uuid>"),
        (r"\b(?:req|msg|chatcmpl|resp|run|call|gen|org|proj)[-_][a-z0-9_-]{6,}", "<id>"),
        (
            r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?",
            "<time>",
        ),
        (r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b", "<ip>"),
        (r"\b(?=[a-f]{0,32}\d)[0-9a-f]{8,}\b", "<hex>"),
        (r"\b\d+(?:\.\d+)?\s?(?:ms|s|sec|seconds|m|min|minutes|h)\b", "<span>"),
        (r"(?<!\w)-?\d[\d,]*(?:\.\d+)?%?", "<n>"),
        (r"\s+", " "),
    )
)
"""What varies between two messages of one cause. Sentry's order: the longer shapes first."""

_FRAME: Final = re.compile(r'^\s*File "([^"\n]{1,400})", line \d+, in (\S{1,200})', re.MULTILINE)
_ERROR_LINE: Final = re.compile(r"^([A-Za-z_][\w.]{0,200})(?::|$)", re.MULTILINE)


def group_hash(report: ErrorReport) -> str:
    """The group of a failure, as 32 hex digits."""
    joined = "\x1f".join(fingerprint(report)).encode("utf-8", "replace")
    return hashlib.blake2b(joined, digest_size=16).hexdigest()


def fingerprint(report: ErrorReport) -> list[str]:
    """What decides the group of a failure."""
    parts = [
        f"turnfleet{GROUP_VERSION}",
        report.stage,
        report.category.value,
        report.error_type,
        report.provider or "-",
    ]
    if report.provider == "custom":
        parts.append(report.endpoint_host or "-")
    if report.category is ReportCategory.INTERNAL:
        return parts + _internal_parts(report)
    return parts + [_part(report, name) for name in _acted_on(report.error_type)]


def _acted_on(error_type: str) -> tuple[str, ...]:
    try:
        return ACTED_ON[CAUSES[Cause(error_type)].family]
    except ValueError:
        return _UNKNOWN


def _part(report: ErrorReport, name: str) -> str:
    value = getattr(report, name) or "-"
    return normalized(value) if name == "message" else str(value)


def normalized(message: str) -> str:
    """The message with a placeholder for everything that varies: ids, numbers, times, addresses."""
    text = message[:MESSAGE_CHARS]
    for pattern, word in _PLACEHOLDERS:
        text = pattern.sub(word, text)
    return text.strip().casefold()[:NORMAL_CHARS]


def _internal_parts(report: ErrorReport) -> list[str]:
    """The types of the exceptions in the chain and the innermost frames, without line numbers."""
    stack = report.stack_trace or ""
    types = [
        name for name in _ERROR_LINE.findall(stack) if name not in {"Traceback", "During", "The"}
    ]
    frames = [
        f"{path.replace(chr(92), '/').rsplit('/', 1)[-1]}:{function}"
        for path, function in _FRAME.findall(stack)
    ]
    if not frames:
        return [normalized(report.message)]
    return [*types, *frames[-STACK_FRAMES:]]

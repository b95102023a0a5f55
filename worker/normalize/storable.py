"""Text as UTF-8 and PostgreSQL take it.

Comes in: strings as a lenient JSON decoder gives them. Goes out: the same without NUL and without
unpaired surrogates. Pure; the whole room uses it.
"""

import re
from collections.abc import Callable

MAX_DEPTH = 200
"""Deeper parts of a value are None: whoever encodes or walks it must not run out of stack."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def join_halves(text: str) -> str:
    """`text` with halves of pairs that stand together joined, and orphans as U+FFFD."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def scrub_text(text: str) -> str:
    """`text` without NUL, which PostgreSQL refuses, and with its halves of pairs joined."""
    if _UNSTORABLE.search(text) is None:
        return text
    return join_halves(text.replace("\0", ""))


def mend(value: object) -> object:
    """A JSON value with every string's halves joined; NUL stays, for signatures are bytes."""
    return _each_text(value, join_halves, MAX_DEPTH)


def scrub(value: object) -> object:
    """A JSON value with every string and key scrubbed."""
    return _each_text(value, scrub_text, MAX_DEPTH)


def _each_text(value: object, change: Callable[[str], str], depth: int) -> object:
    if isinstance(value, str):
        return change(value)
    if not isinstance(value, list | dict):
        return value
    if not depth:
        return None
    if isinstance(value, list):
        return [_each_text(item, change, depth - 1) for item in value]
    return {change(str(key)): _each_text(item, change, depth - 1) for key, item in value.items()}

"""Text as UTF-8 and PostgreSQL take it.

Comes in: strings as a lenient JSON decoder gives them. Goes out: the same without NUL and without
unpaired surrogates. Pure; the whole room uses it.
"""

import re

_SURROGATE = re.compile("[\ud800-\udfff]")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def join_halves(text: str) -> str:
    """`text` with halves of pairs that stand together joined, and orphans as U+FFFD."""
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def mend(value: object) -> object:
    """A JSON value with every string's halves joined; NUL stays, for signatures are bytes."""
    if isinstance(value, str):
        return join_halves(value)
    if isinstance(value, list):
        return [mend(item) for item in value]
    if isinstance(value, dict):
        return {join_halves(str(key)): mend(item) for key, item in value.items()}
    return value


def scrub_text(text: str) -> str:
    """`text` without NUL, which PostgreSQL refuses, and with its halves of pairs joined."""
    if _UNSTORABLE.search(text) is None:
        return text
    return join_halves(text.replace("\0", ""))


def scrub(value: object) -> object:
    """A JSON value with every string and key scrubbed."""
    if isinstance(value, str):
        return scrub_text(value)
    if isinstance(value, list):
        return [scrub(item) for item in value]
    if isinstance(value, dict):
        return {scrub_text(str(key)): scrub(item) for key, item in value.items()}
    return value

"""Where a text may be cut without tearing a character, and how long it is for Discord.

Comes in: text. Goes out: offsets and lengths. Pure; any room of the worker may import it.
"""

import regex

_LOOK_BACK_CHARS = 32
"""Clusters are shorter (a family of four with skin tones has eleven code points)."""

# Never extends what is before it (UAX 29: no Extend, no mark, no jamo, no flag, no pictogram).
_STARTS = regex.compile(r"[ A-Za-z0-9\p{Han}\p{Hiragana}\p{Katakana}]")

_GRAPHEME = regex.compile(r"\X")


def utf16_units(text: str) -> int:
    """The length of `text` in UTF-16 units: what clients count, code points being Discord's own."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def fits(text: str, limit: int) -> bool:
    """Whether `text` has at most `limit` code points and as many UTF-16 units."""
    if 2 * len(text) <= limit:
        return True
    return len(text) <= limit and utf16_units(text) <= limit


def fitting_length(text: str, limit: int) -> int:
    """How many code points of `text` fit in `limit` UTF-16 units: `limit`, or less, but one."""
    head = text[:limit]
    if head.isascii():
        return limit
    encoded = head.encode("utf-16-le", "surrogatepass")
    if len(encoded) <= 2 * limit:
        return limit
    return max(len(encoded[: 2 * limit].decode("utf-16-le", "ignore")), 1)


def last_boundary(text: str, limit: int) -> int:
    """The last grapheme boundary at or before `limit`, or `limit` if the first one is longer.

    The end of the text is none: its last grapheme may still grow.
    """
    last = start = _safe_start(text, limit)
    for found in _GRAPHEME.finditer(text, start):
        if found.start() > limit:
            break
        last = found.start()
    return last or limit


def _safe_start(text: str, limit: int) -> int:
    """A boundary some way in front of `limit`: a character that never continues another."""
    start = min(limit, len(text)) - _LOOK_BACK_CHARS
    while start > 0 and _STARTS.match(text, start) is None:
        start -= 1
    return max(start, 0)

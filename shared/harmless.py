"""Text from outside, made harmless for whoever looks at it: a terminal, a page, a line of JSON.

Comes in: text that a provider, a user or an attacker wrote. Goes out: the same text without what a
terminal obeys or a reader is deceived by. Pure; anyone may import it.
"""

import re
from typing import Final

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_DELETE: Final = b"\x7f"
_UNSAFE: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and line feed, DEL, C1: escape sequences
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidi controls: text that reads otherwise
    "\u2028\u2029"  # a line break to some readers only
    # Invisible: one word that looks like another, or text within text. Joiners and variation
    # selectors stay: emoji and some scripts are written with them.
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f"
    "\u3164\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
    "\ud800-\udfff"  # halves of pairs cannot be written at all
)
_UNSAFE_CHAR: Final = re.compile(f"[{_UNSAFE}]")


def plain(text: str) -> str:
    """The text with a replacement character for each control, bidi and invisible character."""
    return _UNSAFE_CHAR.sub(REPLACEMENT, text)


def json_text(encoded: str) -> str:
    """JSON with the unsafe characters of its strings written as escapes: equal to any parser."""
    return _UNSAFE_CHAR.sub(_escape, encoded)


def json_line(encoded: bytes) -> bytes:
    """The same for UTF-8 without line breaks; what is plain ASCII costs nothing."""
    if encoded.isascii() and _DELETE not in encoded:
        return encoded
    return json_text(encoded.decode()).encode()


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"

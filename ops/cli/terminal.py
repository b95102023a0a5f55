"""Text from outside, made safe for a terminal, a spreadsheet and a JSON viewer.

Comes in: text that a provider, a user or an attacker wrote. Goes out: the same text without what a
terminal obeys or a reader is deceived by. Everything that a command prints goes through here.
"""

import re
from typing import Final

_UNSAFE: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and line feed, DEL, C1: escape sequences
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidi controls: text that reads otherwise
    "\u200b\u2028\u2029\u2060\ufeff"  # invisible, or a line break to some readers only
    "\ufff9-\ufffb\U000e0000-\U000e007f"  # annotations and tag characters: invisible text
    "\ud800-\udfff"  # halves of pairs cannot be written at all
)
_UNSAFE_CHAR: Final = re.compile(f"[{_UNSAFE}]")
_FORMULA: Final = re.compile(r"^[\s]*[=+\-@\t\r]")
CSV_CELL_CHARS: Final = 32_000
"""Spreadsheets take 32,767 characters a cell and lose or refuse the rest; NDJSON has all of it."""
REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"


def plain(text: str) -> str:
    """The text with a replacement character for each control, bidi and invisible character."""
    return _UNSAFE_CHAR.sub(REPLACEMENT, text)


def one_line(text: str, limit_chars: int) -> str:
    """The text on one line, cut to the limit."""
    line = " ".join(plain(text).split())
    return line if len(line) <= limit_chars else line[: limit_chars - 1] + "\u2026"


def csv_cell(text: str) -> str:
    """The text as a cell that no spreadsheet takes for a formula (OWASP, CSV injection)."""
    safe = plain(text)
    if len(safe) > CSV_CELL_CHARS:
        safe = safe[:CSV_CELL_CHARS] + "\u2026"
    return f"'{safe}" if _FORMULA.match(safe) else safe


def json_text(encoded: str) -> str:
    """JSON with the unsafe characters of its strings written as escapes: equal to any parser."""
    return _UNSAFE_CHAR.sub(_escape, encoded)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"

"""Text from outside in a cell: of a table on a terminal, or of a spreadsheet.

Comes in: text that anyone wrote. Goes out: one line; a cell that is only text. Everything that a
command prints goes through here or through `shared.harmless`.
"""

import re
from typing import Final

from shared.harmless import plain

_SIGNS: Final = r"[=+\-@\uff1d\uff0b\uff0d\uff20]"
"""What begins a formula; a spreadsheet in Japanese takes the wide signs for the narrow ones."""
_FORMULA: Final = re.compile(rf"^(?=\s*{_SIGNS}|\t)|(?<=[;\t\n])(?=\s{{0,3}}{_SIGNS})")
"""Where a formula begins, or would: half of Europe parts cells at `;`, and then no quote that
follows a comma holds a cell together."""
CSV_CELL_CHARS: Final = 32_000
"""Spreadsheets take 32,767 characters a cell and lose or refuse the rest; NDJSON has all of it."""


def one_line(text: str, limit_chars: int) -> str:
    """The text on one line, cut to the limit."""
    line = " ".join(plain(text).split())
    return line if len(line) <= limit_chars else line[: limit_chars - 1] + "\u2026"


def csv_cell(text: str) -> str:
    """The text as a cell that no spreadsheet takes for a formula (OWASP, CSV injection)."""
    safe = _FORMULA.sub("'", plain(text[: CSV_CELL_CHARS + 1]))
    return safe if len(safe) <= CSV_CELL_CHARS else safe[:CSV_CELL_CHARS] + "\u2026"

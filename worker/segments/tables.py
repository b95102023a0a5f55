"""Markdown tables: what is one, and how it looks as plain text.

Comes in: lines. Goes out: answers, and the aligned text that stands in where no picture can be
shown. Pure; used by the readers of the segment room.
"""

import unicodedata

import regex

from worker.segments.rewrites import FENCE, ZERO_WIDTH, split_code

MAX_COLUMN = 40
"""A longer cell is not waited for: the fallback would be mostly blanks."""

_BAR = regex.compile(r"(?<!\\)\|")
_RULE = regex.compile(r"\s*:?-+:?\s*")


def cells(line: str) -> list[str]:
    """The cells of a line; an escaped bar parts none, outer bars are optional."""
    inner = line.strip()
    inner = inner.removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return _BAR.split(inner)


def looks_like_header(line: str) -> bool:
    """Whether `line` may be the head of a table: two cells or more, not all empty, no rule."""
    if not line.strip() or line.lstrip().startswith(">"):
        return False
    found = cells(line)
    named = any(cell.strip() for cell in found)
    return len(found) >= 2 and named and not all(_RULE.fullmatch(cell) for cell in found)


def is_separator(line: str, count: int) -> bool:
    """Whether `line` is the rule below a head of `count` cells."""
    if "-" not in line or "|" not in line:
        return False
    found = cells(line)
    return len(found) == count and all(_RULE.fullmatch(cell) for cell in found)


def aligned(rows: list[str], limit: int) -> tuple[str, ...]:
    """The table as code blocks with aligned columns, each of at most `limit` and its fences.

    Args:
        rows: head, rule and rows as the model wrote them.
        limit: code points (and UTF-16 units) of a message without the fences.
    """
    table = [[cell.strip() for cell in cells(row)] for row in (rows[0], *rows[2:])]
    columns = max(len(row) for row in table)
    widths = [
        min(max(display_width(row[at]) for row in table if at < len(row)), MAX_COLUMN)
        for at in range(columns)
    ]
    head, *lines = (_aligned_row(row, widths) for row in table)
    rule = "-+-".join("-" * width for width in widths)
    return split_code("\n".join((head, rule, *lines)), "", "", limit)


def display_width(text: str) -> int:
    """Columns of `text` in a fixed-width font: two for East Asian wide, none for combining."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(char) else 2 if _is_wide(char) else 1 for char in text)


def _is_wide(char: str) -> bool:
    return unicodedata.east_asian_width(char) in {"W", "F"}


def _aligned_row(row: list[str], widths: list[int]) -> str:
    padded = [
        cell.ljust(width) if cell.isascii() else cell + " " * (width - display_width(cell))
        for cell, width in zip(row, widths, strict=False)
    ]
    return " | ".join(padded).rstrip().replace(FENCE, ZERO_WIDTH.join(FENCE))

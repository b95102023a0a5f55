"""Markdown tables: what is one, and how it looks as plain text.

Comes in: lines. Goes out: answers, and the aligned text that stands in where no picture can be
shown. Pure; used by the readers of the segment room.
"""

import unicodedata
from itertools import accumulate

import regex

from worker.segments.rewrites import FENCE, ZERO_WIDTH, split_code

MAX_COLUMN = 40
"""A longer cell is not waited for: the fallback would be mostly blanks."""
MAX_GROWTH = 2
"""Times its source that an aligned table of several messages may take; one long cell in each of
many columns makes it fifteen times as long."""

_BETWEEN = " | "
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

    One that takes several messages, most of them blanks, stays as it was written.

    Args:
        rows: head, rule and rows as the model wrote them.
        limit: code points (and UTF-16 units) of a message without the fences.
    """
    table = [[cell.strip() for cell in cells(row)] for row in (rows[0], *rows[2:])]
    sizes = [[display_width(cell) for cell in row] for row in table]
    widths = [0] * max(map(len, table))
    for row in sizes:
        for at, size in enumerate(row):
            widths[at] = max(widths[at], min(size, MAX_COLUMN))
    written = sum(map(len, rows))
    if _padded_chars(sizes, widths) > max(limit, MAX_GROWTH * written):
        return split_code(_unfenced("\n".join(rows)), "", "", limit)
    head, *lines = (_aligned_row(row, widths) for row in table)
    rule = "-+-".join("-" * width for width in widths)
    return split_code("\n".join((head, rule, *lines)), "", "", limit)


def _padded_chars(sizes: list[list[int]], widths: list[int]) -> int:
    """How long the aligned table is, blanks at the ends of rows included."""
    before = [0, *accumulate(width + len(_BETWEEN) for width in widths)]
    longer = sum(size - MAX_COLUMN for row in sizes for size in row if size > MAX_COLUMN)
    return before[-1] + sum(before[len(row)] for row in sizes) + longer


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
    return _unfenced(_BETWEEN.join(padded).rstrip())


def _unfenced(text: str) -> str:
    return text.replace(FENCE, ZERO_WIDTH.join(FENCE))

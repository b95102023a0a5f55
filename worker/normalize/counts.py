"""Token counts as providers send them.

Comes in: whatever stood in a usage object. Goes out: a number, or None for what is unknown.
Imported by the dialects.
"""

MAX_COUNT = 2**53
"""Beyond this JSON numbers are not exact; no reply has as many tokens."""


def count(value: object) -> int | float | None:
    """A usable count or cost, else None: null, negative, absurd and non-numeric are unknown.

    An unknown count is left out and never 0, for 0 is a value.
    """
    if type(value) is int or type(value) is float:
        return value if 0 <= value < MAX_COUNT else None
    return None


def added(*values: int | float | None) -> int | float | None:
    """The sum of the known ones; None if none is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None

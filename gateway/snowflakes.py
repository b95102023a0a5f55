"""Discord's ids as times.

Comes in: milliseconds. Goes out: ids. Pure; anyone in the gateway may import it.
"""

from typing import Final

DISCORD_EPOCH_MS: Final = 1_420_070_400_000
"""The first second of 2015, where snowflakes begin (developer docs, reference)."""


def snowflake_at(ms: int) -> int:
    """The smallest id of a message written at a time.

    >>> snowflake_at(1_420_070_400_001)
    4194304
    """
    return max(0, ms - DISCORD_EPOCH_MS) << 22

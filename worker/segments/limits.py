"""The numbers of the segment room, each with its reason.

Comes in: nothing. Goes out: `Limits` and its two usual values. The segment room, its drivers and
its tests may import it.
"""

import msgspec

MAX_MARKER_RUN = 32
"""A longer run of one marker character is plain text: a ruler, not a marker."""

MAX_TICK_RUN = 8
"""A longer run of backticks opens no inline code; nobody writes one."""

MAX_NESTED_PAIRS = 16
"""Paired quotation marks followed at once; deeper ones are text that nobody will close."""

MAX_INFO_CHARS = 20
"""A longer info string of a fence is dropped: no language has such a name (Discord, 2.1)."""

STALL_LINE_S = 1.5
"""Line mode is a chat: a person waits so long for the rest of a thought."""

STALL_TEXT_S = 4.0
"""The other modes wait longer, because a cut inside a paragraph is worse than a pause."""

STALL_MIN_CHARS = 200
"""... and show nothing shorter: a paragraph of one sentence looks broken."""


LONGEST_HOLD_S = 10.0
"""A finished line waits no longer for the rest of a construct, however slowly that comes."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes in code points; a message is held to the same number of UTF-16 units."""

    body: int = 1900
    """Most of a message's own text; the prefix, and the marks that the room reopens and closes (at
    most 60), fit between it and Discord's 2,000."""
    soft: int = 1000
    """Prose: the cut is looked for from here, so that messages have a readable size ..."""
    window: int = 1200
    """... once so much was read: a sentence end a little later is better than a word's."""
    back: int = 700
    """... and never before this, while a sentence end or white space can be found."""
    hold: int = 900
    """An opening mark defers cuts for so many characters; longer ones were never closed in the
    corpus."""
    rest: int = 15_000
    """A file or table takes so many: 60,000 bytes at four bytes each, below 64 KiB."""


CHAT = Limits()

AGGREGATED = Limits(soft=1900, window=2000, back=1000)
"""Cuts by the message limit alone. The 100 between: a token that begins before it is seen whole."""

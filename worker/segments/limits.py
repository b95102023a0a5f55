"""The numbers of the segment room, each with its reason.

Comes in: nothing. Goes out: `Limits`. The segment room and its drivers may import it.
"""

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes in code points; every body is also held to its number in UTF-16 units.

    Args:
        body: most of a message's own text; the prefix, reopened and closing marks that the room
            adds (at most 60) fit between it and Discord's 2,000.
    """

    body: int = 1900


CHAT = Limits()

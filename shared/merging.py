"""Two prompts that wait, as one turn.

Comes in: the turn that waits, and its user's next one. Goes out: the next one with both prompts.
Pure; `shared.edges.queue` imports it.
"""

import msgspec

from shared.history import Reading
from shared.turns import TurnRequest

MAX_MERGED = 20
"""Turns in one: a prompt that is still being typed after twenty messages gets an answer first."""


def merged(older: TurnRequest, newer: TurnRequest) -> TurnRequest | None:
    """The newer turn, which answers both prompts; None where they want different answers.

    A command has an answer of its own, and a replay is not its user's message.
    """
    is_alike = all(getattr(older, name) == getattr(newer, name) for name in _ALIKE)
    is_typed = not any(one.replay_of or one.route.interaction for one in (older, newer))
    if not (is_alike and is_typed) or len(older.merged) + 1 >= MAX_MERGED:
        return None
    return msgspec.structs.replace(
        newer,
        messages=[*older.messages, *newer.messages],
        merged=(*older.merged, older.turn_id),
        reading=_read_for_both(older.reading, newer.reading),
    )


def _read_for_both(older: Reading | None, newer: Reading | None) -> Reading | None:
    """What the newer prompt reads, with the files and the answered message of the older one."""
    if older is None or newer is None:
        return newer
    return msgspec.structs.replace(
        newer,
        attachments=(*older.attachments, *newer.attachments),
        reply_to=newer.reply_to if newer.reply_to is not None else older.reply_to,
    )


_ALIKE = (
    "target",
    "fallbacks",
    "system",
    "sampling",
    "credential_source",
    "credential",
    "delivery_mode",
    "persona",
    "follow_up",
    "tool_names",
)
"""Fields that decide how a prompt is answered."""

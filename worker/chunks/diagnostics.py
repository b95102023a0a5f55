"""What the guards did to a reply, as counts: a leak is traced to a host with them.

Comes in: the guards' counters. Goes out: a value for logs and reports, never any text. Pure.
"""

import msgspec


class ChunkDiagnostics(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of one attempt.

    Args:
        dropped_chars: taken out as repetition.
        think_blocks: blocks of reasoning that stood in the visible text.
        orphan_closers: closing tags without an opening one.
        unclosed_think: a block was never closed, so the answer may be hidden in it.
        spilled_chars: reasoning without a tag at the start of the answer.
        prose_calls: calls that were found in the prose.
    """

    dropped_chars: int = 0
    think_blocks: int = 0
    orphan_closers: int = 0
    unclosed_think: bool = False
    spilled_chars: int = 0
    prose_calls: int = 0

    def found(self) -> dict[str, object]:
        """The counts that are not zero, by name."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value}

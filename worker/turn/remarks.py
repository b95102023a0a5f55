"""What a finished reply has to remark: thoughts that may be looked at, a model that stood in.

Comes in: the turn, its last attempt, its outbox. Goes out: notes of `TurnDone`, made here once and
for all: a gateway that shows an event twice says the same twice. It waits through ports only.
"""

from typing import Final

from shared.redaction import clean, snippet
from shared.segments import FALLBACK, THOUGHTS
from shared.turns import TurnRequest
from worker.turn.attempt import Attempt
from worker.turn.ports import OutboxPort

MAX_THOUGHTS_CHARS: Final = 64 * 1024
"""Of one reply: what a model thinks in 16,000 tokens."""


async def remarks(request: TurnRequest, attempt: Attempt, outbox: OutboxPort) -> tuple[str, ...]:
    """The notes of a reply that ended well or was stopped, with what they promise done."""
    notes = []
    text = thoughts_of(attempt) if request.keep_thoughts_s > 0 else ""
    if text and await outbox.keep_thoughts(text, request.keep_thoughts_s):
        notes.append(THOUGHTS)
    stood_in = attempt.target != request.target and attempt.sent > 0
    if stood_in and await outbox.may_tell(request.route.channel_id, FALLBACK):
        notes.append(FALLBACK)
    return tuple(notes)


def thought_chars_of(attempt: Attempt) -> int:
    """How much the model thought in all rounds."""
    said = sum(len(thought.content) for thought in attempt.pipeline.thoughts)
    return said + sum(map(len, attempt.pipeline.buffer.thoughts))


def thoughts_of(attempt: Attempt) -> str:
    """What the model thought in all rounds, without what the attempt was trusted with."""
    said = "".join(thought.content for thought in attempt.pipeline.thoughts).strip()
    blocks = [block.strip() for block in attempt.pipeline.buffer.thoughts]
    text = "\n\n".join(part for part in (said, *blocks) if part)
    return snippet(clean(text), attempt.secrets, MAX_THOUGHTS_CHARS)

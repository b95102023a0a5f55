"""A shorter history, for a model whose context the whole one does not fit.

Comes in: the messages of a turn. Goes out: fewer, the newest, or None where nothing may go. Pure;
`worker.turn.plan` imports it.
"""

from collections.abc import Sequence

from shared.messages import Message, Role

_INSTRUCTING = frozenset({Role.SYSTEM, Role.DEVELOPER})


def trimmed(messages: Sequence[Message]) -> list[Message] | None:
    """Leaves out the older half of what was said before the prompt, whole exchanges at a time.

    Instructions stay, and the prompt with all that follows it (the turn's own tool rounds). What
    stays begins with a user's message, so that no result stands without its call.
    """
    starts = [at for at, one in enumerate(messages) if one.role is Role.USER]
    if len(starts) < 2:
        return None
    middle = starts[-1] // 2
    first_kept = next(at for at in starts if at > 0 and at >= middle)
    kept = [one for one in messages[:first_kept] if one.role in _INSTRUCTING]
    return [*kept, *messages[first_kept:]]

"""Whether a `CancelledError` means the task that it came up in.

Comes in: nothing. Goes out: what handlers of it ask. Pure; anyone may import it.

A future that somebody else cancels raises the same error in whoever awaits it. Passed on, that
ends the task without a word, and a task group takes it for an orderly end.
"""

import asyncio


def is_cancelled() -> bool:
    """Whether the running task is to end; False where only something that it awaited was."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0

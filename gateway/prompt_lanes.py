"""The lanes of prompts: those of one channel one after another, those of several at once.

Comes in: prompts, in the order of the front. Goes out: the same, to whoever takes them.
`gateway.intake` has them. To take a prompt is to ask Redis several times, one question after the
other: the prompts of a whole bot in one row would wait for each other's answers.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from gateway.front import Prompt

MAX_IN_HAND: Final = 64
"""Prompts that are taken at once; those beyond wait in the front, whose bound is felt."""


class PromptLanes:
    """A lane per channel, with a task while it holds prompts.

    Args:
        group: what its tasks end with.
        take: takes one prompt.
    """

    def __init__(self, group: asyncio.TaskGroup, take: Callable[[Prompt], Awaitable[None]]) -> None:
        self._group = group
        self._take = take
        self._room = asyncio.Semaphore(MAX_IN_HAND)
        self._waiting: dict[int, deque[Prompt]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def put(self, prompt: Prompt) -> None:
        """Takes a prompt after those of its channel; waits while too many are in hand."""
        await self._room.acquire()
        channel_id = prompt.channel_id
        if (waiting := self._waiting.get(channel_id)) is not None:
            waiting.append(prompt)
            return
        self._waiting[channel_id] = deque([prompt])
        work = self._work(channel_id)
        self._tasks[channel_id] = self._group.create_task(work, name=f"intake {channel_id}")

    async def empty(self, channel_id: int | None) -> None:
        """Waits until nothing of a channel is in hand; for None nothing is waited for."""
        task = None if channel_id is None else self._tasks.get(channel_id)
        if task is not None:
            await asyncio.wait({task})

    async def _work(self, channel_id: int) -> None:
        waiting = self._waiting[channel_id]
        while waiting:
            try:
                await self._take(waiting[0])
            finally:
                self._room.release()
            waiting.popleft()
        del self._waiting[channel_id], self._tasks[channel_id]

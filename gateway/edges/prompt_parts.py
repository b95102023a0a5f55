"""Prompts that were edited or deleted, and the turns that have their words.

Comes in: the turn that a message has become, its new text. Goes out: to the queue. A prompt that
was merged into a later one has its words there (docs/decisions/0012): only these are changed.
`gateway.edges.store` asks it.
"""

import contextlib
from typing import Final

from shared.edges.queue import Cancelled, TurnQueue
from shared.edges.redis import within
from shared.edges.scripting import Script
from shared.errors import WireError
from shared.merging import MAX_MERGED, amended, prompts_of, without
from shared.segments import WITHDRAWN
from shared.turns import ENDS, TurnRequest
from shared.wire import decode_turn_request, encode_turn_request

MAX_TRIES: Final = 5
"""For a turn that is taken in, or edited, while it is looked at: both end."""


class _Holder:
    """A turn that has the words of a prompt, with its request as it lies there."""

    def __init__(self, turn_id: str, state: str, raw: bytes) -> None:
        self.turn_id = turn_id
        self.raw = raw
        self.is_over = not state or state in ENDS
        self.request: TurnRequest | None = None
        if raw:
            with contextlib.suppress(WireError):  # of another version
                self.request = decode_turn_request(raw)


class PromptParts:
    """Changes the words of prompts, wherever they wait.

    Args:
        queue: the queue of the cell.
    """

    def __init__(self, queue: TurnQueue) -> None:
        self._queue = queue
        self._amend = Script(queue.redis, "amend")

    async def amend(self, turn_id: str, text: str) -> bool:
        """Puts other words in the place of a prompt that waits; False when none does."""
        for _ in range(MAX_TRIES):
            holder = await self._holder(turn_id)
            changed = None if holder.request is None else amended(holder.request, turn_id, text)
            if changed is None or holder.is_over:
                return False
            if await self._replace(holder, changed):
                return True
        return False

    async def withdraw(self, turn_id: str) -> None:
        """Takes a prompt back. A turn that has no other one is stopped, and nothing is said of it.

        One that runs goes on for the others: what it was asked cannot be taken back, but whoever
        has to ask again does so without.
        """
        for _ in range(MAX_TRIES):
            holder = await self._holder(turn_id)
            if holder.is_over:
                return
            request = holder.request
            changed = None if request is None else without(request, turn_id)
            if changed is not None:
                if await self._replace(holder, changed, runs=True):
                    return
                continue
            prompts = (turn_id,) if request is None else prompts_of(request)
            if prompts and turn_id not in prompts:
                return  # it is taken back already
            if await self._queue.cancel(holder.turn_id, why=WITHDRAWN) is not Cancelled.FINISHED:
                return
            # It ended, or was taken in, since it was looked at.

    async def _holder(self, turn_id: str) -> _Holder:
        """The turn that has the words of a prompt.

        A turn that was taken in says by which one; that may have been taken in, too.
        """
        for _ in range(MAX_MERGED + 1):
            key = self._queue.keys.turn(turn_id)
            found: list[bytes | None] = await within(
                self._queue.redis.hmget(key, ["state", "request", "into"])
            )
            state, raw, into = found
            if into is None:
                return _Holder(turn_id, (state or b"").decode(), raw or b"")
            turn_id = into.decode()
        return _Holder(turn_id, "", b"")

    async def _replace(self, holder: _Holder, request: TurnRequest, *, runs: bool = False) -> bool:
        args: list[str | bytes | int] = [holder.raw, encode_turn_request(request), int(runs)]
        answer: int = await within(self._amend([self._queue.keys.turn(holder.turn_id)], args))
        return answer == 1

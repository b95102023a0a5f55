"""The one owner of typing signs.

Comes in: turns that were admitted, turns that begin to show. Goes out: a typing sign in the turn's
channel, renewed while nothing shows. Intake starts signs and delivery stops them.

A sign lives no longer than `TYPING_TTL_S`, whatever else is lost: bots in the wild were seen typing
for hours. Failures are ignored.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Final

from gateway.front import ChannelFront

REFRESH_S: Final = 8.0
"""Discord's sign lasts ten seconds."""
TYPING_TTL_S: Final = 330.0
"""The turn's deadline of 300 s, and half a minute in the queue."""
MAX_ENDED: Final = 1_000
"""Turns remembered as shown: what a gateway answers within some seconds."""


class Typist:
    """Typing signs by turn.

    Args:
        refresh_s: how often a sign is renewed.
    """

    def __init__(self, *, refresh_s: float = REFRESH_S) -> None:
        self._refresh_s = refresh_s
        self._signs: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._ended: OrderedDict[str, None] = OrderedDict()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keeps the signs while the block runs, and ends them with it."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                yield
            finally:
                self._group = None
                for task in list(self._signs.values()):
                    task.cancel()

    def start(self, turn_id: str, front: ChannelFront, channel_id: int) -> None:
        """Shows the sign for a turn, unless it shows already."""
        if self._group is None or turn_id in self._signs or turn_id in self._ended:
            return
        task = self._group.create_task(self._show(front, channel_id), name=f"typing {turn_id}")
        self._signs[turn_id] = task
        task.add_done_callback(lambda _: self._signs.pop(turn_id, None))

    def stop(self, turn_id: str) -> None:
        """Ends the sign of a turn; harmless for one that has none."""
        self._ended[turn_id] = None  # a quick answer may come before its sign was started
        while len(self._ended) > MAX_ENDED:
            self._ended.popitem(last=False)
        if (task := self._signs.get(turn_id)) is not None:
            task.cancel()

    async def _show(self, front: ChannelFront, channel_id: int) -> None:
        for _ in range(int(TYPING_TTL_S / REFRESH_S)):
            await front.typing(channel_id)
            await asyncio.sleep(self._refresh_s)

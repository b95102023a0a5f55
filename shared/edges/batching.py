"""A client whose commands travel together.

Comes in: commands, from any number of tasks. Goes out: their answers. `shared.edges.redis` makes
it, for processes that ask much at once: most of what a command costs is the way, not the server.

A command that finds few under way goes at once, as with any client. All others wait until one of
those is back and go in one write. So a process sends few large writes when it is busy, and is never
later than by one way there and back.

Errors are each command's own. When a connection breaks, all that went over it fail, as those of a
pipeline do: what may be sent again by one client may be sent again by this one.
"""

import asyncio
from typing import Any, Final

import msgspec
from redis.asyncio import Redis

MAX_BATCH: Final = 128
"""Commands of one write: beyond this the first answer waits for more than it saves."""
MAX_UNDER_WAY: Final = 3
"""Writes at once: with one, each command would wait for another's way; with many, all go alone."""


class _Asked(msgspec.Struct, frozen=True):
    """A command that waits for the way to be free."""

    args: tuple[Any, ...]
    options: dict[str, Any]
    answer: asyncio.Future[Any]


class BatchingRedis(Redis):
    """A client for short commands. Not for reads that block: everybody would wait with them."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._under_way = 0
        self._asked: list[_Asked] = []
        self._sending: set[asyncio.Task[None]] = set()

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Runs a command. Cancelled, it may or may not have run; nobody else's is touched."""
        if self._under_way >= MAX_UNDER_WAY:
            answer = asyncio.get_running_loop().create_future()
            self._asked.append(_Asked(args, options, answer))
            return await answer
        self._under_way += 1
        try:
            return await super().execute_command(*args, **options)  # type: ignore[no-untyped-call]  # redis-py
        finally:
            self._go_on()

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """Closes the connections; what was not answered is cancelled."""
        while self._sending:
            for task in self._sending:
                task.cancel()
            await asyncio.wait(self._sending)
        await super().aclose(close_connection_pool)

    def _go_on(self) -> None:
        """Sends what has come meanwhile, if anybody still waits for it."""
        waiting = [asked for asked in self._asked if not asked.answer.done()]
        batch, self._asked = waiting[:MAX_BATCH], waiting[MAX_BATCH:]
        if not batch:
            self._under_way -= 1
            return
        task = asyncio.create_task(self._send(batch), name="redis batch")
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, batch: list[_Asked]) -> None:
        answers: list[Any] = []
        try:
            async with self.pipeline(transaction=False) as pipe:
                for asked in batch:
                    pipe.execute_command(*asked.args, **asked.options)
                answers = await pipe.execute(raise_on_error=False)
        except Exception as exc:  # noqa: BLE001 -- it is raised where the commands were asked
            answers = [exc] * len(batch)
        finally:
            self._settle(batch, answers)
            self._go_on()

    def _settle(self, batch: list[_Asked], answers: list[Any]) -> None:
        for index, asked in enumerate(batch):
            if asked.answer.done():
                continue
            if index >= len(answers):
                asked.answer.cancel()  # the client is being closed
            elif isinstance(answers[index], Exception):
                asked.answer.set_exception(answers[index])
            else:
                asked.answer.set_result(answers[index])

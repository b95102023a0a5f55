"""Waiting for work and for stops on one blocking connection.

Comes in: the wake list of the cell and the control list of the worker, with stops and operators'
orders. Goes out: what woke it. `FleetWorker` uses it.

Lists rather than pub/sub: one token wakes one worker, and neither token nor stop is lost while the
connection is being made again. What is lost with a dying connection costs no more than the poll
(a token) or the next beat (a stop).
"""

from typing import Any

from redis.asyncio import Redis

from shared.edges.orders import ORDERS, Order
from shared.edges.redis import MAX_BLOCK_S, within
from shared.keys import Keys
from shared.lifetimes import CONTROL_TTL_MS

POKE = b""
"""An entry of the control list that stops nothing: it makes the worker look at its slots again."""


class Woken:
    """There may be a turn to claim."""


class Stop:
    """A user stopped this turn."""

    __slots__ = ("turn_id",)

    def __init__(self, turn_id: str) -> None:
        self.turn_id = turn_id


class WakeListener:
    """Waits on behalf of one worker.

    Args:
        redis: short commands.
        blocking: a client of its own: `connect(url, blocking=True, max_connections=1)`.
        keys: the cell's key names.
        worker_id: whose control list.
    """

    def __init__(self, redis: Redis, blocking: Redis, keys: Keys, worker_id: str) -> None:
        self._redis = redis
        self._blocking = blocking
        self._wake = keys.wake
        self._control = keys.control(worker_id)

    async def wait(self, *, for_turns: bool) -> Woken | Stop | Order | None:
        """What happened next; None after `MAX_BLOCK_S` or a poke.

        Args:
            for_turns: whether to take wake tokens: only while a slot is free.

        Raises:
            StoreUnavailable: nobody answers.
        """
        # The control list first: Redis serves the keys in this order.
        names = [self._control, self._wake] if for_turns else [self._control]
        answer: Any = await within(self._blocking.blpop(names, timeout=int(MAX_BLOCK_S)))
        if answer is None or answer[1] == POKE:
            return None
        name, word = answer[0].decode(), answer[1].decode()
        if name == self._wake:
            return Woken()
        return Order(word) if word in ORDERS else Stop(word)

    async def poke(self) -> None:
        """Ends a `wait` of this worker, so that the next one asks for other lists."""
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.rpush(self._control, POKE)
            pipe.pexpire(self._control, CONTROL_TTL_MS)  # in one step: a kill leaves no old list
            await within(pipe.execute())

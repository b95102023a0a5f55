"""What an operator wants of one worker, on its control list.

Comes in: a worker's id and an order. Goes out: an entry of the list that the worker waits on, so
that it hears within milliseconds. The CLI gives orders, `worker.edges.fleet` obeys.

An order is not kept: it is for the process that lives, and its heartbeat says what became of it.
"""

from enum import StrEnum

from redis.asyncio import Redis

from shared.edges.redis import within
from shared.keys import Keys
from shared.lifetimes import CONTROL_TTL_MS


class Order(StrEnum):
    """The words on the list. A turn id never begins with `!`."""

    DRAIN = "!drain"
    """Take nothing new, let running turns end, hand back the rest, exit."""
    CORDON = "!cordon"
    """Take nothing new; what runs goes on, and the process stays."""
    UNCORDON = "!uncordon"
    """Take turns again."""


ORDERS = frozenset(Order)


async def give_order(redis: Redis, keys: Keys, worker_id: str, order: Order) -> None:
    """Gives a worker an order. Raises `StoreUnavailable` when nobody answers."""
    name = keys.control(worker_id)
    async with redis.pipeline(transaction=True) as pipe:
        pipe.rpush(name, order)
        pipe.pexpire(name, CONTROL_TTL_MS)  # in one step: a kill leaves no old list
        await within(pipe.execute())

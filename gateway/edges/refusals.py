"""How many requests Discord has refused lately, and what is left when they are too many.

Comes in: answers of Discord. Goes out: a count for operators, and a budget that holds back. 10,000
answers 401, 403 and 429 within ten minutes, scope `shared` aside, close the door for a whole
IP address (developer docs, topics/rate-limits). Gateways behind one NAT share it, so they count
together in Redis; without Redis each counts for itself. `gateway.outward` makes one.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import aiohttp
import hikari
from aiohttp import TraceConfig
from redis.asyncio import Redis

from gateway.front import Budget, Rank
from shared.edges.redis import within
from shared.errors import StoreFull, StoreUnavailable
from shared.keys import Keys
from shared.lifetimes import INVALID_TTL_MS

logger = logging.getLogger(__name__)

WARN_AT: Final = 1_000
"""A tenth of what Discord bears: something is wrong, and there is time to look."""
PAUSE_AT: Final = 3_000
"""From here on what can wait does: typing signs, edits, deletions, history."""
STOP_AT: Final = 6_000
"""From here on nothing is asked, and people hear that the bot is busy. Other processes behind the
same address, commands and what is on its way have the rest."""
WINDOW_MIN: Final = 10
TELL_S: Final = 2.0
"""How often the count is shared."""
LOOK_S: Final = 1.0
"""How often a request that waits looks whether it may."""


class Refusals:
    """The count of a bot.

    Args:
        redis: a client for short commands.
        keys: the cell's keys.
        now_s: the wall clock.
    """

    def __init__(self, redis: Redis, keys: Keys, *, now_s: Callable[[], float] = time.time) -> None:
        self._redis = redis
        self._keys = keys
        self._now_s = now_s
        self._own: Counter[int] = Counter()
        self._untold: Counter[int] = Counter()
        self._shared: Counter[int] = Counter()
        self._told = 0

    @property
    def count(self) -> int:
        """Refused requests of the last ten minutes, of all gateways."""
        oldest = self._minute - WINDOW_MIN + 1
        own, *all_ = (
            sum(many for at, many in counted.items() if at >= oldest)
            for counted in (self._own, self._shared, self._untold)
        )
        return max(own, sum(all_))

    def note(self, status: int, scope: str) -> None:
        """Counts an answer, if Discord does."""
        if status in (401, 403) or (status == 429 and scope != "shared"):
            self._own[self._minute] += 1
            self._untold[self._minute] += 1
            self._say()

    def allows(self, rank: Rank) -> bool:
        """Whether a request of a rank may be made."""
        return self.count < (PAUSE_AT if rank >= Rank.EDIT else STOP_AT)

    async def run(self) -> None:
        """Shares the count with the other gateways, until it is cancelled."""
        while True:
            try:
                await self.tell()
            except (StoreUnavailable, StoreFull) as exc:
                logger.debug("refusals.store_away", extra={"error": str(exc)})
            self._say()
            await asyncio.sleep(TELL_S)

    async def tell(self) -> None:
        """Adds what is new, and reads what there is. Raises `StoreUnavailable`, `StoreFull`."""
        untold, self._untold = self._untold, Counter()
        minutes = range(self._minute - WINDOW_MIN + 1, self._minute + 1)
        try:
            async with self._redis.pipeline(transaction=True) as pipe:
                for at, many in untold.items():
                    pipe.incrby(self._name(at), many)
                    pipe.pexpire(self._name(at), INVALID_TTL_MS)
                pipe.mget([self._name(at) for at in minutes])
                found = (await within(pipe.execute()))[-1:]
        except BaseException:
            self._untold += untold  # counted twice at worst, and then we stop too early
            raise
        counts = zip(minutes, found[0], strict=True)
        self._shared = Counter({at: int(many) for at, many in counts if many is not None})
        self._own = Counter({at: many for at, many in self._own.items() if at in minutes})

    @property
    def _minute(self) -> int:
        return int(self._now_s() // 60)

    def _name(self, minute: int) -> str:
        return self._keys.front(f"invalid:{minute}")

    def _say(self) -> None:
        """Says each step up once, and that it is over."""
        count = self.count
        step = sum(count >= limit for limit in (WARN_AT, PAUSE_AT, STOP_AT))
        if step > self._told:
            facts = {"count": count, "warn": WARN_AT, "pause": PAUSE_AT, "stop": STOP_AT}
            level = logging.WARNING if step == 1 else logging.ERROR
            logger.log(level, "discord.many_refused", extra=facts)
        elif step == 0 and self._told:
            logger.info("discord.few_refused", extra={"count": count})
        self._told = step


class GuardedBudget:
    """A budget of which nothing is given out while too many requests are refused.

    Args:
        budget: what it guards.
        refusals: the count.
        sleep: waits.
    """

    def __init__(
        self,
        budget: Budget,
        refusals: Refusals,
        *,
        sleep: Callable[[float], Any] = asyncio.sleep,
    ) -> None:
        self._budget = budget
        self._refusals = refusals
        self._sleep = sleep

    @property
    def load(self) -> float:
        """How much is asked for; all of it when nothing may be."""
        return self._budget.load if self._refusals.allows(Rank.FIRST) else 1.0

    async def permit(self, rank: Rank) -> None:
        """Waits for the right to one request. Cancelled, it has none."""
        while not self._refusals.allows(rank):
            await self._sleep(LOOK_S)
        await self._budget.permit(rank)

    async def may(self, rank: Rank) -> bool:
        """Whether one request may be made now; it is counted if so."""
        return self._refusals.allows(rank) and await self._budget.may(rank)


Note = Callable[[int, str, float], None]
"""Takes an answer: its status, the scope of its rate limit, and how long is to be waited."""


def watch(rest: hikari.api.RESTClient, note: Note) -> None:
    """Tells of every answer that a client of Discord gets, those that hikari repeats by itself too.

    hikari has no place to look at answers; the session that it makes has one.
    """

    async def on_end(_session: object, _context: object, told: Any) -> None:
        response: aiohttp.ClientResponse = told.response
        retry_after = response.headers.get("Retry-After", "")
        wait_s = float(retry_after) if retry_after.replace(".", "", 1).isdecimal() else 0.0
        note(response.status, response.headers.get("X-RateLimit-Scope", ""), wait_s)

    trace = TraceConfig()
    trace.on_request_end.append(on_end)
    trace.freeze()
    session: aiohttp.ClientSession | None = rest._client_session  # type: ignore[attr-defined]  # private to hikari
    if session is not None:
        session.trace_configs.append(trace)

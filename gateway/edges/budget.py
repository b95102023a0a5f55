"""Discord's requests a second, as one bucket in Redis that all gateways of a bot share.

Comes in: wishes to make a request, by rank. Goes out: permits, best rank first, and the load that
admission, typing and merging look at. `gateway.app` makes one per bot token; couriers, the typist
and the Discord front ask it. Answers to interactions do not count at Discord, and never come here.

Without Redis everything is permitted: Discord's own answers still hold back whoever is too fast.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import AsyncIterator
from hashlib import blake2b
from itertools import count
from typing import Final

from redis.asyncio import Redis

from gateway.front import SHARES, Rank
from shared.edges.redis import within
from shared.edges.scripting import Script
from shared.errors import StoreFull, StoreUnavailable
from shared.keys import Keys
from shared.lifetimes import BUDGET_TTL_MS

logger = logging.getLogger(__name__)

WINDOW_MS: Final = 1_050
"""Discord's second, and what requests that were sent apart may come closer on their way."""
WIDEN_MS: Final = 150
"""What the window gets more where Discord has counted more than we did: requests came closer
together than that on their way, as they do in a process that gets little of its machine."""
MAX_WINDOW_MS: Final = 2_000
NARROW_MS_PER_S: Final = 10
"""How fast a window that was widened becomes what it was, while nothing is refused."""
SMOOTH_S: Final = 2
"""A burst of a moment is no load: the rate is one of some seconds."""
GLOBAL: Final = "global"
"""The scope of a 429 that is about the bot as a whole."""
MAX_REST_S: Final = 10.0
"""The longest that nothing is permitted after a refusal: a real ban is counted by `refusals`."""
MAX_ASKED: Final = 64
"""Permits of one question: more than a window's limit is not there to be had."""
MAX_WAIT_S: Final = 1.0
"""The bucket is full again after a second; longer waits are never right."""


def bot_name(token: str) -> str:
    """A name for the bot of a token, in keys; it tells nothing about the token.

    >>> len(bot_name("a.b.c"))
    16
    """
    return blake2b(token.encode(), digest_size=8).hexdigest()


class RequestBudget:
    """The bucket of one bot token.

    Args:
        redis: a client for short commands.
        keys: the cell's keys.
        bot: the bot's name in keys.
        limit: requests a second.
    """

    def __init__(self, redis: Redis, keys: Keys, bot: str, *, limit: int) -> None:
        self._spend = Script(redis, "spend")
        self._names = [keys.budget(bot), keys.budget_load(bot)]
        self._limit = limit
        self._load = 0.0
        self._load_s = 0.0
        self._wanted = 0
        self._repeated = 0
        self._rests_until_s = 0.0
        self._wide_ms = WINDOW_MS
        self._widened_s = 0.0
        self._order = count()
        self._waiting: list[tuple[Rank, int, asyncio.Future[None]]] = []
        self._came = asyncio.Event()
        self._is_running = False

    @property
    def load(self) -> float:
        """How much was asked for lately, as a part of what is allowed.

        It fades also while nobody asks: a bot that is busy for all would otherwise stay so.
        """
        return self._load * math.exp(min(0.0, self._load_s - time.monotonic()) / SMOOTH_S)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Gives out permits while the block runs; then everybody who still waits gets one."""
        async with asyncio.TaskGroup() as group:
            pump = group.create_task(self._pump(), name="request budget")
            self._is_running = True
            try:
                yield
            finally:
                self._is_running = False
                pump.cancel()
                for _, _, future in self._waiting:
                    if not future.done():
                        future.set_result(None)

    async def permit(self, rank: Rank) -> None:
        """Waits for the right to one request. Cancelled, it has none."""
        if not self._is_running:
            return
        self._wanted += 1
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((rank, next(self._order), future))
        self._came.set()
        await future

    def refused(self, scope: str, retry_after_s: float) -> None:
        """Notes a 429: the client makes that request again by itself, and it counts once more.

        Where Discord has counted more than its limit, requests came closer together on their way
        than they were permitted. Whatever were permitted until it is over would come at once then.
        """
        self._repeated += 1
        now_s = time.monotonic()
        if scope == GLOBAL and now_s >= self._rests_until_s:  # else it is one of many
            self._wide_ms = min(MAX_WINDOW_MS, self._window_ms + WIDEN_MS)
            self._widened_s = now_s
        if scope == GLOBAL:
            rest_s = min(max(0.0, retry_after_s), MAX_REST_S)
            self._rests_until_s = max(self._rests_until_s, now_s + rest_s)

    @property
    def _window_ms(self) -> int:
        narrowed = (time.monotonic() - self._widened_s) * NARROW_MS_PER_S
        return max(WINDOW_MS, int(self._wide_ms - narrowed))

    async def may(self, rank: Rank) -> bool:
        """Whether one request may be made now; above its rank's part of the load it may not."""
        if self.load >= SHARES[rank] or time.monotonic() < self._rests_until_s:
            return False
        granted, _ = await self._ask([rank])
        self._wanted += granted
        return granted > 0

    async def _pump(self) -> None:
        while True:
            while not self._waiting:
                self._came.clear()
                await self._came.wait()
            self._came.clear()
            if (rest_s := self._rests_until_s - time.monotonic()) > 0:
                await asyncio.sleep(rest_s)
            asked = [entry for entry in sorted(self._waiting) if not entry[2].done()][:MAX_ASKED]
            self._waiting = [entry for entry in self._waiting if not entry[2].done()]
            if not asked:
                continue  # whoever wanted it is gone
            granted, wait_s = await self._ask([rank for rank, _, _ in asked])
            for _, _, future in asked[:granted]:
                if not future.done():
                    future.set_result(None)
            if wait_s:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._came.wait()  # somebody of a better rank may get in at once

    async def _ask(self, ranks: list[Rank]) -> tuple[int, float]:
        """How many of some requests are granted, the best first; how long the next one waits."""
        wanted, self._wanted = self._wanted, 0
        repeated, self._repeated = self._repeated, 0
        args: list[str | bytes | int] = [
            *(self._limit, self._window_ms, SMOOTH_S, wanted, BUDGET_TTL_MS, repeated),
            *(max(1, int(self._limit * SHARES[rank])) for rank in ranks),
        ]
        try:
            granted, wait_ms, load = await within(self._spend(self._names, args))
        except (StoreUnavailable, StoreFull) as exc:
            logger.debug("budget.store_away", extra={"error": str(exc)})
            return len(ranks), 0.0
        self._load, self._load_s = int(load) / 1000, time.monotonic()
        return int(granted), min(int(wait_ms) / 1000, MAX_WAIT_S)

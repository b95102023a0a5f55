"""The fleet's breaker and retry budget for each model, in Redis.

Comes in: requests that are about to be sent, and how they ended. Goes out: whether one may be sent.
It is the real `TrafficPort` of `worker.turn`; only `worker.app` constructs it. Without Redis every
request may be sent: each turn has its own bound of attempts.
"""

import logging

import msgspec
from redis.asyncio import Redis

from shared.causes import Cause
from shared.edges.redis import within
from shared.edges.scripting import Script
from shared.errors import StoreError
from shared.keys import Keys
from shared.lifetimes import TRAFFIC_TTL_MS
from shared.logs import fields
from shared.turns import Target
from worker.failures.traffic import GO, Signal, Traffic

log = logging.getLogger(__name__)


class TrafficPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When a breaker opens, and how many retries there are."""

    failures_in_a_row: int = 10
    """In the whole fleet, without an answer between: no streak of bad luck at a model that answers
    most of the time."""
    spacing_ms: int = 200
    """Of failures that count: a hundred streams that break in one moment are one event, such as a
    host that is deployed anew, and no outage."""
    open_ms: int = 15_000
    """Then one turn tries: providers' overloads last from seconds to minutes."""
    probe_ms: int = 30_000
    """How long the one that tries is waited for, its backoff of up to 20 s included."""
    window_ms: int = 60_000
    retry_percent: int = 10
    """Of first attempts in the window: an outage makes a tenth more load, not a multiple."""
    free_retries: int = 100
    """In each window whatever the traffic: a small bot must be able to try again, and so must all
    the streams of one worker (100 slots) that lost their connections at once. To a provider it is
    less than two requests a second, and in an outage the breaker ends them after seconds."""


class FleetTraffic:
    """Breakers and budgets of all models.

    Args:
        redis: a client of `shared.edges.redis.connect`.
        keys: the key names of the cell.
        policy: the numbers, for tests.
    """

    def __init__(self, redis: Redis, keys: Keys, policy: TrafficPolicy | None = None) -> None:
        self._keys = keys
        self._policy = policy or TrafficPolicy()
        self._ask = Script(redis, "ask_target")
        self._heard = Script(redis, "heard_target")

    async def ask(self, target: Target, *, again: bool) -> Signal:
        """Whether a request may be sent now; one that may is counted."""
        policy = self._policy
        args: list[str | bytes | int] = [
            TRAFFIC_TTL_MS,
            int(again),
            policy.probe_ms,
            policy.window_ms,
            policy.retry_percent,
            policy.free_retries,
            policy.open_ms,
        ]
        try:
            answer = await within(self._ask([self._key(target)], args))
        except StoreError as exc:
            log.debug("traffic.unasked", extra=fields(reason=str(exc)))
            return GO
        word, cause = (part.decode() for part in answer)
        return Signal(word=Traffic(word), cause=Cause(cause) if cause else None)

    async def heard(self, target: Target, failure: str | None) -> None:
        """Notes an answer (None), or the cause of a failure that speaks against the model."""
        policy = self._policy
        args: list[str | bytes | int] = [
            TRAFFIC_TTL_MS,
            failure or "",
            policy.failures_in_a_row,
            policy.open_ms,
            policy.spacing_ms,
        ]
        try:
            answer = await within(self._heard([self._key(target)], args))
        except StoreError as exc:
            log.debug("traffic.unheard", extra=fields(reason=str(exc)))
            return
        if answer == b"opened":
            asked = f"{target.provider}/{target.model}"
            log.warning("breaker.opened", extra=fields(asked=asked, cause=failure))

    def _key(self, target: Target) -> str:
        return self._keys.traffic(target.provider, target.model)

"""Honest rate limits.

Comes in: requests and their times. Goes out: a `Verdict` with the numbers of Discord's headers.
Each channel's route has a bucket that refills steadily (a generic cell rate algorithm), and all
requests of a token share one window. The numbers agree with each other: hikari sleeps on those that
do not. Pure.
"""

from collections import deque
from typing import Final

import msgspec

CHANNEL_LIMIT: Final = 5
CHANNEL_PERIOD_S: Final = 5.0
"""Observed for messages of a channel: five in five seconds (discord-api-docs issue 20)."""
GLOBAL_PER_S: Final = 50
"""Developer docs, topics/rate-limits."""


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """How much is allowed. Tests widen it, so that they do not wait."""

    channel_limit: int = CHANNEL_LIMIT
    channel_period_s: float = CHANNEL_PERIOD_S
    global_per_s: int = GLOBAL_PER_S


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a request passes, and what its headers say."""

    passes: bool
    bucket: str = ""
    limit: int = 0
    remaining: int = 0
    reset_after_s: float = 0.0
    retry_after_s: float = 0.0
    is_global: bool = False


class Limits:
    """The state of all buckets.

    Args:
        rates: how much is allowed.
    """

    def __init__(self, rates: Rates) -> None:
        self._rates = rates
        self._due_s: dict[str, float] = {}
        self._recent_s: deque[float] = deque()

    def judge(self, bucket: str, now_s: float) -> Verdict:
        """Counts a request, unless it is refused."""
        wait_s = self._global_wait_s(now_s)
        if wait_s > 0:
            return Verdict(passes=False, retry_after_s=wait_s, is_global=True)
        rates = self._rates
        slot_s = rates.channel_period_s / rates.channel_limit
        due_s = max(self._due_s.get(bucket, 0.0), now_s)
        used_s = due_s - now_s
        room_s = rates.channel_period_s - slot_s
        if used_s > room_s + 1e-9:
            return self._verdict(bucket, used_s, retry_after_s=used_s - room_s)
        self._due_s[bucket] = due_s + slot_s
        self._recent_s.append(now_s)
        return self._verdict(bucket, used_s + slot_s, retry_after_s=0.0)

    def _verdict(self, bucket: str, used_s: float, *, retry_after_s: float) -> Verdict:
        rates = self._rates
        slot_s = rates.channel_period_s / rates.channel_limit
        free = int((rates.channel_period_s - used_s) / slot_s + 1e-9)
        return Verdict(
            passes=retry_after_s == 0.0,
            bucket=bucket,
            limit=rates.channel_limit,
            remaining=max(0, free),
            reset_after_s=used_s,
            retry_after_s=retry_after_s,
        )

    def _global_wait_s(self, now_s: float) -> float:
        recent = self._recent_s
        while recent and recent[0] <= now_s - 1.0:
            recent.popleft()
        if len(recent) < self._rates.global_per_s:
            return 0.0
        return recent[0] + 1.0 - now_s

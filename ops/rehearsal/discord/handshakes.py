"""What Discord checks before it begins or resumes a session, and how often it lets clients speak.

Comes in: a client's IDENTIFY, its frames and their times. Goes out: the code that its connection is
closed with, or nothing (developer docs, opcodes and status codes). Pure. `sockets` asks it.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

PRIVILEGED: Final = (1 << 1) | (1 << 8) | (1 << 15)
"""Members, presences, message content."""
KNOWN_INTENTS: Final = sum(1 << bit for bit in (*range(17), 20, 21, 24, 25))
GUILDS_PER_SHARD: Final = 2_500
VERSIONS: Final = ("9", "10")
SENDS: Final = 120
SENDS_WINDOW_S: Final = 60.0
"""What a connection may send (developer docs, gateway, rate limiting)."""


def why_not(
    identify: Mapping[str, Any],
    *,
    guilds: Mapping[int, object],
    guilds_per_shard: int,
    allows_privileged: bool,
) -> int | None:
    """The close code of an IDENTIFY that Discord refuses; its token was looked at before."""
    shard = identify.get("shard") or [0, 1]
    if not _is_shard(shard):
        return 4010
    number, count = shard
    seen = sum(1 for guild_id in guilds if (guild_id >> 22) % count == number)
    if seen > guilds_per_shard:
        return 4011
    intents = identify.get("intents")
    if not isinstance(intents, int) or intents & ~KNOWN_INTENTS:
        return 4013
    if intents & PRIVILEGED and not allows_privileged:
        return 4014
    return None


def _is_shard(shard: object) -> bool:
    match shard:
        case [int(number), int(count)]:
            return 0 <= number < count
        case _:
            return False


class Turnstile:
    """The frames of one connection."""

    def __init__(self) -> None:
        self._times_s: deque[float] = deque()

    def lets(self, now_s: float) -> bool:
        """Counts a frame; False for one that is too many."""
        times = self._times_s
        while times and times[0] <= now_s - SENDS_WINDOW_S:
            times.popleft()
        times.append(now_s)
        return len(times) <= SENDS


class Starts:
    """Session starts of a bot: so many a day, one in some seconds for each bucket.

    Args:
        window_s: how long after a start the next of its bucket may follow; 0 asks for none.
    """

    def __init__(self, window_s: float) -> None:
        self.window_s = window_s
        self.max_concurrency = 1
        self._last_s: dict[int, float] = {}

    def lets(self, shard: int, now_s: float) -> bool:
        """Counts a start; False for one that comes too early."""
        bucket = shard % self.max_concurrency
        is_early = now_s - self._last_s.get(bucket, 0.0) < self.window_s
        if not is_early:
            self._last_s[bucket] = now_s
        return not is_early

"""How much one person may ask at once, decided in Redis for all gateways.

Comes in: a person and a prompt's turn id. Goes out: whether it is taken, or what is said instead.
It is the real `PacePort`; only `gateway.app` constructs it.
"""

from collections.abc import Callable

from redis.asyncio import Redis

from gateway.context import Paced
from shared.configuration.loading import Loaded
from shared.edges.redis import within
from shared.edges.scripting import Script
from shared.keys import Keys
from shared.lifetimes import TURN_TTL_MS


class Pace:
    """The bounds of `[limits]`, as they stand now.

    Args:
        redis: a client of `shared.edges.redis.connect`.
        keys: the key names of the cell.
        loaded: gives the configuration of this process.
    """

    def __init__(self, redis: Redis, keys: Keys, loaded: Callable[[], Loaded]) -> None:
        self._keys = keys
        self._loaded = loaded
        self._pace = Script(redis, "pace")

    async def ask(self, user_id: int, turn_id: str, *, is_late: bool) -> Paced:
        """Whether a person may have one more turn. Raises `StoreUnavailable`.

        Args:
            user_id: the person.
            turn_id: of the prompt; asked twice, the answer is the same.
            is_late: written while nobody listened: the time between such prompts says nothing.
        """
        limits = self._loaded().configuration.limits
        cooldown_ms = 0 if is_late else round(limits.user_cooldown_s * 1000)
        if not (limits.user_depth or cooldown_ms):
            return Paced.TAKEN
        args: list[str | bytes | int] = [
            self._keys.prefix,
            turn_id,
            limits.user_depth,
            cooldown_ms,
            TURN_TTL_MS,
        ]
        answer: bytes = await within(self._pace([self._keys.person(user_id)], args))
        return Paced(answer.decode())

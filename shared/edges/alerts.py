"""Raising alerts: onto a stream, each once in a while.

Comes in: `Alert`s of any process. Goes out: entries that gateways post in the operators' channel.
"""

from typing import Final

from redis.asyncio import Redis

from shared.alerts import QUIET_MS, Alert
from shared.edges.redis import within
from shared.edges.scripting import Script
from shared.keys import Keys
from shared.wire import encode_json

ALERTS_MAX: Final = 1_000
"""Alerts that wait where no channel takes them. An alert is a hint: what it tells of is recorded
elsewhere, so the oldest may go."""


class Alerts:
    """The alerts of one cell."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._keys = keys
        self._alert = Script(redis, "alert")

    async def send(self, alert: Alert) -> bool:
        """Raises an alert; False if the same one was raised lately.

        Raises:
            StoreUnavailable: nobody answers.
        """
        keys = [self._keys.alert_mark(alert.name), self._keys.alerts]
        args: list[str | bytes | int] = [QUIET_MS[alert.kind], ALERTS_MAX, encode_json(alert)]
        return bool(await within(self._alert(keys, args)))

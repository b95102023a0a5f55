"""The alarm: looks at the failures of the last minutes, and says what an operator should see.

Comes in: the database. Goes out: alerts. The recorder runs it. What is muted is never said.
"""

import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Final

from ops.store.engine import Database
from ops.triage.causes import Spike, TopCause, spikes, top_causes
from ops.triage.errors import ErrorFilter
from shared.alerts import Alert, AlertKind
from shared.errors import StoreError
from shared.logs import fields

WINDOW: Final = timedelta(minutes=10)
"""What is looked at: long enough for a rate, short enough to be news."""
FACTOR: Final = 3.0
"""How much more than usual is a spike; the rules for Prometheus have the same."""
MUTED: Final = "muted"

_log = logging.getLogger(__name__)


class Alarm:
    """Looks, and raises what it finds.

    Args:
        database: to ask.
        send: raises an alert, unless it was raised lately.
    """

    def __init__(self, database: Database, send: Callable[[Alert], Awaitable[bool]]) -> None:
        self._database = database
        self._send = send

    async def look(self, now: datetime) -> list[Alert]:
        """Raises what is new, back, or too frequent. Returns what was raised.

        While database or Redis are away there is nothing to say; the next look finds the same.
        """
        try:
            found = await self._found(now)
            return [alert for alert in found if await self._send(alert)]
        except StoreError as exc:
            _log.debug("alarm.not_looked", extra=fields(why=str(exc)))
            return []

    async def _found(self, now: datetime) -> list[Alert]:
        since = now - WINDOW
        causes = await top_causes(self._database, ErrorFilter(since=since))
        sudden = await spikes(self._database, now=now, window=WINDOW, factor=FACTOR)
        new = [_of_cause(one, since) for one in causes if one.status != MUTED]
        known = {alert.subject for alert in new if alert is not None}
        # A new cause is a spike as well; once is enough.
        frequent = [_of_spike(one) for one in sudden if one.group_hash not in known]
        return [alert for alert in (*new, *frequent) if alert is not None]


def _of_cause(cause: TopCause, since: datetime) -> Alert | None:
    is_back = cause.regressed_at is not None and cause.regressed_at >= since
    if not (cause.is_new or is_back):
        return None
    return Alert(
        kind=AlertKind.NEW_CAUSE if cause.is_new else AlertKind.REGRESSED,
        subject=cause.group_hash,
        cause=cause.error_type,
        count=cause.errors,
        guilds=cause.guilds,
    )


def _of_spike(spike: Spike) -> Alert:
    return Alert(
        kind=AlertKind.SPIKE,
        subject=spike.group_hash,
        cause=spike.error_type,
        count=spike.errors,
        usual=spike.usual,
    )

"""Times without Redis, as two log lines each.

Comes in: failed and successful calls. Goes out: one line when an outage begins and one when it
ends, not one per try. `FleetWorker` uses it.
"""

import logging

from shared.logs import fields

log = logging.getLogger(__name__)


class Outage:
    """Whether Redis is away, as one process sees it."""

    def __init__(self) -> None:
        self.is_on = False

    def began(self, exc: Exception) -> None:
        """Says that a call failed."""
        if not self.is_on:
            log.warning("redis.away", extra=fields(reason=str(exc) or type(exc).__name__))
        self.is_on = True

    def ended(self) -> None:
        """Says that a call was answered."""
        if self.is_on:
            log.info("redis.back")
        self.is_on = False

"""Guilds that removed the bot: a month later nothing of theirs is kept.

Comes in: what changed in Discord. Goes out: the same to whoever heeds it, and notes of whom to
forget and when. The composition root puts it before the heeding of changes.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from gateway.edges.mishaps import Tell, mishap, to_nobody
from gateway.front import Change, PlaceChanged, PlaceGone
from gateway.ports import Heed
from shared.edges.forgetting import REMOVAL_DELAY_MS, Forgetter, Kind, Subject, digest_of
from shared.errors import StoreError, StoreFull, StoreUnavailable

LOOK_S: Final = 600.0
"""How often is looked who is due. A month has 4,320 of these."""

_log = logging.getLogger(__name__)


class Departures:
    """Notes departures and forgets who is due.

    Args:
        heed: what else a change means.
        forgetter: of the cell.
        now_ms: the wall clock.
        tell: takes reports of guilds that cannot be forgotten.
    """

    def __init__(
        self,
        heed: Heed,
        forgetter: Forgetter,
        *,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        tell: Tell = to_nobody,
    ) -> None:
        self._heed = heed
        self._forgetter = forgetter
        self._now_ms = now_ms
        self._tell = tell

    async def heed(self, change: Change, bot_id: int) -> None:
        """Takes one change; a note that the store cannot take now is left."""
        try:
            await self._note(change)
        except StoreError as exc:
            _log.warning("departures.left", extra={"error": str(exc)})
        await self._heed(change, bot_id)

    async def _note(self, change: Change) -> None:
        match change:
            case PlaceGone(channel_id=None, guild_id=int(guild_id)):
                due_ms = self._now_ms() + REMOVAL_DELAY_MS
                await self._forgetter.schedule(Subject(Kind.GUILD, guild_id), due_ms)
                _log.info("departures.noted", extra={"guild_id": guild_id, "due_ms": due_ms})
            case PlaceChanged(channel_id=None, guild_id=int(guild_id)):
                await self._forgetter.keep(Subject(Kind.GUILD, guild_id))
            case _:
                return

    async def look(self) -> int:
        """Forgets who is due; two gateways at once do it twice, which changes nothing.

        Whoever cannot be forgotten is reported, stays due, and keeps nobody else from it.

        Returns:
            How many were forgotten.

        Raises:
            StoreUnavailable, StoreFull: nobody can be forgotten now.
        """
        count = 0
        for noted in await self._forgetter.due(self._now_ms()):
            try:
                subject = Subject.parsed(noted)
                await self._forgetter.forget(subject)
                await self._forgetter.keep(subject)
            except (StoreUnavailable, StoreFull):
                raise
            except Exception as exc:  # noqa: BLE001 - one guild must not end the gateway
                digest = digest_of(noted)
                _log.exception("departures.failed", extra={"subject": digest})
                await self._tell(mishap("departures", exc, subject=digest))
            else:
                _log.info("departures.forgotten", extra={"subject": subject.digest})
                count += 1
        return count

    async def run(self) -> None:
        """Looks again and again, until it is cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except StoreError as exc:
                _log.warning("departures.not_forgotten", extra={"error": str(exc)})

"""What a turn reads at claim, and what it leaves for the next one.

Comes in: turns. Goes out: the same with the channel's history, files and notes; questions that fit
their model. It is the real `ContextPort` of `worker.turn`; only `worker.app` constructs it.

History is read when the turn is claimed, so that one that waited sees the reply before it. While
Redis is away it waits, as all of a turn does.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import msgspec

from shared.configuration.loading import Loaded
from shared.configuration.settling import entry_of
from shared.edges.history import ChannelHistory
from shared.errors import StoreError, StoreUnavailable
from shared.history import Context, Reading, Remembered, owner_of
from shared.logs import fields
from shared.turns import TurnOutcome, TurnRequest, TurnState
from worker.edges.attachments import Attachments
from worker.providers.conversation import Files, conversed, fitted
from worker.providers.requests import ModelRequest

AWAY_S: Final = 0.2
"""Between tries while Redis is away: soon after it is back."""

log = logging.getLogger(__name__)


class ChannelContext:
    """The context of turns.

    Args:
        history: what was said.
        attachments: fetches files.
        loaded: gives the configuration of this process.
    """

    def __init__(
        self,
        history: ChannelHistory,
        attachments: Attachments,
        loaded: Callable[[], Loaded],
    ) -> None:
        self._history = history
        self._attachments = attachments
        self._loaded = loaded

    async def prepared(self, request: TurnRequest) -> TurnRequest:
        """The turn with all that it reads. Cancelled, it leaves nothing behind."""
        reading = request.reading
        if reading is None:
            return request
        limits = self._loaded().configuration.limits
        files = Files()
        if reading.attachments:
            files = await self._attachments.read(reading.attachments, limits)
        remembered, notes = await self._patiently(request.route.channel_id, reading)
        return conversed(request, remembered, files, max_tokens=limits.context_tokens, notes=notes)

    async def _patiently(
        self, channel_id: int, reading: Reading
    ) -> tuple[list[Remembered], list[str]]:
        """What the channel's memory has, however long Redis is away."""
        while True:
            try:
                remembered: list[Remembered] = []
                if reading.context is not Context.NONE:
                    remembered = await self._history.read(channel_id, before=reading.before)
                notes = await self._history.notes(channel_id) if reading.details_hours else []
            except StoreUnavailable as exc:
                log.debug("context.waits", extra=fields(reason=str(exc)))
                await asyncio.sleep(AWAY_S)
            else:
                return remembered, notes

    def fitted(self, question: ModelRequest) -> ModelRequest:
        """The question as its model can read it: without pictures, or shorter."""
        entry = entry_of(self._loaded().configuration, question.target)
        if entry is None:
            return question
        if entry.vision is not None:
            question = msgspec.structs.replace(question, reads_images=entry.vision)
        if entry.context_tokens is None:
            return question
        return fitted(question, entry.context_tokens - question.sampling.max_tokens)

    async def noted(self, request: TurnRequest, outcome: TurnOutcome) -> None:
        """Keeps what a whole reply noted for later ones. It never raises."""
        reading = request.reading
        is_whole = outcome.state is TurnState.DONE
        if reading is None or not (is_whole and outcome.details and reading.details_hours):
            return
        notes = [note.strip() for note in outcome.details if note.strip()]
        try:
            route, hours = request.route, reading.details_hours
            owner = owner_of(route.guild_id, route.user_id)
            await self._history.note(route.channel_id, notes, hours=hours, owner=owner)
        except StoreError as exc:
            log.warning("context.not_noted", extra=fields(reason=str(exc)))

"""What people take back, and what places go away: edits, deletions, channels, guilds.

Comes in: events of a front that are no prompts. Goes out: to the queue (a waiting prompt is
amended, a deleted one stopped), to delivery (nothing more is said where nothing can be).
`gateway.app` gives it to intake. Losing such an event to a crash costs an answer that nobody reads.
"""

import logging
from collections.abc import Callable
from typing import Protocol, assert_never

from gateway.addressing import text_without_call
from gateway.delivery.channels import BlockedChannels
from gateway.front import Change, PlaceChanged, PlaceGone, PromptEdited, PromptsDeleted
from gateway.ports import Prompts
from shared.errors import StoreFull, StoreUnavailable

logger = logging.getLogger(__name__)


class Places(Protocol):
    """Which channels refuse us. Every call may raise `StoreUnavailable` and be repeated."""

    async def block_channel(self, channel_id: int) -> None:
        """Marks a channel as refusing."""
        ...

    async def unblock_channel(self, channel_id: int) -> None:
        """Takes the mark away."""
        ...


class Changes:
    """Heeds what changes.

    Args:
        prompts: the turns that people may still change.
        places: where nothing is admitted.
        channels: where delivery says nothing.
        now_s: delivery's clock.
    """

    def __init__(
        self,
        prompts: Prompts,
        places: Places,
        channels: BlockedChannels,
        now_s: Callable[[], float],
    ) -> None:
        self._prompts = prompts
        self._places = places
        self._channels = channels
        self._now_s = now_s

    async def heed(self, change: Change, bot_id: int) -> None:
        """Takes one change; one that the store cannot take now is left."""
        try:
            await self._heed(change, bot_id)
        except (StoreUnavailable, StoreFull) as exc:
            logger.warning("changes.left", extra={"error": str(exc)})

    async def _heed(self, change: Change, bot_id: int) -> None:
        match change:
            case PromptEdited():
                text = text_without_call(change.text, bot_id)
                if text and await self._prompts.amend(change.turn_id, text):
                    logger.info("changes.amended", extra={"turn_id": change.turn_id})
            case PromptsDeleted():
                for turn_id in change.turn_ids:
                    await self._prompts.withdraw(turn_id)
            case PlaceGone():
                await self._leave(change)
            case PlaceChanged():
                await self._return(change)
            case _:
                assert_never(change)

    async def _leave(self, gone: PlaceGone) -> None:
        facts = {"channel_id": gone.channel_id, "guild_id": gone.guild_id}
        logger.info("changes.place_gone", extra=facts)
        if gone.channel_id is None:
            self._channels.block_guild(gone.guild_id, self._now_s())
            return
        self._channels.block(gone.channel_id, gone.guild_id, self._now_s())
        await self._places.block_channel(gone.channel_id)

    async def _return(self, changed: PlaceChanged) -> None:
        freed = [] if changed.channel_id is None else [changed.channel_id]
        if changed.channel_id is None:
            freed = self._channels.unblock_guild(changed.guild_id)
        for channel_id in freed:
            self._channels.unblock(channel_id)
            await self._places.unblock_channel(channel_id)

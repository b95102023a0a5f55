"""What is said in channels, kept for the models to read: people's messages and our own.

Comes in: prompts, edits, deletions; what delivery says, rewrites and deletes. Goes out: to
`shared.edges.history`. `gateway.app` composes it. Notices are never kept, and what a superseded
attempt showed is rewritten and deleted here as it is in the channel.

Memory is a help, not a promise: a store that is away costs a message of context, never a reply.
"""

import logging
import re
from collections.abc import Awaitable, Callable

import msgspec

from gateway.addressing import is_addressed
from gateway.context import remembered_of
from gateway.front import (
    Button,
    Change,
    History,
    Outcome,
    OutgoingFile,
    OutgoingMessage,
    Prompt,
    PromptEdited,
    PromptsDeleted,
    Sent,
    Voice,
)
from gateway.ports import Heed
from shared.edges.history import ChannelHistory
from shared.errors import StoreError
from shared.history import Remembered, owner_of
from shared.turns import Route

logger = logging.getLogger(__name__)

_MESSAGE_TURN = re.compile(r"[ml](\d+)")


class ChannelMemory:
    """Keeps what is said.

    Args:
        history: where.
    """

    def __init__(self, history: ChannelHistory) -> None:
        self._history = history

    async def seen(self, prompt: Prompt) -> None:
        """Keeps a person's message, and the one that it answers."""
        said = [remembered_of(prompt)] if prompt.text.strip() or prompt.attachments else []
        is_with_bot = is_addressed(prompt)
        if prompt.replied is not None and is_with_bot:
            said.insert(0, prompt.replied)
        owner = owner_of(prompt.guild_id, prompt.user_id)
        for message in said:
            owned = msgspec.structs.replace(message, owner=owner)
            await self._try(
                self._history.remember(prompt.channel_id, owned, is_with_bot=is_with_bot)
            )

    async def changed(self, change: Change) -> None:
        """Follows an edit or a deletion."""
        if isinstance(change, PromptEdited):
            if (message_id := _message_of(change.turn_id)) is not None:
                await self._try(self._history.amend(change.channel_id, message_id, change.text))
        elif isinstance(change, PromptsDeleted):
            found = [_message_of(turn_id) for turn_id in change.turn_ids]
            gone = [one for one in found if one is not None]
            await self._try(self._history.forget(change.channel_id, *gone))

    def heeding(self, heed: Heed) -> Heed:
        """Follows changes before `heed` does."""

        async def both(change: Change, bot_id: int) -> None:
            await self.changed(change)
            await heed(change, bot_id)

        return both

    def voices(
        self, voice_of: Callable[[Route], Voice] | None, own: Voice
    ) -> Callable[[Route], Voice]:
        """The same voices, or the front's own; what they say is kept."""
        return lambda route: RememberingVoice(
            own if voice_of is None else voice_of(route), self, route
        )

    async def said(self, route: Route, message_id: int, text: str) -> None:
        """Keeps a message of ours."""
        own = Remembered(
            id=message_id,
            user_id=0,
            text=text,
            is_own=True,
            reply_to=route.reply_to,
            owner=owner_of(route.guild_id, route.user_id),
        )
        await self._try(self._history.remember(route.channel_id, own))

    async def unsaid(self, channel_id: int, message_id: int) -> None:
        """Takes a message of ours out."""
        await self._try(self._history.forget(channel_id, message_id))

    async def _try(self, call: Awaitable[None]) -> None:
        try:
            await call
        except StoreError as exc:
            logger.debug("memory.missed", extra={"error": str(exc)})


class RememberingVoice:
    """A voice whose words are kept.

    Args:
        voice: who speaks.
        memory: what keeps.
        route: of the turn that is answered.
    """

    def __init__(self, voice: Voice, memory: ChannelMemory, route: Route) -> None:
        self._voice = voice
        self._memory = memory
        self._route = route

    async def send(self, message: OutgoingMessage) -> Outcome:
        """Posts a message; a notice is not kept."""
        outcome = await self._voice.send(message)
        if isinstance(outcome, Sent) and message.text and not message.is_notice:
            await self._memory.said(self._route, outcome.message_id, message.text)
        return outcome

    async def edit(
        self,
        channel_id: int,
        message_id: int,
        text: str,
        *,
        is_notice: bool = False,
        files: tuple[OutgoingFile, ...] = (),
        buttons: tuple[Button, ...] = (),
    ) -> Outcome:
        """Rewrites a message; one that becomes a notice is forgotten."""
        outcome = await self._voice.edit(
            channel_id, message_id, text, is_notice=is_notice, files=files, buttons=buttons
        )
        if isinstance(outcome, Sent):
            if is_notice or not text:
                await self._memory.unsaid(channel_id, message_id)
            else:
                await self._memory.said(self._route, message_id, text)
        return outcome

    async def disarm(self, channel_id: int, message_id: int) -> Outcome:
        """Takes away what can be pressed: nothing is said by it."""
        return await self._voice.disarm(channel_id, message_id)

    async def delete(self, channel_id: int, message_id: int) -> Outcome:
        """Deletes a message."""
        outcome = await self._voice.delete(channel_id, message_id)
        await self._memory.unsaid(channel_id, message_id)
        return outcome

    async def history(self, channel_id: int, *, after: int, limit: int) -> History:
        """The oldest messages after an id."""
        return await self._voice.history(channel_id, after=after, limit=limit)


def _message_of(turn_id: str) -> int | None:
    found = _MESSAGE_TURN.fullmatch(turn_id)
    return None if found is None else int(found[1])

"""The local channel as a front. Comes in: prompts from Redis. Goes out: messages into Redis.

It implements `gateway.front.ChannelFront` over `shared.edges.local_channel`. `gateway.app` imports
it.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Final

from gateway.front import (
    Button,
    FrontEvent,
    History,
    Outcome,
    OutgoingFile,
    OutgoingMessage,
    Prompt,
    Refusal,
    Refused,
    Sent,
    ShownMessage,
    Unavailable,
)
from shared.edges.local_channel import LocalChannel, LocalMessage, LocalPrompt
from shared.errors import StoreFull, StoreUnavailable
from shared.turns import Front

logger = logging.getLogger(__name__)

BOT_USER_ID: Final = 0
"""The bot's own user in local channels; people count from 1."""
PENDING_EVERY: Final = 10
"""Idle reads (a second each) between looks at prompts that were read and never acknowledged."""
RETRY_S: Final = 0.5
"""How often a server that is away is asked again."""
AWAY: Final = (StoreUnavailable, StoreFull)
"""Both pass: a message waits for memory like for a server."""


class LocalFront:
    """The front of local channels.

    Args:
        channel: the channels, over a client for short commands.
        prompts: the same over a client for blocking reads.
    """

    def __init__(self, channel: LocalChannel, prompts: LocalChannel) -> None:
        self._channel = channel
        self._prompts = prompts
        self._is_closed = False

    @property
    def bot_id(self) -> int:
        """The bot's own user."""
        return BOT_USER_ID

    async def connect(self) -> None:
        """Connects: nothing is needed, Redis was checked before."""

    async def events(self) -> AsyncIterator[FrontEvent]:
        """Prompts until `close`, those first that were read before and never handled."""
        idle_reads = PENDING_EVERY
        while not self._is_closed:
            try:
                found = [] if idle_reads < PENDING_EVERY else await self._prompts.pending_prompts()
                if idle_reads >= PENDING_EVERY:
                    idle_reads = 0
                found += await self._prompts.next_prompts()
            except AWAY as exc:
                logger.debug("local.store_waits", extra={"error": str(exc)})
                idle_reads = PENDING_EVERY  # what was read meanwhile may be lost
                await asyncio.sleep(RETRY_S)
                continue
            idle_reads = idle_reads + 1 if not found else 0
            for prompt in found:
                yield _prompt_of(prompt)

    async def handled(self, prompt: Prompt) -> None:
        """Acknowledges the prompt. Raises `StoreUnavailable`; the prompt then comes again."""
        if prompt.receipt is not None:
            await self._channel.ack_prompt(prompt.receipt)

    async def with_roles(self, prompt: Prompt) -> Prompt | Refused | Unavailable:
        """Nobody has roles here."""
        return prompt

    async def send(self, message: OutgoingMessage) -> Outcome:
        """Posts a message, once per nonce. Cancelled, it may or may not have been posted.

        Files are refused: a terminal and a page read text, and the same text comes instead.
        """
        if message.files:
            return Refused(refusal=Refusal.FILES)
        local = LocalMessage(
            channel_id=message.channel_id,
            user_id=BOT_USER_ID,
            text=message.text,
            is_bot=True,
            nonce=message.nonce,
            reply_to=message.reply_to,
            is_notice=message.is_notice,
        )
        try:
            posted = await self._channel.post(local)
        except ValueError:
            return Refused(refusal=Refusal.CONTENT)
        except AWAY:
            return Unavailable(reason="store")
        if posted.message_id == 0:
            return Refused(refusal=Refusal.GONE)
        return Sent(message_id=posted.message_id, deduplicated=not posted.is_new)

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
        """Replaces a message's text, and what it is; files are refused as in `send`."""
        del buttons  # nobody can press them here
        if files:
            return Refused(refusal=Refusal.FILES)
        try:
            done = await self._channel.edit(channel_id, message_id, text, is_notice=is_notice)
        except ValueError:
            return Refused(refusal=Refusal.CONTENT)
        except AWAY:
            return Unavailable(reason="store")
        return Sent(message_id=message_id) if done else Refused(refusal=Refusal.GONE)

    async def disarm(self, channel_id: int, message_id: int) -> Outcome:
        """Nothing can be pressed here."""
        del channel_id
        return Sent(message_id=message_id)

    async def delete(self, channel_id: int, message_id: int) -> Outcome:
        """Deletes a message."""
        try:
            done = await self._channel.delete(channel_id, message_id)
        except AWAY:
            return Unavailable(reason="store")
        return Sent(message_id=message_id) if done else Refused(refusal=Refusal.GONE)

    async def typing(self, channel_id: int) -> None:
        """Shows the typing sign; a failure is of no account."""
        try:
            await self._channel.typing(channel_id)
        except AWAY:
            logger.debug("local.typing_failed", extra={"channel_id": channel_id})

    async def history(self, channel_id: int, *, after: int, limit: int) -> History:
        """The oldest `limit` messages after an id; not while Redis is away."""
        try:
            messages = await self._channel.messages(channel_id)
        except AWAY:
            return Unavailable(reason="store")
        later = [message for message in messages if message.id > after]
        return tuple(
            ShownMessage(
                message_id=message.id,
                text=message.text,
                is_own=message.is_bot,
                nonce=message.nonce,
            )
            for message in later[:limit]
        )

    async def leave(self) -> None:
        """Nothing is held here that another process waits for."""

    async def close(self) -> None:
        """Ends `events` after the read in hand, within a second."""
        self._is_closed = True


def _prompt_of(prompt: LocalPrompt) -> Prompt:
    message = prompt.message
    return Prompt(
        front=Front.LOCAL,
        message_id=message.id,
        channel_id=message.channel_id,
        user_id=message.user_id,
        guild_id=message.guild_id,
        text=message.text,
        reply_to=message.reply_to,
        mentions_bot=True,
        target=message.target,
        locale=message.locale,
        receipt=prompt.receipt,
    )

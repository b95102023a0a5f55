"""Discord as a front, on hikari with its cache off.

Comes in: Discord's events. Goes out: requests to Discord. It implements
`gateway.front.ChannelFront`; `gateway.app` imports it.

Sockets die and processes are killed; what was written meanwhile is found again: a guild that comes
into sight names its channels and their last messages, and the history of those that moved since the
last mark of life is read. Turn ids are made of message ids, so that a message that is found twice
is one turn.

Not done yet: shards spread over several gateways.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

import hikari
import msgspec

from gateway.addressing import named
from gateway.asks import Answers, Ask
from gateway.edges.discord_backfill import MAX_MESSAGES, Backfill, Marks, Moved
from gateway.edges.discord_changes import change_of
from gateway.edges.discord_connection import DiscordConnection, DiscordOptions
from gateway.edges.discord_errors import outcome_of
from gateway.edges.discord_interactions import INTERACTIONS, DiscordAnswers, ask_of
from gateway.edges.discord_places import Places
from gateway.edges.discord_prompts import echo_of, prompt_of, shown_of
from gateway.front import (
    Boundless,
    Budget,
    Button,
    FrontEvent,
    History,
    Outcome,
    OutgoingFile,
    OutgoingMessage,
    Prompt,
    Rank,
    Refused,
    Sent,
    Unavailable,
)
from shared.errors import ConfigError, StoreFull, StoreUnavailable

logger = logging.getLogger(__name__)

CALL_TIMEOUT_S: Final = 60.0
"""A request with its wait for a slot of the bucket; then the courier asks again."""
TYPING_TIMEOUT_S: Final = 5.0
"""A sign that is late is of no use; it must not wait for a slot that an answer needs."""
MAX_EVENTS: Final = 10_000
"""Prompts received and not taken; admission refuses at the same depth."""
ALIVE_EVERY_S: Final = 5.0
"""How often the mark of life is written while everything that came is taken."""
NOT_CONNECTED_S: Final = 0.5
"""Asking our own connection costs nothing: answers go out as soon as it stands."""
BUTTONS_OF_A_ROW: Final = 5
RETRY_STORE_S: Final = 0.5
"""How often a server that is away is asked again."""

Call = Callable[[hikari.api.RESTClient], Awaitable[Sent]]
TakeAsk = Callable[[Ask, Answers], Awaitable[None]]

_PASSING = (hikari.HikariError, OSError, TimeoutError)


class DiscordFront:
    """The front of one bot user.

    Args:
        options: token and address.
        marks: what outlives the process.
        budget: how many requests may be made: asked for typing signs and history here, for
            messages by whoever sends them.
        alive_every_s: how often the mark of life is written.
    """

    def __init__(
        self,
        options: DiscordOptions,
        marks: Marks,
        *,
        budget: Budget | None = None,
        alive_every_s: float = ALIVE_EVERY_S,
    ) -> None:
        self._budget = budget or Boundless()
        self._names = options.names
        self._alive_every_s = alive_every_s
        self._backfill = Backfill(marks)
        self._incoming: asyncio.Queue[FrontEvent | Moved | ConfigError | None] = asyncio.Queue(
            MAX_EVENTS
        )
        self._untaken: set[int] = set()
        self._keepers: list[asyncio.Task[None]] = []
        self._connection = DiscordConnection(
            options,
            on_message=self._on_message,
            on_guild=self._on_guild,
            on_interaction=self._on_interaction,
            on_change=self._on_change,
        )
        self._places = Places()
        self._take_ask: TakeAsk | None = None

    @property
    def bot_id(self) -> int:
        """Our own user, known once `connect` is done."""
        return self._connection.bot_id

    def answer(self, take: TakeAsk) -> None:
        """Gives every command, button and form from now on to `take`."""
        self._take_ask = take

    async def connect(self) -> None:
        """Connects, however long Discord is away.

        Raises:
            ConfigError: the token or the intents are refused.
        """
        direct: list[Moved] | None = None
        while direct is None:
            try:
                await self._backfill.begin(_now_ms())
                direct = await self._backfill.direct()
            except (StoreUnavailable, StoreFull):
                await asyncio.sleep(RETRY_STORE_S)
        await self._connection.open()
        for moved in direct:
            self._put(moved)
        self._keepers = [
            asyncio.create_task(self._keep(), name="discord connection"),
            asyncio.create_task(self._note_life(), name="discord life"),
        ]

    async def events(self) -> AsyncIterator[FrontEvent]:
        """Prompts and echoes until `close`, with those that were missed before.

        Raises:
            ConfigError: Discord ended the connection for good.
        """
        while (event := await self._incoming.get()) is not None:
            if isinstance(event, ConfigError):
                raise event
            if isinstance(event, Moved):
                for prompt in await self._missed(event):
                    yield prompt
            else:
                yield event

    async def handled(self, prompt: Prompt) -> None:
        """Notes that a prompt was taken; the mark of life may move on."""
        if prompt.guild_id is None:
            with contextlib.suppress(StoreFull):  # a mark for the next start; the prompt was taken
                await self._backfill.note_direct_channel(prompt.channel_id)
        self._untaken.discard(prompt.message_id)

    async def send(self, message: OutgoingMessage) -> Outcome:
        """Posts a message. Cancelled, it may or may not have been posted."""
        attachments = [hikari.Bytes(file.data, file.name) for file in message.files]

        async def post(rest: hikari.api.RESTClient) -> Sent:
            made = await rest.create_message(
                message.channel_id,
                message.text or hikari.UNDEFINED,
                attachments=attachments or hikari.UNDEFINED,
                nonce=message.nonce,
                reply=message.reply_to or hikari.UNDEFINED,
                reply_must_exist=False if message.reply_to else hikari.UNDEFINED,
                mentions_everyone=False,
                mentions_reply=False,
                role_mentions=False,
                user_mentions=list(message.may_ping),
                components=rows_of(message.buttons) or hikari.UNDEFINED,
            )
            # A nonce that was used before gives back the message of then, whatever it says.
            is_other = (made.content or "").strip() != message.text.strip()
            return Sent(message_id=int(made.id), deduplicated=is_other)

        return await self.ask(post)

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
        """Replaces what a message shows; a notice looks like any other message here."""
        del is_notice
        attachments = [hikari.Bytes(file.data, file.name) for file in files]

        async def patch(rest: hikari.api.RESTClient) -> Sent:
            await rest.edit_message(
                channel_id,
                message_id,
                text or None,
                attachments=attachments or None,
                components=rows_of(buttons) or None,
                mentions_everyone=False,
                mentions_reply=False,
                role_mentions=False,
                user_mentions=False,
            )
            return Sent(message_id=message_id)

        return await self.ask(patch)

    async def disarm(self, channel_id: int, message_id: int) -> Outcome:
        """Takes away what can be pressed below a message; the request names no text."""

        async def strip(rest: hikari.api.RESTClient) -> Sent:
            await rest.edit_message(channel_id, message_id, components=None)
            return Sent(message_id=message_id)

        return await self.ask(strip)

    async def delete(self, channel_id: int, message_id: int) -> Outcome:
        """Deletes a message."""

        async def remove(rest: hikari.api.RESTClient) -> Sent:
            await rest.delete_message(channel_id, message_id)
            return Sent(message_id=message_id)

        return await self.ask(remove)

    async def typing(self, channel_id: int) -> None:
        """Shows the typing sign for ten seconds; a failure is of no account.

        Where many requests are made, it is left out now and then.
        """
        rest = self._connection.rest
        if rest is None or not await self._budget.may(Rank.TYPING):
            return
        try:
            async with asyncio.timeout(TYPING_TIMEOUT_S):
                await rest.trigger_typing(channel_id)
        except _PASSING as exc:
            logger.debug("discord.typing_failed", extra={"error": type(exc).__name__})

    async def history(
        self, channel_id: int, *, after: int, limit: int, own: frozenset[int] = frozenset()
    ) -> History:
        """The oldest `limit` messages after an id.

        `own` are authors beside the bot that are ours: webhooks.
        """
        found = await self._fetch(channel_id, after=after, limit=limit)
        if not isinstance(found, list):
            return found if isinstance(found, Unavailable) else None
        return tuple(shown_of(message, own | {self.bot_id}) for message in found)

    async def close(self) -> None:
        """Stops receiving and ends `events`. Safe to call twice."""
        keepers, self._keepers = self._keepers, []
        for keeper in keepers:
            keeper.cancel()
        if keepers:
            await asyncio.wait(keepers)
        await self._connection.close()
        if not self._incoming.full():
            self._incoming.put_nowait(None)

    async def _on_message(self, event: hikari.MessageCreateEvent) -> None:
        echo = echo_of(event.message, self.bot_id)
        if echo is not None:
            self._put(echo)
            return
        guild_id = (
            int(event.guild_id) if isinstance(event, hikari.GuildMessageCreateEvent) else None
        )
        plain = prompt_of(event.message, self.bot_id, guild_id)
        prompt = named(self._places.placed(plain), self._names)
        if not prompt.from_bot and self._put(prompt):
            self._untaken.add(prompt.message_id)

    async def _on_change(self, event: hikari.Event) -> None:
        self._places.heed(event)
        change = change_of(event)
        if change is not None:
            self._put(change)

    async def _on_guild(self, event: hikari.GuildAvailableEvent) -> None:
        self._places.of_guild(event)
        for moved in self._backfill.of_guild(event):
            self._put(moved)

    async def _on_interaction(self, event: hikari.InteractionCreateEvent) -> None:
        interaction, rest = event.interaction, self._connection.rest
        if self._take_ask is None or rest is None or not isinstance(interaction, INTERACTIONS):
            return
        ask = ask_of(interaction)
        is_restricted = self._places.is_restricted(ask.caller.channel_id, ask.caller.parent_id)
        caller = msgspec.structs.replace(ask.caller, is_age_restricted=is_restricted)
        ask = msgspec.structs.replace(ask, caller=caller)
        await self._take_ask(ask, DiscordAnswers(rest, interaction))

    def _put(self, event: FrontEvent | Moved) -> bool:
        try:
            self._incoming.put_nowait(event)
        except asyncio.QueueFull:
            logger.warning("discord.event_dropped", extra={"limit": MAX_EVENTS})
            return False
        return True

    async def _keep(self) -> None:
        try:
            await self._connection.keep()
        except ConfigError as exc:
            await self._incoming.put(exc)

    async def _note_life(self) -> None:
        while True:
            await asyncio.sleep(self._alive_every_s)
            if not self._connection.is_whole or self._untaken or not self._incoming.empty():
                continue
            try:
                await self._backfill.note_alive(_now_ms())
            except (StoreUnavailable, StoreFull):
                logger.debug("discord.mark_failed")

    async def _missed(self, moved: Moved) -> list[Prompt]:
        fetched = await self._fetch(moved.channel_id, after=moved.after, limit=MAX_MESSAGES)
        found = fetched if isinstance(fetched, list) else []
        plain = [
            prompt_of(message, self.bot_id, moved.guild_id, backfilled=True) for message in found
        ]
        prompts = [named(self._places.placed(prompt), self._names) for prompt in plain]
        return [prompt for prompt in prompts if not prompt.from_bot]

    async def _fetch(
        self, channel_id: int, *, after: int, limit: int
    ) -> list[hikari.Message] | Refused | Unavailable:
        rest = self._connection.rest
        if rest is None:
            return Unavailable(reason="not_connected", retry_after_s=NOT_CONNECTED_S)
        await self._budget.permit(Rank.EDIT)
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                return list(await rest.fetch_messages(channel_id, after=after).limit(limit))
        except _PASSING as exc:
            logger.debug("discord.history_failed", extra={"error": type(exc).__name__})
            return outcome_of(exc)

    async def ask(self, call: Call) -> Outcome:
        """Makes requests, and says what came of them. Cancelled, they may have arrived."""
        rest = self._connection.rest
        if rest is None:
            return Unavailable(reason="not_connected", retry_after_s=NOT_CONNECTED_S)
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                return await call(rest)
        except _PASSING as exc:
            outcome = outcome_of(exc)
            if isinstance(outcome, Refused):
                facts = {"refusal": outcome.refusal.value, "code": outcome.code}
                logger.info("discord.refused", extra=facts)
            return outcome


def rows_of(buttons: tuple[Button, ...]) -> list[hikari.api.ComponentBuilder]:
    """Buttons as Discord's rows of at most five."""
    rows: list[hikari.api.ComponentBuilder] = []
    for at in range(0, len(buttons), BUTTONS_OF_A_ROW):
        row = hikari.impl.MessageActionRowBuilder()
        for button in buttons[at : at + BUTTONS_OF_A_ROW]:
            row.add_interactive_button(
                hikari.ButtonStyle.SECONDARY, button.custom_id, label=button.label
            )
        rows.append(row)
    return rows


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

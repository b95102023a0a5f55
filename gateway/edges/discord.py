"""Discord as a front, on hikari with its cache off.

Comes in: Discord's events. Goes out: requests to Discord. It implements
`gateway.front.ChannelFront`; `gateway.app` imports it.

Sockets die and processes are killed; what was written meanwhile is found again: a guild that comes
into sight names its channels and their last messages, and the history of those that moved since the
last mark of life is read. Turn ids are made of message ids, so that a message that is found twice
is one turn. Several gateways may share the shards of a bot, each with its own (`discord_tending`);
messages and requests are anybody's.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final, TypeVar

import hikari
import msgspec

from gateway.asks import Answers, Ask
from gateway.edges.discord_backfill import MAX_MESSAGES, Marks, Moved
from gateway.edges.discord_connection import DiscordConnection, DiscordOptions
from gateway.edges.discord_errors import in_time, outcome_of
from gateway.edges.discord_inbox import MAX_EVENTS
from gateway.edges.discord_incoming import Incoming
from gateway.edges.discord_interactions import INTERACTIONS, DiscordAnswers, ask_of
from gateway.edges.discord_members import Members, Roles
from gateway.edges.discord_prompts import roles_of, shown_of
from gateway.edges.refusals import Note
from gateway.edges.shard_leases import Alone, ShardLeases
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
    Refusal,
    Refused,
    Sent,
    Unavailable,
)
from shared.errors import ConfigError

logger = logging.getLogger(__name__)

CALL_TIMEOUT_S: Final = 60.0
"""A request with its wait for a slot of the bucket; then the courier asks again."""
TYPING_TIMEOUT_S: Final = 5.0
"""A sign that is late is of no use; it must not wait for a slot that an answer needs."""
ALIVE_EVERY_S: Final = 5.0
"""How often the mark of life is written while everything that came is taken."""
NOT_CONNECTED_S: Final = 0.5
"""Asking our own connection costs nothing: answers go out as soon as it stands."""
BUTTONS_OF_A_ROW: Final = 5

Call = Callable[[hikari.api.RESTClient], Awaitable[Sent]]
T = TypeVar("T")
TakeAsk = Callable[[Ask, Answers], Awaitable[None]]

_PASSING = (hikari.HikariError, OSError, TimeoutError)


class DiscordFront:
    """The front of one bot user.

    Args:
        options: token and address.
        marks: what outlives the process.
        leases: which of the bot's shards are ours; without, all of them.
        budget: how many requests may be made: asked for typing signs and history here, for
            messages by whoever sends them.
        on_answer: is told of each answer that Discord gives.
        alive_every_s: how often the mark of life is written.
        max_events: how many events wait here to be taken.
    """

    def __init__(
        self,
        options: DiscordOptions,
        marks: Marks,
        leases: ShardLeases | None = None,
        *,
        budget: Budget | None = None,
        on_answer: Note | None = None,
        alive_every_s: float = ALIVE_EVERY_S,
        max_events: int = MAX_EVENTS,
    ) -> None:
        self._budget = budget or Boundless()
        self._alive_every_s = alive_every_s
        self._incoming = Incoming(
            marks,
            options.names,
            bot_id=lambda: self.bot_id,
            fetch=self._fetch_missed,
            max_events=max_events,
        )
        self._members = Members(self._fetch_roles)
        self._keepers: list[asyncio.Task[None]] = []
        self._connection = DiscordConnection(
            options,
            leases or Alone(),
            self._incoming,
            on_interaction=self._on_interaction,
            on_answer=on_answer,
        )
        self._take_ask: TakeAsk | None = None

    @property
    def bot_id(self) -> int:
        """Our own user, known once `connect` is done."""
        return self._connection.bot_id

    @property
    def states(self) -> Mapping[int, str]:
        """How each shard that is ours stands."""
        return self._connection.states

    @property
    def starts(self) -> tuple[int, int]:
        """How many sessions may be begun today, and how many in a day; nothing before `connect`."""
        return self._connection.starts.left, self._connection.starts.total

    def answer(self, take: TakeAsk) -> None:
        """Gives every command, button and form from now on to `take`."""
        self._take_ask = take

    async def connect(self) -> None:
        """Connects, however long Discord is away.

        Raises:
            ConfigError: the token or the intents are refused.
        """
        await self._connection.open()
        self._keepers = [
            asyncio.create_task(self._keep(), name="discord connection"),
            asyncio.create_task(self._note_life(), name="discord life"),
        ]

    def events(self) -> AsyncIterator[FrontEvent]:
        """Prompts and echoes until `close`, with those that were missed before.

        Raises:
            ConfigError: Discord ended the connection for good.
        """
        return self._incoming.events()

    async def handled(self, prompt: Prompt) -> None:
        """Notes that a prompt was taken; the mark of life may move on."""
        await self._incoming.handled(prompt)

    def note_speak(self, channel_id: int, *, is_always: bool) -> None:
        """Notes whether every message of a channel is a prompt: then talk there is not dropped."""
        self._incoming.note_speak(channel_id, is_always=is_always)

    async def with_roles(self, prompt: Prompt) -> Prompt | Refused | Unavailable:
        """The prompt with its person's roles, which only the socket brings along."""
        if self._incoming.keeps(prompt):
            return Unavailable(reason="after_another")
        found = await self._members.with_roles(prompt)
        if isinstance(found, Unavailable):
            self._incoming.later(prompt, found)
        return found

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
            await rest.edit_message(
                channel_id,
                message_id,
                components=None,
                mentions_everyone=False,
                mentions_reply=False,
                role_mentions=False,
                user_mentions=False,
            )
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

    async def leave(self) -> None:
        """Receives nothing more: another gateway goes on with our sessions. Requests go on."""
        keepers, self._keepers = self._keepers, []
        for keeper in keepers:
            keeper.cancel()
        if keepers:
            await asyncio.wait(keepers)
        await self._incoming.leave()
        await self._connection.leave()

    async def close(self) -> None:
        """Stops receiving and ends `events`. Safe to call twice."""
        await self.leave()
        await self._connection.close()
        await self._incoming.end()

    async def _on_interaction(self, event: hikari.InteractionCreateEvent) -> None:
        interaction, rest = event.interaction, self._connection.rest
        if self._take_ask is None or rest is None or not isinstance(interaction, INTERACTIONS):
            return
        ask = ask_of(interaction)
        caller = ask.caller
        is_restricted = self._incoming.is_restricted(
            caller.channel_id, caller.parent_id, caller.guild_id
        )
        caller = msgspec.structs.replace(caller, is_age_restricted=is_restricted)
        ask = msgspec.structs.replace(ask, caller=caller)
        await self._take_ask(ask, DiscordAnswers(rest, interaction))

    async def _keep(self) -> None:
        try:
            await self._connection.keep()
        except ConfigError as exc:
            await self._incoming.end(exc)

    async def _note_life(self) -> None:
        while True:
            await asyncio.sleep(self._alive_every_s)
            await self._incoming.note_alive(self._connection.connected)

    async def _fetch_missed(self, moved: Moved) -> list[hikari.Message] | Unavailable:
        found = await self._fetch(moved.channel_id, after=moved.after, limit=MAX_MESSAGES)
        return [] if isinstance(found, Refused) else found

    async def _fetch(
        self, channel_id: int, *, after: int, limit: int
    ) -> list[hikari.Message] | Refused | Unavailable:
        async def read(rest: hikari.api.RESTClient) -> list[hikari.Message]:
            found: list[hikari.Message] = []
            pages = rest.fetch_messages(channel_id, after=after).limit(limit)
            while (message := await in_time(lambda: anext(pages, None))) is not None:
                found.append(message)
            return found

        return await self._read(read)

    async def _fetch_roles(self, guild_id: int, user_id: int) -> Roles | Refused | Unavailable:
        async def read(rest: hikari.api.RESTClient) -> Roles:
            return roles_of(await in_time(lambda: rest.fetch_member(guild_id, user_id)))

        found = await self._read(read)
        if isinstance(found, Refused) and found.refusal is Refusal.TOKEN:
            return Unavailable(reason="token", status=found.status)  # it says nothing of the member
        return found

    async def _read(
        self, call: Callable[[hikari.api.RESTClient], Awaitable[T]]
    ) -> T | Refused | Unavailable:
        rest = self._connection.rest
        if rest is None:
            return Unavailable(reason="not_connected", retry_after_s=NOT_CONNECTED_S)
        await self._budget.permit(Rank.EDIT)
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                return await call(rest)
        except _PASSING as exc:
            logger.debug("discord.read_failed", extra={"error": type(exc).__name__})
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

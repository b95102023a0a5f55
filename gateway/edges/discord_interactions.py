"""Discord's interactions as asks, and the way back to who asked.

Comes in: hikari's interactions. Goes out: `Ask`s, and first answers, follow-ups, windows.
`gateway.edges.discord` imports it.

Answers to interactions have their own endpoints, their own clocks (3 s for the first, 15 min for
the token; developer docs, interactions/receiving-and-responding) and no nonce. Nothing is sent
twice: an answer whose fate is unknown is left.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, assert_never

import hikari
from hikari.impl import (
    MessageActionRowBuilder,
    ModalActionRowBuilder,
    TextDisplayComponentBuilder,
    TextInputBuilder,
)

from gateway.asks import Ask, AskKind, Caller, Field, Form, Subject
from gateway.edges.discord_errors import in_time, outcome_of
from gateway.front import Outcome, OutgoingFile, Refused, Sent, Unavailable

logger = logging.getLogger(__name__)

FIRST_S: Final = 2.8
"""For a first answer; Discord throws it away after three seconds, and the way takes some."""
LATER_S: Final = 30.0
"""For an answer after the first, with its wait for a slot of the bucket."""
ANSWERED: Final = 40060
"""Discord's code for an interaction that was acknowledged (developer docs, JSON error codes)."""
HIDDEN: Final = hikari.MessageFlag.EPHEMERAL
MENU_NAME: Final = "about"
"""What a command of a message's menu is called here; its name is the catalog's."""

Interaction = hikari.CommandInteraction | hikari.ComponentInteraction | hikari.ModalInteraction
INTERACTIONS: Final = (
    hikari.CommandInteraction,
    hikari.ComponentInteraction,
    hikari.ModalInteraction,
)

Call = Callable[[], Awaitable[int]]

_PASSING = (hikari.HikariError, OSError, TimeoutError)


def ask_of(interaction: Interaction) -> Ask:
    """An interaction as an ask."""
    caller = caller_of(interaction)
    number = int(interaction.id)
    match interaction:
        case hikari.CommandInteraction():
            return _of_command(interaction, caller)
        case hikari.ComponentInteraction():
            name, _, argument = interaction.custom_id.partition(":")
            return Ask(
                interaction_id=number,
                kind=AskKind.BUTTON,
                name=name,
                argument=argument,
                caller=caller,
            )
        case hikari.ModalInteraction():
            name, _, argument = interaction.custom_id.partition(":")
            return Ask(
                interaction_id=number,
                kind=AskKind.FORM,
                name=name,
                argument=argument,
                values=_fields_of(interaction),
                caller=caller,
            )
        case _:
            assert_never(interaction)


def caller_of(interaction: Interaction) -> Caller:
    """Who asks. The permissions come from Discord with each interaction: no cache is needed."""
    member = interaction.member
    channel = interaction.channel
    return Caller(
        user_id=int(interaction.user.id),
        channel_id=int(channel.id),
        guild_id=None if interaction.guild_id is None else int(interaction.guild_id),
        parent_id=parent_of(channel),
        permissions=0 if member is None else int(member.permissions),
        roles=() if member is None else tuple(int(role) for role in member.role_ids),
        locale=str(interaction.locale),
    )


def parent_of(channel: hikari.InteractionChannel) -> int | None:
    """The channel that a thread belongs to. The parent of any other channel is its category."""
    if channel.thread_metadata is None or channel.parent_id is None:
        return None
    return int(channel.parent_id)


def _of_command(interaction: hikari.CommandInteraction, caller: Caller) -> Ask:
    number = int(interaction.id)
    if interaction.command_type is hikari.CommandType.MESSAGE:
        return Ask(
            interaction_id=number,
            kind=AskKind.COMMAND,
            name=MENU_NAME,
            caller=caller,
            subject=_subject_of(interaction),
        )
    name, options = interaction.command_name, interaction.options or ()
    if options and options[0].type is hikari.OptionType.SUB_COMMAND:
        name, options = f"{name} {options[0].name}", options[0].options or ()
    return Ask(
        interaction_id=number,
        kind=AskKind.COMMAND,
        name=name,
        caller=caller,
        values={option.name: str(option.value) for option in options},
    )


def _subject_of(interaction: hikari.CommandInteraction) -> Subject | None:
    resolved = interaction.resolved
    found = list(resolved.messages.values()) if resolved is not None else []
    if not found:
        return None
    message = found[0]
    author = message.author
    name = author.display_name if isinstance(author, hikari.User) else ""
    return Subject(message_id=int(message.id), author=name or "?", text=message.content or "")


def _fields_of(interaction: hikari.ModalInteraction) -> dict[str, str]:
    return {
        part.custom_id: part.value
        for row in interaction.components
        for part in row.components
        if isinstance(part, hikari.TextInputComponent)
    }


class DiscordAnswers:
    """The way back of one interaction; it fulfils `gateway.asks.Answers`.

    Args:
        rest: what requests are made with.
        interaction: which one.
    """

    def __init__(self, rest: hikari.api.RESTClient, interaction: Interaction) -> None:
        self._rest = rest
        self._interaction = interaction
        self._first: hikari.ResponseType | None = None
        self._unheard: hikari.ResponseType | None = None
        """A first answer that Discord may have taken: what it said to it did not arrive in time."""
        self._is_filled = False

    async def say(self, text: str) -> Outcome:
        """Answers first, for everybody in the channel; nobody is pinged."""

        async def call() -> int:
            made = await self._respond(hikari.ResponseType.MESSAGE_CREATE, text)
            message = made.resource.message if made.resource else hikari.UNDEFINED
            return int(message.id) if message else 0

        outcome = await self._begin(hikari.ResponseType.MESSAGE_CREATE, call)
        if isinstance(outcome, Sent) and not outcome.message_id:
            return Unavailable(reason="no_message")
        return outcome

    async def form(self, form: Form) -> bool:
        """Answers first, with a window."""
        rows: list[hikari.api.ComponentBuilder] = []
        if form.text:
            rows.append(TextDisplayComponentBuilder(content=form.text))
        rows += [_row_of(field) for field in form.fields]

        async def call() -> int:
            await self._rest.create_modal_response(
                self._interaction.id,
                self._interaction.token,
                title=form.title,
                custom_id=form.custom_id,
                components=rows,
            )
            return 0

        return isinstance(await self._begin(hikari.ResponseType.MODAL, call), Sent)

    async def wait(self) -> bool:
        """Answers first: what follows is for this person alone; False if another has answered."""
        kind = hikari.ResponseType.DEFERRED_MESSAGE_CREATE

        async def call() -> int:
            await self._respond(kind, flags=HIDDEN)
            return 0

        outcome = await self._begin(kind, call)
        return not (isinstance(outcome, Refused) and outcome.code == ANSWERED)

    async def hold(self) -> None:
        """Answers first, for the press of a button: the message stays as it is for now."""
        kind = hikari.ResponseType.DEFERRED_MESSAGE_UPDATE

        async def call() -> int:
            await self._respond(kind)
            return 0

        await self._begin(kind, call)

    async def unbutton(self) -> None:
        """Takes the button that was pressed off its message, first or after `hold`.

        Its text is not named, so that it stays. A message without such a button is left alone.
        """
        pressed = self._interaction
        if not isinstance(pressed, hikari.ComponentInteraction):
            return
        left = _without(pressed.message.components, pressed.custom_id)
        if left is None:
            return

        kind = hikari.ResponseType.MESSAGE_UPDATE

        async def first() -> int:
            await self._rest.create_interaction_response(
                pressed.id, pressed.token, kind, components=left or None
            )
            return 0

        async def later() -> int:
            await self._rest.edit_interaction_response(
                pressed.application_id, pressed.token, components=left or None
            )
            return 0

        if not await self._continue(later):
            await self._begin(kind, first)

    async def whisper(self, text: str, *, files: tuple[OutgoingFile, ...] = ()) -> None:
        """Tells this person alone, first or later."""
        content = text or hikari.UNDEFINED
        attached = [hikari.Bytes(file.data, file.name) for file in files] or hikari.UNDEFINED

        kind = hikari.ResponseType.MESSAGE_CREATE

        async def first() -> int:
            await self._respond(kind, content, flags=HIDDEN, attachments=attached)
            return 0

        async def fill() -> int:
            await self._rest.edit_interaction_response(
                self._interaction.application_id,
                self._interaction.token,
                content,
                attachments=attached,
                mentions_everyone=False,
                user_mentions=False,
                role_mentions=False,
            )
            self._is_filled = True
            return 0

        async def follow() -> int:
            await self._rest.execute_webhook(
                self._interaction.application_id,
                self._interaction.token,
                content,
                attachments=attached,
                flags=HIDDEN,
                mentions_everyone=False,
                user_mentions=False,
                role_mentions=False,
            )
            return 0

        begun = self._first or self._unheard
        is_open = begun is hikari.ResponseType.DEFERRED_MESSAGE_CREATE and not self._is_filled
        if not await self._continue(fill if is_open else follow):
            await self._begin(kind, first)

    async def change(self, text: str) -> None:
        """Replaces what `say` said."""

        async def call() -> int:
            await self._rest.edit_interaction_response(
                self._interaction.application_id,
                self._interaction.token,
                text,
                mentions_everyone=False,
                user_mentions=False,
                role_mentions=False,
            )
            return 0

        await self._try(call, LATER_S)

    async def _respond(
        self,
        kind: hikari.ResponseType,
        content: hikari.UndefinedOr[str] = hikari.UNDEFINED,
        *,
        flags: hikari.MessageFlag | hikari.UndefinedType = hikari.UNDEFINED,
        attachments: hikari.UndefinedOr[list[hikari.Bytes]] = hikari.UNDEFINED,
    ) -> hikari.InteractionCallbackResponse:
        return await self._rest.create_interaction_response(
            self._interaction.id,
            self._interaction.token,
            kind,
            content,
            flags=flags,
            attachments=attachments,
            mentions_everyone=False,
            user_mentions=False,
            role_mentions=False,
        )

    async def _begin(self, kind: hikari.ResponseType, call: Call) -> Outcome:
        """Answers first."""
        outcome = await self._try(call, FIRST_S)
        if isinstance(outcome, Sent):
            self._first = kind
        elif isinstance(outcome, Unavailable):
            self._unheard = kind
        return outcome

    async def _continue(self, call: Call) -> bool:
        """Answers after the first; False where there is none, and this must be it.

        Discord refuses this (10015, unknown webhook) where it has not taken a first answer: so it
        tells what became of one that nobody heard of.
        """
        begun = self._first or self._unheard
        if begun is None:
            return False
        outcome = await self._try(call, LATER_S)
        if isinstance(outcome, Sent):
            self._first = begun
        return self._first is not None or not isinstance(outcome, Refused)

    async def _try(self, call: Call, limit_s: float) -> Outcome:
        try:
            async with asyncio.timeout(limit_s):
                return Sent(message_id=await in_time(call))
        except _PASSING as exc:
            outcome = outcome_of(exc)
            logger.info("discord.answer_failed", extra={"error": type(exc).__name__})
            return outcome


def _without(
    rows: Sequence[hikari.PartialComponent], custom_id: str
) -> list[hikari.api.ComponentBuilder] | None:
    """The rows of a message without a button; None where it has none of that name."""
    left: list[hikari.api.ComponentBuilder] = []
    is_found = False
    for row in rows:
        if not isinstance(row, hikari.ActionRowComponent):
            continue
        made = MessageActionRowBuilder()
        for part in row.components:
            if not isinstance(part, hikari.ButtonComponent) or part.custom_id is None:
                continue
            if part.custom_id == custom_id:
                is_found = True
                continue
            made.add_interactive_button(
                hikari.ButtonStyle.SECONDARY, part.custom_id, label=part.label or hikari.UNDEFINED
            )
        if made.components:
            left.append(made)
    return left if is_found else None


def _row_of(field: Field) -> ModalActionRowBuilder:
    style = hikari.TextInputStyle.PARAGRAPH if field.is_long else hikari.TextInputStyle.SHORT
    entry = TextInputBuilder(
        custom_id=field.key,
        label=field.label,
        style=style,
        placeholder=field.placeholder or hikari.UNDEFINED,
        required=field.is_required,
        max_length=field.max_chars,
    )
    return ModalActionRowBuilder(components=[entry])

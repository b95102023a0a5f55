"""Personas on Discord: replies under another name and picture, through a webhook of the channel.

Comes in: steps of delivery, with who speaks. Goes out: requests to Discord. `gateway.outward` gives
it to the courier; to delivery a voice is a front like any other.

A webhook knows no nonce and gives no reply mark: what may have arrived is looked for in the history
before it is sent again (`remembers_nonces`). A channel that lets us make no webhook hears the bot
itself, and so does everybody whom a notice is for.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

import hikari
import msgspec

from gateway.edges.discord import Call, DiscordFront, rows_of
from gateway.front import (
    Button,
    History,
    Outcome,
    OutgoingFile,
    OutgoingMessage,
    Refusal,
    Refused,
    Sent,
    Unavailable,
)
from shared.private import told_by_size
from shared.turns import Route, Speaker

logger = logging.getLogger(__name__)

HOOK_NAME: Final = "turnfleet"
"""Every deployment of a bot finds its webhook by this name: a channel has at most 15."""
NO_HOOK_S: Final = 900.0
"""How long a channel that lets us make no webhook is not asked again, as for other refusals."""
MAX_CHANNELS: Final = 50_000
"""Channels whose webhook is remembered, 10 MB; the oldest is asked for again."""
LOST_HOOK: Final = frozenset({10015, 50027})
"""Unknown webhook, invalid webhook token: somebody deleted it."""


class Hook(msgspec.Struct, frozen=True, kw_only=True):
    """Our webhook of a channel. `thread_id` where it speaks into a thread of the channel.

    Whoever has the token can speak there: it stands in no `repr`.
    """

    __repr__ = told_by_size

    id: int
    token: str
    thread_id: int | None = None


class Voices:
    """Who speaks in which channel.

    Args:
        front: the bot itself.
        now_s: seconds that only grow.
    """

    def __init__(self, front: DiscordFront, now_s: Callable[[], float]) -> None:
        self._front = front
        self._now_s = now_s
        self._hooks: dict[int, Hook] = {}
        self._refused_s: dict[int, float] = {}

    def of(self, route: Route) -> "DiscordFront | PersonaVoice":
        """The voice of a turn: the bot's own, or a persona's where there are webhooks."""
        if route.speaker is None or route.guild_id is None:
            return self._front
        return PersonaVoice(self._front, self, route, route.speaker)

    async def hook_of(self, route: Route) -> Hook | Unavailable | None:
        """Our webhook for a channel, found or made; None where we may not."""
        home = route.parent_id or route.channel_id
        hook = self._hooks.get(home)
        if hook is None:
            if self._now_s() - self._refused_s.get(home, -NO_HOOK_S) < NO_HOOK_S:
                return None
            found = await self._find_or_make(home)
            if not isinstance(found, Hook):
                return found
            hook = found
        thread_id = route.channel_id if route.parent_id is not None else None
        return msgspec.structs.replace(hook, thread_id=thread_id)

    def forget(self, route: Route) -> None:
        """The webhook is gone: the next message makes a new one."""
        self._hooks.pop(route.parent_id or route.channel_id, None)

    async def _find_or_make(self, channel_id: int) -> Hook | Unavailable | None:
        made: list[Hook] = []

        async def ask(rest: hikari.api.RESTClient) -> Sent:
            for one in await rest.fetch_channel_webhooks(channel_id):
                hook = _own(one, self._front.bot_id)
                if hook is not None:
                    made.append(hook)
                    return Sent(message_id=0)
            webhook = await rest.create_webhook(channel_id, HOOK_NAME)
            made.append(Hook(id=int(webhook.id), token=str(webhook.token)))
            return Sent(message_id=0)

        outcome = await self._front.ask(ask)
        if isinstance(outcome, Unavailable):
            return outcome
        if isinstance(outcome, Refused):
            logger.info("discord.no_webhook", extra={"channel_id": channel_id})
            self._refused_s.pop(channel_id, None)
            self._refused_s[channel_id] = self._now_s()
            _bound(self._refused_s)
            return None
        self._hooks[channel_id] = made[0]
        _bound(self._hooks)
        return made[0]


def _bound(known: dict[int, Any]) -> None:
    """Lets the oldest go where there are more channels than are remembered."""
    while len(known) > MAX_CHANNELS:
        known.pop(next(iter(known)))


def _own(webhook: hikari.PartialWebhook, bot_id: int) -> Hook | None:
    """The webhook, if we made it and may speak through it."""
    if not isinstance(webhook, hikari.IncomingWebhook) or webhook.token is None:
        return None
    is_ours = webhook.application_id == bot_id and webhook.name == HOOK_NAME
    return Hook(id=int(webhook.id), token=webhook.token) if is_ours else None


class PersonaVoice:
    """One persona in one channel, as far as delivery needs a front.

    Args:
        front: the bot itself.
        voices: where webhooks are kept.
        route: where it speaks.
        speaker: who.
    """

    def __init__(self, front: DiscordFront, voices: Voices, route: Route, speaker: Speaker) -> None:
        self._front = front
        self._voices = voices
        self._route = route
        self._speaker = speaker

    async def send(self, message: OutgoingMessage) -> Outcome:
        """Posts a message under the persona's name; a notice is the bot's own."""
        if message.is_notice:
            return await self._front.send(message)
        for _ in range(2):
            hook = await self._voices.hook_of(self._route)
            if isinstance(hook, Unavailable):
                return hook
            if hook is None:
                break
            outcome = await self._front.ask(self._executing(hook, message))
            if not _is_lost(outcome):
                return outcome
            self._voices.forget(self._route)
        return await self._front.send(message)

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
        """Replaces what a message shows, whoever of the two posted it."""
        hook = await self._voices.hook_of(self._route)
        if isinstance(hook, Unavailable):
            return hook
        if hook is not None:
            outcome = await self._front.ask(self._editing(hook, message_id, text, files, buttons))
            if not (_is_lost(outcome) or _is_gone(outcome)):
                return outcome
        return await self._front.edit(
            channel_id, message_id, text, is_notice=is_notice, files=files, buttons=buttons
        )

    async def disarm(self, channel_id: int, message_id: int) -> Outcome:
        """Takes away what can be pressed below a message, whoever of the two posted it."""
        hook = await self._voices.hook_of(self._route)
        if isinstance(hook, Unavailable):
            return hook
        if hook is not None:

            async def strip(rest: hikari.api.RESTClient) -> Sent:
                await rest.edit_webhook_message(
                    hook.id,
                    hook.token,
                    message_id,
                    thread=hook.thread_id or hikari.UNDEFINED,
                    components=None,
                    mentions_everyone=False,
                    role_mentions=False,
                    user_mentions=False,
                )
                return Sent(message_id=message_id)

            outcome = await self._front.ask(strip)
            if not (_is_lost(outcome) or _is_gone(outcome)):
                return outcome
        return await self._front.disarm(channel_id, message_id)

    async def delete(self, channel_id: int, message_id: int) -> Outcome:
        """Deletes a message, whoever of the two posted it."""
        hook = await self._voices.hook_of(self._route)
        if isinstance(hook, Unavailable):
            return hook
        if hook is not None:

            async def remove(rest: hikari.api.RESTClient) -> Sent:
                await rest.delete_webhook_message(
                    hook.id, hook.token, message_id, thread=hook.thread_id or hikari.UNDEFINED
                )
                return Sent(message_id=message_id)

            outcome = await self._front.ask(remove)
            if not (_is_lost(outcome) or _is_gone(outcome)):
                return outcome
        outcome = await self._front.delete(channel_id, message_id)
        if isinstance(outcome, Refused) and outcome.refusal is Refusal.CHANNEL:
            # A webhook's message whose webhook is gone: nobody forbids us to speak here.
            return msgspec.structs.replace(outcome, refusal=Refusal.FROZEN)
        return outcome

    async def history(self, channel_id: int, *, after: int, limit: int) -> History:
        """The oldest messages after an id, the persona's counted as ours."""
        hook = await self._voices.hook_of(self._route)
        if isinstance(hook, Unavailable):
            return hook
        own = frozenset({hook.id}) if hook is not None else frozenset()
        return await self._front.history(channel_id, after=after, limit=limit, own=own)

    def _executing(self, hook: Hook, message: OutgoingMessage) -> Call:
        attachments = [hikari.Bytes(file.data, file.name) for file in message.files]

        async def post(rest: hikari.api.RESTClient) -> Sent:
            made = await rest.execute_webhook(
                hook.id,
                hook.token,
                message.text or hikari.UNDEFINED,
                thread=hook.thread_id or hikari.UNDEFINED,
                username=self._speaker.name,
                avatar_url=self._speaker.avatar or hikari.UNDEFINED,
                attachments=attachments or hikari.UNDEFINED,
                components=rows_of(message.buttons) or hikari.UNDEFINED,
                mentions_everyone=False,
                role_mentions=False,
                user_mentions=list(message.may_ping),
            )
            return Sent(message_id=int(made.id))

        return post

    def _editing(
        self,
        hook: Hook,
        message_id: int,
        text: str,
        files: tuple[OutgoingFile, ...],
        buttons: tuple[Button, ...],
    ) -> Call:
        attachments = [hikari.Bytes(file.data, file.name) for file in files]

        async def patch(rest: hikari.api.RESTClient) -> Sent:
            await rest.edit_webhook_message(
                hook.id,
                hook.token,
                message_id,
                text or None,
                thread=hook.thread_id or hikari.UNDEFINED,
                attachments=attachments or None,
                components=rows_of(buttons) or None,
                mentions_everyone=False,
                role_mentions=False,
                user_mentions=False,
            )
            return Sent(message_id=message_id)

        return patch


def _is_lost(outcome: Outcome) -> bool:
    """The webhook itself is gone."""
    return isinstance(outcome, Refused) and outcome.code in LOST_HOOK


def _is_gone(outcome: Outcome) -> bool:
    """There is no such message of the webhook; it may be the bot's."""
    return isinstance(outcome, Refused) and outcome.refusal is Refusal.GONE

"""One interaction of the fake Discord, and the event that tells a bot of it.

Comes in: who pressed what, where. Goes out: an `Asked`, and `INTERACTION_CREATE` as JSON.
`interactions` makes them.
"""

import asyncio
import secrets
from collections.abc import Callable
from typing import Final

from ops.rehearsal.discord.payloads import Json, member_json, message_json, user_json
from ops.rehearsal.discord.world import Message, User, World

WRITES: Final = 1 << 11 | 1 << 38
"""Sends messages, also in threads: what everybody may unless it is taken away."""
READS_ONLY: Final = -1
"""Rights of somebody who may read a channel and press what is there, and write nothing."""


class Asked:
    """One interaction and what came of it.

    `first` is the type of the first answer; `said` what the person was told apart from the channel,
    the hidden messages of the bot; `form` a form that was opened.
    """

    def __init__(self, asked_id: int, kind: int, channel_id: int, user: User, at_s: float) -> None:
        self.id = asked_id
        self.kind = kind
        self.token = secrets.token_urlsafe(24)
        self.channel_id = channel_id
        self.user = user
        self.at_s = at_s
        self.first: int | None = None
        self.answered_s: float | None = None
        self.is_hidden = False
        self.said: list[Json] = []
        self.form: Json | None = None
        self.message: Message | None = None
        """The public first answer, or the message whose button was pressed."""
        self._changed = asyncio.Event()

    @property
    def texts(self) -> list[str]:
        """What the person was told in secret."""
        return [str(one.get("content", "")) for one in self.said]

    async def until(self, condition: Callable[["Asked"], bool], timeout_s: float = 10.0) -> None:
        """Waits until something is true of it."""
        async with asyncio.timeout(timeout_s):
            while not condition(self):
                self._changed.clear()
                await self._changed.wait()

    def note(self) -> None:
        """Wakes who waits."""
        self._changed.set()


def interaction_json(
    asked: Asked,
    data: Json,
    world: World,
    *,
    rights: int,
    locale: str,
    bot: User,
    message: Message | None,
) -> Json:
    """An interaction as the gateway sends it; `rights` are what the member has besides `WRITES`."""
    channel = world.channels[asked.channel_id]
    payload: Json = {
        "id": str(asked.id),
        "application_id": str(bot.id),
        "type": asked.kind,
        "token": asked.token,
        "version": 1,
        "channel_id": str(channel.id),
        "channel": {
            "id": str(channel.id),
            "type": 1 if channel.guild_id is None else 0,
            "name": channel.name,
            "permissions": "0",
        },
        "app_permissions": "0",
        "locale": locale,
        "data": data,
        "entitlements": [],
        "authorizing_integration_owners": {"0": str(channel.guild_id or 0)},
        "context": 1 if channel.guild_id is None else 0,
        "attachment_size_limit": 10 * 1024 * 1024,
    }
    user = user_json(asked.user)
    if channel.guild_id is None:
        payload["user"] = user
    else:
        payload["guild_id"] = str(channel.guild_id)
        payload["guild_locale"] = "en-US"
        permissions = 0 if rights == READS_ONLY else rights | WRITES
        payload["member"] = {
            **member_json(channel.guild_id, asked.user.id, world),
            "user": user,
            "permissions": str(permissions),
        }
    if message is not None:
        payload["message"] = message_json(message, world)
    return payload

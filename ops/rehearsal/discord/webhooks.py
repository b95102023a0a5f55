"""Webhooks of the fake Discord: made by a bot, spoken through under any name.

Comes in: requests, those for a webhook with its token instead of the bot's. Goes out: messages of
an author with the webhook's id. No nonce is known here, and nothing is a reply (developer docs,
resources/webhook). `rest` owns it.
"""

import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from aiohttp import web

from ops.rehearsal.discord.payloads import Json, message_json, user_json
from ops.rehearsal.discord.requests import BODY, Answer, snowflake_of
from ops.rehearsal.discord.world import Draft, Message, Refusal, User, World

MAX_OF_A_CHANNEL: Final = 15
MAX_NAME_CHARS: Final = 80
FORBIDDEN: Final = ("clyde", "discord")
HOOK: Final = "/webhooks/{webhook:[0-9]+}/{token:wh-[0-9a-f]+}"
"""The address of one. Its token's form tells it from an interaction's; Discord's look alike."""

Announce = Callable[[str, int, Json], Awaitable[None]]


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """One webhook of a channel."""

    id: int
    channel_id: int
    name: str
    token: str
    owner_id: int


class Webhooks:
    """The webhooks of all channels.

    Args:
        world: people, channels, messages.
        announce: sends an event of a channel.
    """

    def __init__(self, world: World, announce: Announce) -> None:
        self._world = world
        self._announce = announce
        self.hooks: dict[int, Webhook] = {}

    def table(self) -> list[tuple[str, str, Answer]]:
        """Method, path and answer of each request."""
        return [
            ("GET", "/channels/{channel}/webhooks", self._list),
            ("POST", "/channels/{channel}/webhooks", self._make),
            ("POST", HOOK, self._execute),
            ("PATCH", f"{HOOK}/messages/{{message}}", self._edit),
            ("DELETE", f"{HOOK}/messages/{{message}}", self._delete),
        ]

    async def _list(self, request: web.Request, _bot: User) -> object:
        return self.listed(snowflake_of(request, "channel"))

    async def _make(self, request: web.Request, bot: User) -> object:
        name = str(request[BODY].get("name") or "")
        return self.made_by(bot.id, snowflake_of(request, "channel"), name)

    async def _execute(self, request: web.Request, _bot: User) -> object:
        thread = request.query.get("thread_id")
        said = await self.execute(
            self._hook(request), request[BODY], int(thread) if thread else None
        )
        return said if request.query.get("wait") in {"true", "1"} else None

    async def _edit(self, request: web.Request, _bot: User) -> object:
        message_id = snowflake_of(request, "message")
        return await self.edit(self._hook(request), message_id, request[BODY])

    async def _delete(self, request: web.Request, _bot: User) -> object:
        await self.delete(self._hook(request), snowflake_of(request, "message"))
        return None

    def _hook(self, request: web.Request) -> Webhook:
        return self.find(snowflake_of(request, "webhook"), request.match_info["token"])

    def made_by(self, bot_id: int, channel_id: int, name: str) -> Json:
        """A bot makes one. Raises `Refusal` 50013, 30007 or 50035."""
        self._world.channel(channel_id, "webhooks")
        if len(self._of(channel_id)) >= MAX_OF_A_CHANNEL:
            raise Refusal(400, 30007, "Maximum number of webhooks reached (15)")
        _check_name(name)
        hook = Webhook(
            id=self._world.next_id(),
            channel_id=channel_id,
            name=name,
            token=f"wh-{secrets.token_hex(16)}",
            owner_id=bot_id,
        )
        self.hooks[hook.id] = hook
        self._world.add_user(name, is_bot=True, user_id=hook.id)
        self._world.owners[hook.id] = bot_id
        return self._shown(hook)

    def listed(self, channel_id: int) -> list[Json]:
        """What a bot with the right sees. Raises `Refusal` 50013."""
        self._world.channel(channel_id, "webhooks")
        return [self._shown(hook) for hook in self._of(channel_id)]

    def forget(self, webhook_id: int) -> None:
        """An administrator deletes one."""
        self.hooks.pop(webhook_id, None)

    def find(self, webhook_id: int, token: str) -> Webhook:
        """A webhook. Raises `Refusal` 10015 or 50027."""
        hook = self.hooks.get(webhook_id)
        if hook is None:
            raise Refusal(404, 10015, "Unknown Webhook")
        if hook.token != token:
            raise Refusal(401, 50027, "Invalid Webhook Token")
        return hook

    async def execute(self, hook: Webhook, body: dict[str, Any], thread: int | None) -> Json:
        """Somebody speaks through it. Raises `Refusal`."""
        name = str(body.get("username") or hook.name)
        _check_name(name)
        channel_id = thread or hook.channel_id
        draft = Draft(
            content=str(body.get("content") or ""),
            files=tuple(body.get("_files", ())),
            components=tuple(body.get("components") or ()),
            may_ping=_may_ping(body),
            shown_name=name,
        )
        # A webhook asks nobody for the right to speak.
        message, _ = self._world.post(hook.id, channel_id, draft, needs=())
        return await self._told("MESSAGE_CREATE", message)

    async def edit(self, hook: Webhook, message_id: int, body: dict[str, Any]) -> Json:
        """Its own message is changed. Raises `Refusal` 10008 or 50005."""
        message = self._world.edit(
            hook.id,
            self._channel_of(hook, message_id),
            message_id,
            str(body["content"] or "") if "content" in body else None,
            components=tuple(body["components"] or ()) if "components" in body else None,
        )
        return await self._told("MESSAGE_UPDATE", message)

    async def delete(self, hook: Webhook, message_id: int) -> None:
        """Its own message is deleted. Raises `Refusal` 10008."""
        channel_id = self._channel_of(hook, message_id)
        self._world.delete(hook.id, channel_id, message_id)
        gone: Json = {"id": str(message_id), "channel_id": str(channel_id)}
        await self._announce("MESSAGE_DELETE", channel_id, gone)

    def _channel_of(self, hook: Webhook, message_id: int) -> int:
        """Where a message of the hook stands: a thread has an id of its own."""
        for channel_id, messages in self._world.messages.items():
            found = messages.get(message_id)
            if found is not None and found.author_id == hook.id:
                return channel_id
        raise Refusal(404, 10008, "Unknown Message")

    def _of(self, channel_id: int) -> list[Webhook]:
        return [hook for hook in self.hooks.values() if hook.channel_id == channel_id]

    def _shown(self, hook: Webhook) -> Json:
        channel = self._world.channels[hook.channel_id]
        return {
            "id": str(hook.id),
            "type": 1,
            "channel_id": str(hook.channel_id),
            "guild_id": str(channel.guild_id),
            "application_id": str(hook.owner_id),
            "name": hook.name,
            "avatar": None,
            "token": hook.token,
            "user": user_json(self._world.users[hook.owner_id]),
        }

    async def _told(self, event: str, message: Message) -> Json:
        payload = message_json(message, self._world)
        await self._announce(event, message.channel_id, payload)
        return payload


def _check_name(name: str) -> None:
    is_forbidden = any(word in name.lower() for word in FORBIDDEN)
    if is_forbidden or not 1 <= len(name) <= MAX_NAME_CHARS:
        raise Refusal(400, 50035, "Invalid Form Body: username")


def _may_ping(body: dict[str, Any]) -> tuple[int, ...] | None:
    allowed = body.get("allowed_mentions")
    if allowed is None or "users" in (allowed.get("parse") or ()):
        return None
    return tuple(int(user_id) for user_id in allowed.get("users") or ())

"""Interactions of the fake Discord: commands, buttons, forms, and the two clocks of their tokens.

Comes in: what people press and type, and a bot's answers to it. Goes out: `INTERACTION_CREATE`, and
an `Asked` per interaction that shows what the person saw. As strict as Discord: one first answer
within 3 seconds, a form only as the first answer and never to a form, a token for 15 minutes
(developer docs, interactions/receiving-and-responding). These endpoints know no bot token and no
rate limit. `server` owns it.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web

from ops.rehearsal.discord.answers import Cut, json_answer, strike
from ops.rehearsal.discord.asked import Asked, interaction_json
from ops.rehearsal.discord.faults import FaultPlan, Stage
from ops.rehearsal.discord.interaction_rules import (
    COMMAND,
    COMPONENT,
    DEFER,
    DEFER_UPDATE,
    FORM,
    SAY,
    SHOW_FORM,
    UPDATE,
    check_answer,
    check_command,
)
from ops.rehearsal.discord.payloads import Json, message_json
from ops.rehearsal.discord.requests import BODY, body_of
from ops.rehearsal.discord.world import Draft, Message, Refusal, User, World, check_draft

ACK_S: Final = 3.0
TOKEN_S: Final = 15 * 60.0
HIDDEN: Final = 1 << 6
SUBCOMMAND: Final = 1
TEXT: Final = 3

Tell = Callable[[int | None, str, Json], Awaitable[None]]
"""Sends an event to the session that sees a guild."""


class Interactions:
    """All interactions of one bot.

    Args:
        world: people, channels, messages.
        bot: whose commands these are.
        tell: sends an event.
        announce: sends an event of a channel.
        faults: what shall go wrong.
        now_s: seconds since the epoch.
    """

    def __init__(
        self,
        world: World,
        bot: User,
        *,
        tell: Tell,
        announce: Callable[[str, int, Json], Awaitable[None]],
        faults: FaultPlan,
        now_s: Callable[[], float],
    ) -> None:
        self._world = world
        self._bot = bot
        self._tell = tell
        self._announce = announce
        self._faults = faults
        self._now_s = now_s
        self._asked: dict[str, Asked] = {}
        self.answers: list[Json] = []
        """What a bot has sent, first answers and later ones."""
        self.commands: dict[int | None, list[Json]] = {None: []}
        """The registered commands by guild; those of None are everywhere."""

    def routes(self) -> list[web.RouteDef]:
        """The routes, below the versioned and the bare prefix."""
        original = "/webhooks/{app}/{token}/messages/@original"
        table = [
            ("POST", "/interactions/{id}/{token}/callback", self._callback),
            ("PATCH", original, self._edit_original),
            ("GET", original, self._original),
            ("POST", "/webhooks/{app}/{token}", self._follow_up),
            ("PUT", "/applications/{app}/commands", self._put_commands),
            ("GET", "/applications/{app}/commands", self._get_commands),
            ("PUT", "/applications/{app}/guilds/{guild}/commands", self._put_commands),
            ("GET", "/applications/{app}/guilds/{guild}/commands", self._get_commands),
        ]
        return [
            web.route(method, prefix + path, self._handler(answer))
            for prefix in ("/api/v10", "/api")
            for method, path, answer in table
        ]

    def _handler(
        self, answer: Callable[[web.Request], Awaitable[object]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            if "token" in request.match_info and request.method != "GET":
                request[BODY] = await body_of(request)
                self.answers.append(request[BODY])
            fault = self._faults.take(request.method, request.path, None)
            try:
                if fault is not None and fault.stage is Stage.BEFORE:
                    failed = await strike(fault)
                    if failed is not None:
                        return failed
                try:
                    response = json_answer(200, await answer(request))
                except Refusal as refusal:
                    payload = {"message": refusal.message, "code": refusal.code}
                    response = json_answer(refusal.status, payload)
                if fault is not None and fault.stage is Stage.AFTER:
                    response = await strike(fault) or response
            except Cut:
                if request.transport is not None:
                    request.transport.abort()
                response = web.Response(status=500)
            return response

        return handle

    async def command(
        self,
        channel_id: int,
        user: User,
        command: str,
        options: dict[str, str],
        *,
        rights: int = 0,
        locale: str = "en-US",
    ) -> Asked:
        """A person gives a command; a space in its name parts the subcommand."""
        first, _, rest = command.partition(" ")
        listed: list[Json] = [
            {"name": key, "type": TEXT, "value": value} for key, value in options.items()
        ]
        if rest:
            listed = [{"name": rest, "type": SUBCOMMAND, "options": listed}]
        data: Json = {"id": "1", "name": first, "type": 1, "options": listed}
        return await self._ask(COMMAND, channel_id, user, data, rights=rights, locale=locale)

    async def message_command(
        self, message: Message, user: User, name: str, *, rights: int = 0, locale: str = "en-US"
    ) -> Asked:
        """A person picks a command of a message's menu."""
        resolved = {"messages": {str(message.id): message_json(message, self._world)}}
        data: Json = {
            "id": "1", "name": name, "type": 3, "target_id": str(message.id), "resolved": resolved
        }  # fmt: skip
        return await self._ask(
            COMMAND, message.channel_id, user, data, rights=rights, locale=locale
        )

    async def press(
        self,
        message: Message,
        user: User,
        custom_id: str,
        *,
        rights: int = 0,
        locale: str = "en-US",
    ) -> Asked:
        """A person presses a button of a message, or says that it has such a button."""
        data: Json = {"custom_id": custom_id, "component_type": 2}
        return await self._ask(
            COMPONENT, message.channel_id, user, data, rights=rights, locale=locale, message=message
        )

    async def submit(
        self,
        channel_id: int,
        user: User,
        custom_id: str,
        values: dict[str, str],
        *,
        rights: int = 0,
        locale: str = "en-US",
    ) -> Asked:
        """A person sends a form."""
        rows: list[Json] = [
            {"type": 1, "id": index, "components": [
                {"type": 4, "id": 100 + index, "custom_id": key, "value": value}]}
            for index, (key, value) in enumerate(values.items(), start=1)
        ]  # fmt: skip
        data: Json = {"custom_id": custom_id, "components": rows}
        return await self._ask(FORM, channel_id, user, data, rights=rights, locale=locale)

    async def _ask(
        self,
        kind: int,
        channel_id: int,
        user: User,
        data: Json,
        *,
        rights: int,
        locale: str,
        message: Message | None = None,
    ) -> Asked:
        channel = self._world.channels[channel_id]
        asked = Asked(self._world.next_id(), kind, channel_id, user, self._now_s())
        asked.message = message
        self._asked[asked.token] = asked
        payload = interaction_json(
            asked, data, self._world, rights=rights, locale=locale, bot=self._bot, message=message
        )
        await self._tell(channel.guild_id, "INTERACTION_CREATE", payload)
        return asked

    async def _callback(self, request: web.Request) -> object:
        asked = self._asked.get(request.match_info["token"])
        if asked is None or str(asked.id) != request.match_info["id"]:
            raise Refusal(404, 10062, "Unknown interaction")
        if self._now_s() - asked.at_s > ACK_S:
            raise Refusal(404, 10062, "Unknown interaction")
        if asked.first is not None:
            raise Refusal(400, 40060, "Interaction has already been acknowledged.")
        body = request[BODY]
        kind, data = int(body["type"]), body.get("data") or {}
        check_answer(asked.kind, kind, data, has_message=asked.message is not None)
        asked.first, asked.answered_s = kind, self._now_s()
        asked.is_hidden = bool(int(data.get("flags", 0)) & HIDDEN)
        if kind == SHOW_FORM:
            asked.form = data
        elif kind == SAY:
            await self._say(asked, data)
        elif kind == UPDATE:
            await self._change(asked, data)
        asked.note()
        if request.query.get("with_response") not in ("true", "True", "1"):
            return None
        return self._resource(asked, kind)

    def _resource(self, asked: Asked, kind: int) -> Json:
        interaction: Json = {"id": str(asked.id), "type": asked.kind}
        resource: Json = {"type": kind}
        if kind == SAY and asked.message is not None and not asked.is_hidden:
            interaction["response_message_id"] = str(asked.message.id)
            resource["message"] = message_json(asked.message, self._world)
        return {"interaction": interaction, "resource": resource}

    async def _edit_original(self, request: web.Request) -> object:
        asked, data = self._valid(request), request[BODY]
        if asked.first is None:
            raise Refusal(404, 10015, "Unknown Webhook")
        if asked.first in (DEFER_UPDATE, UPDATE) or (
            asked.message is not None and not asked.is_hidden
        ):
            await self._change(asked, data)
        elif asked.is_hidden and asked.said:
            asked.said[0] = {**asked.said[0], **data}
        else:
            await self._say(asked, data)
        asked.note()
        return self._shown(asked, data)

    async def _original(self, request: web.Request) -> object:
        asked = self._valid(request)
        if asked.message is None:
            raise Refusal(404, 10008, "Unknown Message")
        return message_json(asked.message, self._world)

    async def _follow_up(self, request: web.Request) -> object:
        asked, data = self._valid(request), request[BODY]
        if asked.first is None:
            raise Refusal(404, 10015, "Unknown Webhook")
        if int(data.get("flags", 0)) & HIDDEN or (asked.is_hidden and asked.first == DEFER):
            check_draft(_hidden_draft(data))
            asked.said.append(data)
        else:
            await self._post(asked, data)
        asked.note()
        return self._shown(asked, data)

    def _valid(self, request: web.Request) -> Asked:
        asked = self._asked.get(request.match_info["token"])
        if asked is None:
            raise Refusal(404, 10015, "Unknown Webhook")
        if self._now_s() - asked.at_s > TOKEN_S:
            raise Refusal(401, 50027, "Invalid Webhook Token")
        return asked

    async def _say(self, asked: Asked, data: Json) -> None:
        if asked.is_hidden:
            check_draft(_hidden_draft(data))
            asked.said.append(data)
        else:
            asked.message = await self._post(asked, data)

    async def _post(self, asked: Asked, data: Json) -> Message:
        draft = Draft(
            content=str(data.get("content") or ""), may_ping=_may_ping(data),
            components=_components(data) or (),
        )  # fmt: skip
        message, _ = self._world.post(self._bot.id, asked.channel_id, draft)
        await self._announce("MESSAGE_CREATE", asked.channel_id, message_json(message, self._world))
        return message

    async def _change(self, asked: Asked, data: Json) -> None:
        if asked.message is None:
            raise Refusal(404, 10008, "Unknown Message")
        content = data.get("content")
        asked.message = self._world.edit(
            asked.message.author_id, asked.channel_id, asked.message.id,
            None if content is None else str(content), components=_components(data),
        )  # fmt: skip
        payload = message_json(asked.message, self._world)
        await self._announce("MESSAGE_UPDATE", asked.channel_id, payload)

    def _shown(self, asked: Asked, data: Json) -> Json:
        """A message object for the client; a hidden one is in no channel."""
        if asked.message is not None and not asked.is_hidden:
            return message_json(asked.message, self._world)
        hidden = Message(
            id=self._world.next_id(), channel_id=asked.channel_id, author_id=self._bot.id,
            content=str(data.get("content") or ""), created_s=self._now_s(),
        )  # fmt: skip
        return message_json(hidden, self._world)

    async def _put_commands(self, request: web.Request) -> object:
        self._check_bot(request)
        found = await request.json()
        for command in found:
            check_command(command)
        self.commands[_guild(request)] = found
        return [self._registered(index, one) for index, one in enumerate(found, start=1)]

    async def _get_commands(self, request: web.Request) -> object:
        self._check_bot(request)
        found = self.commands.get(_guild(request), [])
        return [self._registered(index, one) for index, one in enumerate(found, start=1)]

    def _registered(self, number: int, command: Json) -> Json:
        return {**command, "id": str(number), "application_id": str(self._bot.id), "version": "1"}

    def _check_bot(self, request: web.Request) -> None:
        if not request.headers.get("Authorization", "").startswith("Bot "):
            raise Refusal(401, 0, "401: Unauthorized")
        if request.match_info["app"] != str(self._bot.id):
            raise Refusal(403, 20012, "You are not authorized to perform this action")


def _guild(request: web.Request) -> int | None:
    guild = request.match_info.get("guild")
    return None if guild is None else int(guild)


def _hidden_draft(data: dict[str, Any]) -> Draft:
    """What a person is told in secret, as far as it can be refused: it may be a file alone."""
    files = tuple(data.get("_files", ()))
    return Draft(content=str(data.get("content") or ""), files=files)


def _may_ping(data: dict[str, Any]) -> tuple[int, ...] | None:
    allowed = data.get("allowed_mentions")
    if allowed is None or "users" in (allowed.get("parse") or ()):
        return None
    return tuple(int(user_id) for user_id in allowed.get("users") or ())


def _components(data: dict[str, Any]) -> tuple[Json, ...] | None:
    rows = data.get("components")
    return None if rows is None else tuple(rows)

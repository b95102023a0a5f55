"""The HTTP API: what a bot asks, answered as Discord answers.

Comes in: HTTP requests. Goes out: JSON answers with honest headers, faults where they were planned,
and a log of every call. `server` owns it.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final
from zlib import crc32

import msgspec
from aiohttp import web

from ops.rehearsal.discord.answers import CODE, Cut, json_answer, strike, too_many
from ops.rehearsal.discord.faults import FaultPlan, Stage
from ops.rehearsal.discord.limits import Limits, Verdict
from ops.rehearsal.discord.payloads import (
    Json,
    application_json,
    channel_json,
    member_json,
    message_json,
    own_user_json,
    user_json,
)
from ops.rehearsal.discord.requests import BODY, Answer, body_of, snowflake_of
from ops.rehearsal.discord.webhooks import HOOK, Webhooks
from ops.rehearsal.discord.world import Draft, Refusal, User, World

MAX_PAGE: Final = 100
DEFAULT_PAGE: Final = 50

Announce = Callable[[str, int, Json], Awaitable[None]]


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request and its answer. `status` 0: the connection was cut."""

    method: str
    path: str
    channel_id: int | None
    started_s: float
    ended_s: float
    status: int
    code: int = 0
    nonce: str | int | None = None
    body: dict[str, Any] = msgspec.field(default_factory=dict)


class Rest:
    """The API over a world.

    Args:
        world: people, channels, messages.
        limits: the rate limits.
        faults: what shall go wrong.
        bot: the one bot.
        bot_of: the bot that a token belongs to.
        announce: sends an event of a channel to the gateway's sessions.
        gateway: where the gateway is, and what it advises.
        now_s: seconds since the epoch.
    """

    def __init__(
        self,
        world: World,
        limits: Limits,
        faults: FaultPlan,
        *,
        bot: User,
        bot_of: Callable[[str], User | None],
        announce: Announce,
        gateway: Callable[[], Json],
        now_s: Callable[[], float],
    ) -> None:
        self._world = world
        self._limits = limits
        self._faults = faults
        self._bot = bot
        self._bot_of = bot_of
        self.webhooks = Webhooks(world, announce)
        self._announce = announce
        self._advice = gateway
        self._now_s = now_s
        self.calls: list[Call] = []

    def routes(self) -> list[web.RouteDef]:
        """The routes, below the versioned and the bare prefix."""
        table: list[tuple[str, str, Answer]] = [
            ("GET", "/gateway/bot", self._gateway),
            ("GET", "/users/@me", self._me),
            ("GET", "/oauth2/applications/@me", self._application),
            ("GET", "/applications/@me", self._application),
            ("GET", "/users/@me/guilds", self._guilds),
            ("GET", "/guilds/{guild}/members/{user}", self._member),
            ("POST", "/users/@me/channels", self._open_direct),
            ("GET", "/channels/{channel}", self._channel),
            ("GET", "/channels/{channel}/messages", self._history),
            ("POST", "/channels/{channel}/messages", self._post),
            ("GET", "/channels/{channel}/messages/{message}", self._message),
            ("PATCH", "/channels/{channel}/messages/{message}", self._edit),
            ("DELETE", "/channels/{channel}/messages/{message}", self._delete),
            ("POST", "/channels/{channel}/typing", self._typing),
            *self.webhooks.table(),
        ]
        return [
            web.route(method, prefix + path, self._handler(path, answer))
            for prefix in ("/api/v10", "/api")
            for method, path, answer in table
        ]

    def _handler(
        self, path: str, answer: Answer
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            started_s = self._now_s()
            channel_id = self._channel_id(request)
            body = await body_of(request)
            request[BODY] = body
            status, code = 0, 0
            try:
                response = await self._respond(request, answer, path, channel_id)
                status, code = response.status, int(response.get(CODE, 0))
            except Cut:
                if request.transport is not None:
                    request.transport.abort()
                response = web.Response(status=500)
            finally:
                self.calls.append(
                    Call(
                        method=request.method,
                        path=request.path,
                        channel_id=channel_id,
                        started_s=started_s,
                        ended_s=self._now_s(),
                        status=status,
                        code=code,
                        nonce=body.get("nonce"),
                        body=body,
                    )
                )
            return response

        return handle

    async def _respond(
        self,
        request: web.Request,
        answer: Answer,
        path: str,
        channel_id: int | None,
    ) -> web.Response:
        token = request.headers.get("Authorization", "").removeprefix("Bot ")
        # A webhook's own token stands in its address.
        bot = self._bot if path.startswith(HOOK) else self._bot_of(token)
        if bot is None:
            return json_answer(401, {"message": "401: Unauthorized", "code": 0})
        agent = request.headers.get("User-Agent", "")
        if not path.startswith(HOOK) and not agent.startswith("DiscordBot ("):
            return json_answer(403, {"message": "internal network error", "code": 40333})
        verdict = self._limits.judge(f"{request.method} {path} {channel_id}", self._now_s())
        if not verdict.passes:
            return too_many(verdict.retry_after_s, "global" if verdict.is_global else "user")
        fault = self._faults.take(request.method, path, channel_id)
        if fault is not None and fault.stage is Stage.BEFORE:
            failed = await strike(fault)
            if failed is not None:
                return failed
        try:
            response = json_answer(200, await answer(request, bot))
        except Refusal as refusal:
            response = json_answer(refusal.status, _refused(refusal))
        if fault is not None and fault.stage is Stage.AFTER:
            response = await strike(fault) or response
        return _with_numbers(response, verdict, self._now_s())

    async def _gateway(self, _request: web.Request, _bot: User) -> object:
        return self._advice()

    async def _me(self, _request: web.Request, bot: User) -> object:
        return own_user_json(bot)

    async def _application(self, _request: web.Request, bot: User) -> object:
        return application_json(bot)

    async def _guilds(self, _request: web.Request, _bot: User) -> object:
        return [
            {"id": str(guild.id), "name": guild.name, "owner": False, "permissions": "0"}
            for guild in self._world.guilds.values()
        ]

    async def _member(self, request: web.Request, _bot: User) -> object:
        guild_id = snowflake_of(request, "guild")
        user = self._world.member(guild_id, snowflake_of(request, "user"))
        return {**member_json(guild_id, user.id, self._world), "user": user_json(user)}

    async def _open_direct(self, request: web.Request, _bot: User) -> object:
        channel = self._world.direct_channel(int(request[BODY]["recipient_id"]))
        return channel_json(channel, self._world)

    async def _channel(self, request: web.Request, _bot: User) -> object:
        return channel_json(self._world.channel(snowflake_of(request, "channel")), self._world)

    async def _history(self, request: web.Request, _bot: User) -> object:
        after, before = request.query.get("after"), request.query.get("before")
        limit = min(MAX_PAGE, int(request.query.get("limit", DEFAULT_PAGE)))
        found = self._world.history(
            snowflake_of(request, "channel"),
            after=None if after is None else int(after),
            before=None if before is None else int(before),
            limit=limit,
        )
        # History does not carry nonces: whether Discord's does is not documented.
        return [_without_nonce(message_json(message, self._world)) for message in found]

    async def _message(self, request: web.Request, _bot: User) -> object:
        message = self._world.message(
            snowflake_of(request, "channel"), snowflake_of(request, "message")
        )
        return message_json(message, self._world)

    async def _post(self, request: web.Request, bot: User) -> object:
        channel_id = snowflake_of(request, "channel")
        draft = _draft_of(request[BODY])
        message, is_new = self._world.post(bot.id, channel_id, draft)
        payload = message_json(message, self._world)
        if is_new:
            await self._announce("MESSAGE_CREATE", channel_id, payload)
        return payload

    async def _edit(self, request: web.Request, bot: User) -> object:
        channel_id = snowflake_of(request, "channel")
        message = self._world.edit(
            bot.id,
            channel_id,
            snowflake_of(request, "message"),
            _content_of(request[BODY]),
            components=_components_of(request[BODY]),
            files=_files_of(request[BODY]),
        )
        payload = message_json(message, self._world)
        await self._announce("MESSAGE_UPDATE", channel_id, payload)
        return payload

    async def _delete(self, request: web.Request, bot: User) -> object:
        channel_id, message_id = snowflake_of(request, "channel"), snowflake_of(request, "message")
        self._world.delete(bot.id, channel_id, message_id)
        gone: Json = {"id": str(message_id), "channel_id": str(channel_id)}
        await self._announce("MESSAGE_DELETE", channel_id, gone)
        return None

    def _channel_id(self, request: web.Request) -> int | None:
        hook = self.webhooks.hooks.get(int(request.match_info.get("webhook", 0)))
        if hook is not None:
            return int(request.query.get("thread_id", hook.channel_id))
        channel = request.match_info.get("channel")
        return int(channel) if channel and channel.isdigit() else None

    async def _typing(self, request: web.Request, _bot: User) -> object:
        self._world.channel(snowflake_of(request, "channel"), "send").typing.append(self._now_s())
        return None


def _draft_of(body: dict[str, Any]) -> Draft:
    reference = body.get("message_reference") or {}
    allowed = body.get("allowed_mentions")
    may_ping: tuple[int, ...] | None = None
    if allowed is not None and "users" not in (allowed.get("parse") or ()):
        may_ping = tuple(int(user_id) for user_id in allowed.get("users") or ())
    message_id = reference.get("message_id")
    return Draft(
        content=str(body.get("content") or ""),
        nonce=body.get("nonce"),
        enforce_nonce=bool(body.get("enforce_nonce")),
        reply_to=None if message_id is None else int(message_id),
        fail_if_not_exists=bool(reference.get("fail_if_not_exists", True)),
        files=tuple(body.get("_files", ())),
        contents=tuple(body.get("_contents", ())),
        components=_components_of(body) or (),
        may_ping=may_ping,
    )


def _content_of(body: dict[str, Any]) -> str | None:
    """The new text of an edit; None where it leaves the text as it is."""
    return str(body["content"] or "") if "content" in body else None


def _files_of(body: dict[str, Any]) -> tuple[str, ...] | None:
    """The files after an edit; None where it leaves them."""
    if "_files" not in body and "attachments" not in body:
        return None
    return tuple(body.get("_files", ()))


def _components_of(body: dict[str, Any]) -> tuple[dict[str, object], ...] | None:
    return tuple(body["components"] or ()) if "components" in body else None


def _refused(refusal: Refusal) -> Json:
    payload: Json = {"message": refusal.message, "code": refusal.code}
    if refusal.field:
        payload["errors"] = {refusal.field: {"_errors": [{"code": "INVALID", "message": "no"}]}}
    return payload


def _without_nonce(payload: Json) -> Json:
    return {name: value for name, value in payload.items() if name != "nonce"}


def _with_numbers(response: web.Response, verdict: Verdict, now_s: float) -> web.Response:
    response.headers["X-RateLimit-Bucket"] = f"{crc32(verdict.bucket.rsplit(' ', 1)[0].encode()):x}"
    response.headers["X-RateLimit-Limit"] = str(verdict.limit)
    response.headers["X-RateLimit-Remaining"] = str(verdict.remaining)
    response.headers["X-RateLimit-Reset"] = f"{now_s + verdict.reset_after_s:.3f}"
    response.headers["X-RateLimit-Reset-After"] = f"{verdict.reset_after_s:.3f}"
    return response

"""The fake Discord as one thing: start it, let people speak, look at what the bot did.

Comes in: what people do. Goes out: addresses for clients, messages, calls. Tests and the rehearsal
import it.
"""

import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from aiohttp import web

from ops.rehearsal.discord.doorman import Doorman
from ops.rehearsal.discord.faults import FaultPlan
from ops.rehearsal.discord.interactions import Interactions
from ops.rehearsal.discord.limits import Limits, Rates
from ops.rehearsal.discord.payloads import Json, channel_json, member_json, message_json
from ops.rehearsal.discord.rest import Call, Rest
from ops.rehearsal.discord.sockets import (
    DIRECT_MESSAGES,
    GUILD_MESSAGES,
    MESSAGE_CONTENT,
    Sockets,
)
from ops.rehearsal.discord.webhooks import Webhooks
from ops.rehearsal.discord.world import THREAD, Channel, Draft, Message, User, World

BOT_ID: Final = 1000000000000000001
TOKEN: Final = f"{b64encode(str(BOT_ID).encode()).decode().rstrip('=')}.fake.discord"
"""A token as clients want it: its first part is the bot's id in base64. It opens nothing."""
SESSION_STARTS: Final = 1000


class FakeDiscord:
    """A Discord of one bot.

    Args:
        rates: how much is allowed.
        now_s: seconds since the epoch.
    """

    def __init__(
        self, *, rates: Rates | None = None, now_s: Callable[[], float] = time.time
    ) -> None:
        self.world = World(now_s)
        self.bot = self.world.add_user("turnfleet", is_bot=True, user_id=BOT_ID)
        self.token = TOKEN
        self.advised_shards = 1
        self.doorman = Doorman(now_s)
        self.faults = FaultPlan()
        self.sockets = Sockets(self.world, self._bot_of, lambda: self.socket_url, now_s)
        self._rest = Rest(
            self.world,
            Limits(rates or Rates()),
            self.faults,
            bot=self.bot,
            bot_of=self._bot_of,
            announce=self._announce,
            gateway=self._gateway,
            now_s=now_s,
        )
        self.interactions = Interactions(
            self.world,
            self.bot,
            tell=self._tell,
            announce=self._announce,
            faults=self.faults,
            now_s=now_s,
        )
        self._runner: web.AppRunner | None = None
        self.port = 0

    @property
    def webhooks(self) -> Webhooks:
        """The webhooks that were made."""
        return self._rest.webhooks

    @property
    def calls(self) -> list[Call]:
        """Every request so far."""
        return self._rest.calls

    @property
    def rest_url(self) -> str:
        """What `TURNFLEET_DISCORD_REST_URL` is set to."""
        return f"http://127.0.0.1:{self.port}/api/v10"

    @property
    def socket_url(self) -> str:
        """The gateway's address."""
        return f"ws://127.0.0.1:{self.port}/gateway"

    async def start(self, port: int = 0, *, routes: Sequence[web.RouteDef] = ()) -> None:
        """Listens on loopback; port 0 takes a free one, `routes` are served beside the API."""
        app = web.Application(middlewares=[self.doorman.guard])
        app.add_routes(routes)
        # Webhooks before interactions: both speak below one address, tokens tell them apart.
        app.add_routes(self._rest.routes())
        app.add_routes(self.interactions.routes())
        app.add_routes([web.get("/gateway", self.sockets.serve)])
        app.add_routes([web.get("/gateway/", self.sockets.serve)])
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        self.port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Stops listening and cuts every socket."""
        if self._runner is not None:
            self.sockets.cut_all()
            await self._runner.cleanup()
            self._runner = None

    async def say(
        self,
        channel_id: int,
        user: User,
        text: str,
        *,
        reply_to: int | None = None,
        attachments: tuple[Json, ...] = (),
    ) -> Message:
        """A person writes a message."""
        draft = Draft(content=text, reply_to=reply_to, files=("",) if attachments else ())
        message, _ = self.world.post(user.id, channel_id, draft, needs=())
        if attachments:
            message = msgspec.structs.replace(message, files=(), attachments=attachments)
            self.world.messages[channel_id][message.id] = message
        await self.announce(message)
        return message

    async def announce(self, message: Message) -> None:
        """Sends a message to the sessions, also once more: Discord doubles events at times."""
        await self._announce(
            "MESSAGE_CREATE", message.channel_id, message_json(message, self.world)
        )

    async def correct(self, message: Message, text: str) -> Message:
        """A person edits a message."""
        new = self.world.edit(message.author_id, message.channel_id, message.id, text)
        await self._announce("MESSAGE_UPDATE", message.channel_id, message_json(new, self.world))
        return new

    async def remove(self, *messages: Message) -> None:
        """People delete messages of a channel: one, or with a moderator's command several."""
        channel_id = messages[0].channel_id
        for message in messages:
            self.world.delete(message.author_id, channel_id, message.id)
        data: Json = {"channel_id": str(channel_id)}
        if len(messages) == 1:
            name, data["id"] = "MESSAGE_DELETE", str(messages[0].id)
        else:
            name, data["ids"] = "MESSAGE_DELETE_BULK", [str(message.id) for message in messages]
        await self._announce(name, channel_id, data)

    async def remove_channel(self, channel_id: int) -> None:
        """A channel or a thread is deleted."""
        channel = self.world.channels[channel_id]
        channel.is_deleted = True
        name = "THREAD_DELETE" if channel.kind == THREAD else "CHANNEL_DELETE"
        await self._tell(channel.guild_id, name, channel_json(channel, self.world))

    async def change_channel(self, channel_id: int) -> None:
        """Something about a channel changed: its permissions are what is in the world now."""
        channel = self.world.channels[channel_id]
        await self._tell(channel.guild_id, "CHANNEL_UPDATE", channel_json(channel, self.world))

    async def remove_guild(self, guild_id: int) -> None:
        """The bot is thrown out of a server."""
        guild = self.world.guilds.pop(guild_id)
        for key in guild.channels:
            self.world.channels[key].denied.add("view")
        await self._tell(guild_id, "GUILD_DELETE", {"id": str(guild_id)})

    def mention(self, text: str) -> str:
        """The text, addressed to the bot."""
        return f"<@{self.bot.id}> {text}"

    def replies(self, channel_id: int) -> list[Message]:
        """The bot's messages in a channel, oldest first."""
        return [
            message for message in self.world.shown(channel_id) if message.author_id == self.bot.id
        ]

    def _bot_of(self, token: str) -> User | None:
        # Whoever begins more sessions than a day has is reset: the token is good for nothing.
        is_reset = self.sockets.identifies > SESSION_STARTS
        return self.bot if token == self.token and not is_reset else None

    def _gateway(self) -> Json:
        return {
            "url": self.socket_url,
            "shards": self.advised_shards,
            "session_start_limit": {
                "total": SESSION_STARTS,
                "remaining": SESSION_STARTS - self.sockets.identifies,
                "reset_after": 86_400_000,
                "max_concurrency": self.sockets.starts.max_concurrency,
            },
        }

    async def _announce(self, name: str, channel_id: int, payload: Json) -> None:
        channel = self.world.channels[channel_id]
        data = dict(payload)
        if channel.guild_id is not None:
            data["guild_id"] = str(channel.guild_id)
            if name == "MESSAGE_CREATE":
                author = msgspec.convert(payload["author"], dict[str, object])
                user_id = int(str(author["id"]))
                data["member"] = member_json(channel.guild_id, user_id, self.world)
        intent = DIRECT_MESSAGES if channel.guild_id is None else GUILD_MESSAGES
        for session in list(self.sockets.sessions.values()):
            if session.intents & intent and session.sees(channel.guild_id):
                await self.sockets.tell(
                    session, name, self._visible(data, channel, session.intents)
                )

    async def _tell(self, guild_id: int | None, name: str, payload: Json) -> None:
        for session in list(self.sockets.sessions.values()):
            if session.sees(guild_id):
                await self.sockets.tell(session, name, payload)

    def _visible(self, data: Json, channel: Channel, intents: int) -> Json:
        """What the bot may read: without the intent only mentions, its own, and direct messages."""
        if intents & MESSAGE_CONTENT or channel.guild_id is None or "content" not in data:
            return data
        people = [data["author"], *_list(data["mentions"])]
        if any(isinstance(who, dict) and who["id"] == str(self.bot.id) for who in people):
            return data
        return {**data, "content": ""}


def _list(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else []

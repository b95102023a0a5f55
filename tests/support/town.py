"""A whole gateway over the fake Discord and a real server, with people in it, for interactions.

There is no worker: tests end turns as one would, by the queue.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from nacl.public import PrivateKey
from redis.asyncio import Redis

from gateway.app import serve
from ops.rehearsal.discord.asked import Asked
from ops.rehearsal.discord.interactions import Interactions
from ops.rehearsal.discord.server import FakeDiscord
from ops.rehearsal.discord.world import Message, User
from shared.config import Settings
from shared.configuration.loading import load
from shared.continuing import Continuation, dump
from shared.edges.continuing import Continuations
from shared.edges.credentials import CredentialStore, save_opening_keys
from shared.edges.queue import Admission, Claimed, TurnQueue
from shared.edges.records import TurnRecords
from shared.edges.redis import connect
from shared.edges.shards import shard_rows
from shared.failures import FaultDetails
from shared.keys import Keys
from shared.segments import TurnDone, TurnFailed
from shared.turns import CredentialSource, Front, Route, Speaker, TurnRequest
from shared.wire import decode_turn_request
from tests.support.discord import connected, running_discord
from tests.support.gateway import segment_of
from tests.support.servers import RedisServer
from tests.support.turns import turn

KEYS = Keys()
MANAGER = 1 << 5
MODERATOR = 1 << 13
LIMIT_S = 90.0
FAILED = TurnFailed(cause="overloaded", category="provider_overloaded", count=-1, retryable=True)


class Town:
    """One server with a channel, and who lives there."""

    def __init__(self, discord: FakeDiscord, client: Redis, opening: PrivateKey) -> None:
        self.discord = discord
        self.client = client
        self.opening = opening
        self.queue = TurnQueue(client, KEYS, Settings())
        self.records = TurnRecords(client, KEYS)
        self.store = CredentialStore(client, KEYS)
        world = discord.world
        self.guild = world.add_guild()
        self.channel = world.add_channel(self.guild.id).id
        self.ann, self.bob = world.add_user("ann"), world.add_user("bob")
        self.direct = world.direct_channel(self.ann.id).id
        self.environ: dict[str, str] = {}
        self._turns = 0
        self._requests: dict[str, TurnRequest] = {}

    @property
    def asks(self) -> Interactions:
        return self.discord.interactions

    async def command(
        self, command: str, user: User | None = None, /, *, rights: int = 0,
        channel: int | None = None, locale: str = "en-US",
        options: dict[str, str] | None = None, **more: str,
    ) -> Asked:  # fmt: skip
        """Gives a command and waits for what it says."""
        asked = await self.asks.command(
            channel or self.channel,
            user or self.ann,
            command,
            (options or {}) | more,
            rights=rights,
            locale=locale,
        )
        await asked.until(is_answered)
        return asked

    async def press(
        self, custom_id: str, user: User | None = None, *, rights: int = 0,
        channel: int | None = None, locale: str = "en-US",
    ) -> Asked:  # fmt: skip
        """Presses a button, of whatever message there is, and waits for what it says."""
        message = await self.message(channel or self.channel)
        asked = await self.asks.press(
            message, user or self.ann, custom_id, rights=rights, locale=locale
        )
        await asked.until(is_answered)
        return asked

    async def submit(
        self, custom_id: str, user: User | None = None, *, rights: int = 0, **values: str
    ) -> Asked:
        """Sends a form and waits for what it says."""
        asked = await self.asks.submit(
            self.channel, user or self.ann, custom_id, values, rights=rights
        )
        await asked.until(is_answered)
        return asked

    async def message(self, channel: int) -> Message:
        """Some message of a channel."""
        shown = self.discord.world.shown(channel)
        return shown[-1] if shown else await self.discord.say(channel, self.bob, "hello")

    async def turn(
        self,
        source: CredentialSource = CredentialSource.SERVER,
        *,
        direct: bool = False,
        end: TurnDone | TurnFailed | None = None,
        user: User | None = None,
        speaker: Speaker | None = None,
    ) -> str:
        """A turn of ann, admitted; with `end` it has ended like that."""
        self._turns += 1
        request = turn(f"m{self._turns}", credential_source=source)
        route = Route(
            front=Front.DISCORD,
            channel_id=self.direct if direct else self.channel,
            user_id=(user or self.ann).id,
            guild_id=None if direct else self.guild.id,
            speaker=speaker,
        )
        request = msgspec.structs.replace(request, route=route)
        self._requests[request.turn_id] = request
        assert await self.queue.admit(request) is Admission.ACCEPTED
        await self.client.lpush(KEYS.recent_turns(route.channel_id), request.turn_id)  # type: ignore[misc]  # redis-py
        if end is not None:
            (claimed,) = await self.queue.claim("w", 1)
            await self.queue.finish(claimed.token, end)
        return request.turn_id

    async def cut_off(self, turn_id: str) -> None:
        """Keeps what a worker keeps of a reply that reached its length."""
        request = self._requests[turn_id]
        kept = Continuation(request=request, target=request.target, said="So far")
        await Continuations(self.client, KEYS).keep(turn_id, dump(kept))

    async def failed(self, user: User | None = None) -> str:
        """A turn that failed."""
        return await self.turn(end=FAILED, user=user)

    async def fault(self, source: CredentialSource, *, direct: bool = False) -> str:
        """The details of a failure of ann's."""
        details = FaultDetails(
            snippet="upstream said no",
            credential_source=source,
            user_id=self.ann.id,
            guild_id=None if direct else self.guild.id,
        )
        report_id = f"r-{source}-{direct}"
        await self.records.save_details(report_id, details)
        return report_id

    async def claim(self) -> Claimed:
        """Takes the next turn that waits."""
        async with asyncio.timeout(20):
            while not (found := await self.queue.claim("w", 1)):
                await asyncio.sleep(0.01)
        return found[0]

    async def fail(self, claimed: Claimed, snippet: str) -> None:
        """Ends a turn as one that failed, with the details of that."""
        request = decode_turn_request(claimed.request)
        report_id = f"r-{request.turn_id}"
        details = FaultDetails(
            snippet=snippet,
            credential_source=request.credential_source,
            user_id=request.route.user_id,
            guild_id=request.route.guild_id,
        )
        await self.records.save_details(report_id, details)
        event = msgspec.structs.replace(FAILED, report_id=report_id)
        await self.queue.finish(claimed.token, event)

    async def answered(self, text: str = "the answer") -> Claimed:
        """Answers the next turn that waits."""
        claimed = await self.claim()
        await self.answer(claimed, text)
        return claimed

    async def answer(self, claimed: Claimed, text: str = "the answer") -> None:
        """Answers a turn that was claimed."""
        await self.queue.append(claimed.token, 1, segment_of(claimed.token, 1, text))
        await self.queue.finish(claimed.token, TurnDone(count=1))

    async def shows(
        self, channel: int, condition: Callable[[list[Message]], bool]
    ) -> list[Message]:
        """Waits until the bot's messages in a channel are as they should be."""
        async with asyncio.timeout(20):
            while not condition(replies := self.discord.replies(channel)):
                await asyncio.sleep(0.02)
        return replies

    @asynccontextmanager
    async def another_gateway(self, *, shards: int) -> AsyncIterator[None]:
        """One more gateway of the same bot, beside the first, while the block runs.

        The first one's bot has one shard. With as many it stands by, with more it hears the same.
        """
        stop, environ = asyncio.Event(), self.environ | {"TURNFLEET_DISCORD_SHARDS": str(shards)}
        async with asyncio.TaskGroup() as group:
            group.create_task(serve(load(environ), stop, environ))
            while not await self._has_gateways(shards):
                await asyncio.sleep(0.02)
            try:
                yield
            finally:
                stop.set()

    async def _has_gateways(self, shards: int) -> bool:
        """Whether a second gateway is there, and has the shards that it shall have."""
        fields: list[bytes] = await self.client.hkeys(KEYS.front("gateways"))  # type: ignore[misc]  # redis-py
        rows = await shard_rows(self.client, KEYS)
        connected = [row for row in rows if row.state == "connected" and row.count == shards]
        is_there = sum(b"|" in field for field in fields) == 2
        return is_there and len(connected) == shards


def is_answered(asked: Asked) -> bool:
    """Whether the person has got something: a text, a window, a message for all."""
    return bool(asked.said) or asked.form is not None or (asked.first == 4 and not asked.is_hidden)


@asynccontextmanager
async def town(
    server: RedisServer, home: Path, *, has_vault: bool = True, file: str = "", **settings: str
) -> AsyncIterator[Town]:
    """A gateway that runs until the end; `file` is its turnfleet.toml."""
    opening = PrivateKey.generate()
    if has_vault:
        save_opening_keys(home / "opening.keys", [opening])
    (home / "turnfleet.toml").write_text(file, encoding="utf-8")
    client = connect(server.url)
    await client.flushall()
    async with running_discord() as discord:
        place = Town(discord, client, opening)
        given = {
            "redis_url": server.url, "data_dir": str(home), "front": "discord",
            "discord_token": discord.token, "discord_rest_url": discord.rest_url,
        }  # fmt: skip
        environ = {f"TURNFLEET_{name.upper()}": text for name, text in (given | settings).items()}
        place.environ = environ
        stop = asyncio.Event()
        async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
            group.create_task(serve(load(environ), stop, environ))
            await connected(discord, within_s=LIMIT_S)
            try:
                yield place
            finally:
                stop.set()
    await client.aclose()

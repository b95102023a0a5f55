"""The connection to Discord: opened, kept, opened again.

Comes in: a token and listeners. Goes out: a running hikari bot. `gateway.edges.discord` imports it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

import hikari
import msgspec
from hikari.api import CacheComponents
from hikari.impl import CacheSettings, HTTPSettings

from gateway.edges.discord_changes import CHANGES
from gateway.edges.discord_errors import in_time
from gateway.edges.discord_places import PLACE_EVENTS
from gateway.edges.discord_shard import Resumable, Shard, State
from gateway.edges.discord_starts import Starts
from gateway.edges.discord_tending import RECONNECT_S, Tending, Watcher
from gateway.edges.refusals import Note, watch
from gateway.edges.shard_leases import Session, ShardLeases
from shared.errors import ConfigError, StoreFull, StoreUnavailable

logger = logging.getLogger(__name__)

INTENTS: Final = hikari.Intents.GUILDS | hikari.Intents.GUILD_MESSAGES | hikari.Intents.DM_MESSAGES
"""None is privileged: Discord shows every bot the messages that mention it, and its own DMs.
The text of others, for names and for channels where every message is a prompt, is asked for only
when a setting says so."""
COMPRESSION: Final = hikari.api.GatewayCompression.TRANSPORT_ZLIB_STREAM
"""The standard library's, so that every installation speaks the same; hikari would take zstd where
somebody has installed it. A bot of mentions has little to unpack."""
START_TIMEOUT_S: Final = 60.0
"""For who we are and how many shards we have: three requests."""
MAX_SILENT_WAIT_S: Final = 1.0
"""Longer rate limits are told to whoever asked: a courier waits itself, and then looks whether its
step is still in time and still its own. A third of a lease is what it may be wrong by."""
CLOSE_TIMEOUT_S: Final = 5.0
"""What a connection gets to end politely; the process need not wait for a socket that is dead."""

FATAL_CLOSES: Final = MappingProxyType(
    {
        4004: "Discord refuses the bot's token; set TURNFLEET_DISCORD_TOKEN anew",
        4010: "Discord refuses the shard",
        4011: "Discord demands more shards; set TURNFLEET_DISCORD_SHARDS to a larger number",
        4012: "Discord refuses this version of its gateway; update turnfleet",
        4013: "Discord does not know an intent of this bot; update turnfleet",
        4014: "an intent is not allowed; allow it in the developer portal under Bot",
    }
)
"""Closes after which connecting again is useless (developer docs, gateway close codes)."""

_PASSING = (hikari.HikariError, OSError, TimeoutError)


class DiscordOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach Discord, or what stands in for it."""

    token: str
    rest_url: str = "https://discord.com/api/v10"
    reads_all: bool = False
    """The privileged intent *message content* is asked for."""
    names: tuple[str, ...] = ()
    """Names that call the bot at the beginning of a message."""


class Listener(Watcher, Protocol):
    """Who takes the events of shards, in order."""

    async def on_ready(self, event: hikari.ShardReadyEvent) -> None:
        """A session began."""
        ...

    async def on_message(self, event: hikari.MessageCreateEvent) -> None:
        """A message."""
        ...

    async def on_guild(self, event: hikari.GuildAvailableEvent) -> None:
        """A guild, before its messages."""
        ...

    async def on_change(self, event: hikari.Event) -> None:
        """An event of `gateway.edges.discord_changes` or `discord_places`."""
        ...


class DiscordConnection:
    """One bot user's connection: what requests are made with, and the shards that are ours.

    Args:
        options: token and address.
        leases: which shards are ours.
        listener: takes events.
        on_interaction: takes `InteractionCreateEvent`s, any number at once.
        on_answer: is told of each answer that Discord gives.
        sleep: waits, up to ten minutes.
    """

    def __init__(
        self,
        options: DiscordOptions,
        leases: ShardLeases,
        listener: Listener,
        *,
        on_interaction: Callable[[hikari.InteractionCreateEvent], Coroutine[Any, Any, None]],
        on_answer: Note | None = None,
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
    ) -> None:
        self._sleep = sleep
        self._options = options
        self._leases = leases
        self._listener = listener
        self._on_interaction = on_interaction
        self._on_answer = on_answer
        self._bot: hikari.GatewayBot | None = None
        self._tending: Tending | None = None
        self._starts = Starts(leases, lambda: self.rest, sleep)
        self._closing = asyncio.Event()
        self.bot_id = 0

    @property
    def rest(self) -> hikari.api.RESTClient | None:
        """What requests are made with; None while there is no connection."""
        return None if self._bot is None else self._bot.rest

    @property
    def states(self) -> Mapping[int, State]:
        """How each of our shards stands."""
        return {} if self._tending is None else self._tending.states

    @property
    def connected(self) -> frozenset[int]:
        """The shards that miss nothing at this moment."""
        return frozenset(n for n, state in self.states.items() if state is State.CONNECTED)

    @property
    def starts(self) -> Starts:
        """How many sessions may be begun."""
        return self._starts

    async def open(self) -> None:
        """Connects, however long Discord is away.

        Raises:
            ConfigError: the token or the intents are refused.
        """
        failures = 0
        while not self._closing.is_set():
            try:
                await self._start()
            except (*_PASSING, StoreUnavailable, StoreFull) as exc:
                raise_if_fatal(exc)
                wait_s = RECONNECT_S[min(failures, len(RECONNECT_S) - 1)]
                failures += 1
                if isinstance(exc, hikari.RateLimitTooLongError):
                    wait_s = max(wait_s, exc.retry_after)
                logger.warning(
                    "discord.connect_failed",
                    extra={"error": type(exc).__name__, "wait_s": wait_s},
                )
                await self._abandon()
                await self._sleep(wait_s)
            else:
                break
        if self._tending is not None:
            await self._tending.begin()
            logger.info("discord.connected", extra={"shards": sorted(self.states)})

    async def keep(self) -> None:
        """Keeps our shards, until `leave` or `close`.

        Raises:
            ConfigError: see `open`.
        """
        if self._tending is not None:
            await self._tending.run()

    async def leave(self) -> None:
        """Receives nothing more; who comes after us goes on with our sessions."""
        if self._tending is not None:
            await self._tending.leave()

    async def close(self) -> None:
        """Ends the connection. Safe to call twice."""
        self._closing.set()
        await self.leave()
        await self._abandon()

    async def _start(self) -> None:
        self._bot = bot = hikari.GatewayBot(
            self._options.token,
            rest_url=self._options.rest_url,
            cache_settings=CacheSettings(components=CacheComponents.NONE),
            # Connections are used again: a handshake for each message would be most of its time.
            # One that Discord had closed fails a request, which the courier repeats by its nonce.
            http_settings=HTTPSettings(force_close_transports=False),
            intents=self._intents,
            banner=None,
            logs=None,
            suppress_optimization_warning=True,
            auto_chunk_members=False,
            max_rate_limit=MAX_SILENT_WAIT_S,
            max_retries=0,  # the courier asks again, and looks for receipts in between
        )
        bot.subscribe(hikari.ShardReadyEvent, self._listener.on_ready)
        bot.subscribe(hikari.MessageCreateEvent, self._listener.on_message)
        bot.subscribe(hikari.GuildAvailableEvent, self._listener.on_guild)
        bot.subscribe(hikari.InteractionCreateEvent, self._on_interaction)
        for kind in dict.fromkeys((*CHANGES, *PLACE_EVENTS)):
            bot.subscribe(kind, self._listener.on_change)
        # No shard of its own: hikari knows no leases, and starts what it starts for good.
        await bot.start(check_for_updates=False, shard_ids=(), shard_count=1)
        if self._on_answer is not None:
            watch(bot.rest, self._on_answer)
        async with asyncio.timeout(START_TIMEOUT_S):
            self.bot_id = int((await in_time(bot.rest.fetch_my_user)).id)
            advice = await in_time(bot.rest.fetch_gateway_bot_info)
            self._starts.note(advice.session_start_limit)
            count = await self._leases.agree(advice.shard_count)
        self._tending = Tending(
            self._leases,
            count=count,
            make=lambda number, session: self._shard(bot, advice.url, count, number, session),
            watcher=self._listener,
            why_fatal=raise_if_fatal,
            sleep=self._sleep,
        )

    @property
    def _intents(self) -> hikari.Intents:
        return INTENTS | (hikari.Intents.MESSAGE_CONTENT if self._options.reads_all else 0)

    def _shard(
        self, bot: hikari.GatewayBot, url: str, count: int, number: int, session: Session | None
    ) -> Shard:
        left = None
        if session is not None:
            left = Resumable(session_id=session.session_id, seq=session.seq, url=session.url)
        return Shard(
            permit=self._starts.permit,
            left=left,
            user_id=self.bot_id,
            http_settings=bot.http_settings,
            proxy_settings=bot.proxy_settings,
            event_manager=bot.event_manager,
            event_factory=bot.event_factory,
            compression=COMPRESSION,
            intents=self._intents,
            shard_id=number,
            shard_count=count,
            token=self._options.token,
            url=url,
        )

    async def _abandon(self) -> None:
        bot, self._bot = self._bot, None
        if bot is None or not bot.is_alive:
            return
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await bot.close()
        except _PASSING as exc:
            logger.debug("discord.close_failed", extra={"error": type(exc).__name__})


def raise_if_fatal(error: Exception) -> None:
    """Passes an error after which another try may succeed.

    Raises:
        ConfigError: nothing will change until the operator acts; the message says how.
    """
    if isinstance(error, hikari.UnauthorizedError):
        raise ConfigError(FATAL_CLOSES[4004]) from error
    if isinstance(error, hikari.GatewayServerClosedConnectionError):
        reason = FATAL_CLOSES.get(int(error.code or 0))
        if reason is not None:
            raise ConfigError(reason) from error

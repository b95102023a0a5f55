"""The connection to Discord: opened, kept, opened again.

Comes in: a token and listeners. Goes out: a running hikari bot. `gateway.edges.discord` imports it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from types import MappingProxyType
from typing import Any, Final

import hikari
import msgspec
from hikari.api import CacheComponents
from hikari.impl import CacheSettings, HTTPSettings

from gateway.edges.discord_changes import CHANGES
from gateway.edges.discord_places import PLACE_EVENTS
from shared.errors import ConfigError

logger = logging.getLogger(__name__)

INTENTS: Final = hikari.Intents.GUILDS | hikari.Intents.GUILD_MESSAGES | hikari.Intents.DM_MESSAGES
"""None is privileged: Discord shows every bot the messages that mention it, and its own DMs.
The text of others, for names and for channels where every message is a prompt, is asked for only
when a setting says so."""
MAX_SILENT_WAIT_S: Final = 30.0
"""Longer rate limits are told to the courier, which looks at deadlines meanwhile."""
IDENTIFY_FLOOR: Final = 50
"""Of 1,000 identifies a day the last ones are kept: Discord resets the token at none."""
START_TIMEOUT_S: Final = 120.0
"""Shards start one after another, five seconds apart: enough for some twenty of them."""
CLOSE_TIMEOUT_S: Final = 5.0
"""What a connection gets to end politely; the process need not wait for a socket that is dead."""
RECONNECT_S: Final = (1.0, 2.0, 5.0, 15.0, 30.0)
"""Waits before a new connection; the last one for every further try."""

FATAL_CLOSES: Final = MappingProxyType(
    {
        4004: "Discord refuses the bot's token; set TURNFLEET_DISCORD_TOKEN anew",
        4010: "Discord refuses the shard",
        4011: "Discord demands more shards",
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
    shards: int = 0
    """How many shards the bot has; 0 takes what Discord recommends."""


class DiscordConnection:
    """One bot user's connection.

    Args:
        options: token and address.
        on_message: takes `MessageCreateEvent`s, in order.
        on_guild: takes `GuildAvailableEvent`s, before the messages of that guild.
        on_interaction: takes `InteractionCreateEvent`s, any number at once.
        on_change: takes the events of `gateway.edges.discord_changes` and `discord_places`.
        sleep: waits, up to a day.
    """

    def __init__(
        self,
        options: DiscordOptions,
        *,
        on_message: Callable[[hikari.MessageCreateEvent], Coroutine[Any, Any, None]],
        on_guild: Callable[[hikari.GuildAvailableEvent], Coroutine[Any, Any, None]],
        on_interaction: Callable[[hikari.InteractionCreateEvent], Coroutine[Any, Any, None]],
        on_change: Callable[[hikari.Event], Coroutine[Any, Any, None]],
        sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep,
    ) -> None:
        self._sleep = sleep
        self._options = options
        self._on_message = on_message
        self._on_guild = on_guild
        self._on_interaction = on_interaction
        self._on_change = on_change
        self._bot: hikari.GatewayBot | None = None
        self._closing = asyncio.Event()
        self.bot_id = 0

    @property
    def rest(self) -> hikari.api.RESTClient | None:
        """What requests are made with; None while there is no connection."""
        return None if self._bot is None else self._bot.rest

    @property
    def is_whole(self) -> bool:
        """Every shard is connected, so that nothing is missed at this moment."""
        bot = self._bot
        return bot is not None and all(shard.is_connected for shard in bot.shards.values())

    async def open(self) -> None:
        """Connects, however long Discord is away.

        Raises:
            ConfigError: the token or the intents are refused.
        """
        failures = 0
        while not self._closing.is_set():
            try:
                await self._start()
            except (*_PASSING, RuntimeError) as exc:
                # RuntimeError is hikari's word for a shard that was closed while it started. Why it
                # was, the next try is told.
                raise_if_fatal(exc)
                wait_s = RECONNECT_S[min(failures, len(RECONNECT_S) - 1)]
                failures += 1
                logger.warning(
                    "discord.connect_failed",
                    extra={"error": type(exc).__name__, "wait_s": wait_s},
                )
                await self._abandon()
                await self._sleep(wait_s)
            else:
                return

    async def keep(self) -> None:
        """Connects again whenever the connection has ended for good, until `close`.

        Raises:
            ConfigError: see `open`.
        """
        while not self._closing.is_set() and self._bot is not None:
            try:
                await self._bot.join()
            except _PASSING as exc:
                raise_if_fatal(exc)
                logger.warning("discord.connection_ended", extra={"error": type(exc).__name__})
            if self._closing.is_set():
                return
            await self._abandon()
            await self.open()

    async def close(self) -> None:
        """Ends the connection. Safe to call twice."""
        self._closing.set()
        await self._abandon()

    async def _start(self) -> None:
        await self._check_token()
        self._bot = bot = hikari.GatewayBot(
            self._options.token,
            rest_url=self._options.rest_url,
            cache_settings=CacheSettings(components=CacheComponents.NONE),
            # Connections are used again: a handshake for each message would be most of its time.
            # One that Discord had closed fails a request, which the courier repeats by its nonce.
            http_settings=HTTPSettings(force_close_transports=False),
            intents=INTENTS | (hikari.Intents.MESSAGE_CONTENT if self._options.reads_all else 0),
            banner=None,
            logs=None,
            suppress_optimization_warning=True,
            auto_chunk_members=False,
            max_rate_limit=MAX_SILENT_WAIT_S,
            max_retries=0,  # the courier asks again, and looks for receipts in between
        )
        bot.subscribe(hikari.MessageCreateEvent, self._on_message)
        bot.subscribe(hikari.GuildAvailableEvent, self._on_guild)
        bot.subscribe(hikari.InteractionCreateEvent, self._on_interaction)
        for kind in dict.fromkeys((*CHANGES, *PLACE_EVENTS)):
            bot.subscribe(kind, self._on_change)
        async with asyncio.timeout(START_TIMEOUT_S):
            await self._begin(bot)
        logger.info("discord.connected", extra={"shards": len(bot.shards)})

    async def _begin(self, bot: hikari.GatewayBot) -> None:
        """Starts the shards. Cancelled, it lets the one that is starting stand first.

        hikari forgets a shard whose start is cancelled; it then connects for ever, and the loop,
        which waits for it at its end, does not end.
        """
        starting = asyncio.create_task(
            bot.start(check_for_updates=False, shard_count=self._options.shards or None),
            name="discord start",
        )
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            await asyncio.wait({starting}, timeout=CLOSE_TIMEOUT_S)
            starting.cancel()
            raise

    async def _check_token(self) -> None:
        """Asks who we are, and waits while too few identifies are left.

        A crash loop must not use up the last ones: Discord would reset the token.
        """
        app = hikari.RESTApp(url=self._options.rest_url, max_retries=0)
        await app.start()
        try:
            async with app.acquire(self._options.token, hikari.TokenType.BOT) as rest:
                self.bot_id = int((await rest.fetch_my_user()).id)
                limit = (await rest.fetch_gateway_bot_info()).session_start_limit
        finally:
            await app.close()
        if limit.remaining < IDENTIFY_FLOOR:
            logger.error("discord.few_identifies_left", extra={"remaining": limit.remaining})
            await self._sleep(limit.reset_after.total_seconds())

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

"""When a session may be begun: Discord allows few a day, and one in five seconds for a bucket.

Comes in: shards that want to identify. Goes out: their permission. `gateway.edges.discord_tending`
asks. A crash loop that used up the day's sessions would have the token reset; resuming is free.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import hikari

from gateway.edges.discord_errors import in_time
from gateway.edges.discord_shard import Shard, State
from gateway.edges.shard_leases import ShardLeases
from shared.errors import StoreFull, StoreUnavailable

logger = logging.getLogger(__name__)

IDENTIFY_FLOOR: Final = 50
"""Of 1,000 identifies a day the last ones are kept: Discord resets the token at none."""
ASK_AGAIN_S: Final = 600.0
"""How often Discord is asked, while too few are left, whether there are more."""
FRESH_S: Final = 5.0
"""How long such an answer holds for the other shards of a gateway: those that wait for a bucket ask
again with each start, and their questions count against the bot's requests."""
AWAY_S: Final = 1.0
"""How often Redis or Discord is asked again while it is away."""
CALL_TIMEOUT_S: Final = 10.0


class Starts:
    """Permissions for all shards of a gateway.

    Args:
        leases: what all gateways of the bot share.
        rest: what requests are made with; None while there is no connection.
        sleep: waits.
    """

    def __init__(
        self,
        leases: ShardLeases,
        rest: Callable[[], hikari.api.RESTClient | None],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._leases = leases
        self._rest = rest
        self._sleep = sleep
        self._asking = asyncio.Lock()
        self._said: hikari.SessionStartLimit | None = None
        self._said_s = 0.0
        self.total, self.left = 0, 0
        """How many sessions may be begun in a day, and still today, as Discord said last."""

    async def permit(self, shard: Shard) -> None:
        """Waits until a shard may identify. Cancelled, it may not.

        Raises:
            hikari.UnauthorizedError: the token is refused.
        """
        while True:
            shard.state = State.WAITING
            limit = await self._limit()
            if limit is None:
                await self._sleep(AWAY_S)
                continue
            if self.left < IDENTIFY_FLOOR:
                await self._refuse(shard, limit)
                continue
            try:
                wait_s = await self._leases.may_identify(
                    shard.id, shard.id % max(1, limit.max_concurrency)
                )
            except (StoreUnavailable, StoreFull) as exc:
                # Nobody begins a session unseen: another gateway may have this shard by now.
                logger.debug("discord.start_waits", extra={"error": str(exc)})
                wait_s = AWAY_S
            if wait_s == 0:
                self.left -= 1
                return
            # What is not ours is taken from us with the next beat.
            await self._sleep(wait_s if wait_s > 0 else AWAY_S)

    def note(self, limit: hikari.SessionStartLimit) -> None:
        """What Discord says."""
        self.total, self.left = limit.total, limit.remaining

    async def _refuse(self, shard: Shard, limit: hikari.SessionStartLimit) -> None:
        shard.state = State.NO_STARTS
        reset_s = limit.reset_after.total_seconds()
        logger.error(
            "discord.few_identifies_left",
            extra={
                "remaining": self.left,
                "kept": IDENTIFY_FLOOR,
                "shard": shard.id,
                "reset_after_s": round(reset_s),
                "advice": "find out what restarts so often; at none left Discord resets the token",
            },
        )
        await self._sleep(min(reset_s, ASK_AGAIN_S))
        self._said = None

    async def _limit(self) -> hikari.SessionStartLimit | None:
        """What Discord said a moment ago, to whichever shard."""
        async with self._asking:
            now_s = asyncio.get_running_loop().time()
            if self._said is None or now_s - self._said_s >= FRESH_S:
                self._said, self._said_s = await self._ask(), now_s
                if self._said is not None:
                    self.note(self._said)
            return self._said

    async def _ask(self) -> hikari.SessionStartLimit | None:
        rest = self._rest()
        if rest is None:
            return None
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                return (await in_time(rest.fetch_gateway_bot_info)).session_start_limit
        except hikari.UnauthorizedError:
            raise
        except (hikari.HikariError, OSError, TimeoutError) as exc:
            logger.debug("discord.starts_unknown", extra={"error": type(exc).__name__})
            return None

"""Keeps the shards that this gateway has by lease: starts, hands over, starts again.

Comes in: beats of the leases. Goes out: running shards. `gateway.edges.discord_connection` runs it.

While Redis is away every shard goes on with its session: nobody else can have it then. A gateway
that was stopped for longer than its lease learns with its next beat which shards others have, and
leaves them; what both heard meanwhile is one turn each, by the marks of admission.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Final, Protocol

import hikari

from gateway.edges.discord_shard import Resumable, Shard, State
from gateway.edges.shard_leases import Beat, Given, Holding, Session, ShardLeases
from shared.errors import ConfigError, StoreError, StoreFull, StoreUnavailable

logger = logging.getLogger(__name__)

BEAT_S: Final = 1.0
"""A third of a lease; also how late a shard that is free is noticed."""
LEAVE_S: Final = 5.0
"""What giving shards up gets where Redis does not answer: their leases end by themselves."""
RECONNECT_S: Final = (1.0, 2.0, 5.0, 15.0, 30.0)
"""Waits before a new connection; the last one for every further try."""
LOOK_S: Final = 0.02

Make = Callable[[int, Session | None], Shard]

PASSING: Final = (hikari.HikariError, OSError, TimeoutError, StoreUnavailable, StoreFull)
"""How connections end every day."""


class Watcher(Protocol):
    """Who takes the events of shards."""

    async def begin_shard(self, shard: int, count: int, session: Session | None) -> None:
        """A shard is ours, before its first event; may raise what passes."""
        ...

    def end_shard(self, shard: int, left: Session | None) -> Session | None:
        """A shard is ours no more: the session as it may be resumed, None where it may not."""
        ...

    def session(self, shard: int, left: Session) -> Session | None:
        """A session as another could resume it now; None leaves the one that is kept."""
        ...

    def kept(self, shards: Iterable[int]) -> None:
        """The sessions of these that were asked for last are kept."""
        ...


class _Held:
    """One shard of ours. `shard` changes when Discord ends its connection for good."""

    def __init__(self) -> None:
        self.shard: Shard | None = None
        self.keeper: asyncio.Task[None] | None = None
        self.is_leaving = False

    @property
    def state(self) -> State:
        if self.shard is None:
            return State.STARTING
        return State.CONNECTED if self.shard.is_connected else self.shard.state


class Tending:
    """The shards of one gateway.

    Args:
        leases: which are ours.
        count: how many the bot has.
        make: a shard by its number, with a session to go on with.
        watcher: takes their events.
        why_fatal: raises `ConfigError` for an end after which starting again is useless.
        sleep: waits before a new connection.
    """

    def __init__(
        self,
        leases: ShardLeases,
        *,
        count: int,
        make: Make,
        watcher: Watcher,
        why_fatal: Callable[[Exception], None],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._leases = leases
        self._count = count
        self._make = make
        self._watcher = watcher
        self._why_fatal = why_fatal
        self._sleep = sleep
        self._held: dict[int, _Held] = {}
        self._ending: dict[int, asyncio.Task[None]] = {}
        """Shards on their way out: beats go on meanwhile, and who gets one again waits for it."""
        self._beats: asyncio.Task[None] | None = None
        self._refused: ConfigError | None = None
        self._has_beaten = False

    @property
    def states(self) -> Mapping[int, State]:
        """How each of our shards stands."""
        return {number: held.state for number, held in self._held.items()}

    async def begin(self) -> None:
        """Takes shards, and returns once one of them stands, or none is free.

        Raises:
            ConfigError: Discord refuses us for good.
        """
        self._beats = asyncio.create_task(self._beat_on(), name="shard leases")
        while self._beats is not None and not self._stands:
            await asyncio.sleep(LOOK_S)
            self._check()

    async def run(self) -> None:
        """Goes on until it is left.

        Raises:
            ConfigError: Discord refuses us for good.
        """
        while self._beats is not None and not self._beats.done():
            await asyncio.wait({self._beats}, timeout=BEAT_S)
            self._check()

    async def leave(self) -> None:
        """Gives every shard up, its session with it, and takes no more. Safe to call twice."""
        beats, self._beats = self._beats, None
        if beats is None:
            return
        beats.cancel()
        await asyncio.wait({beats, *self._ending.values()})
        await self._hand_over(dict(self._held), for_good=True)

    @property
    def _stands(self) -> bool:
        """A shard is connected, or there was none to take."""
        is_alone = self._has_beaten and not self._held
        return is_alone or State.CONNECTED in self.states.values()

    def _check(self) -> None:
        if self._refused is not None:
            raise self._refused
        if self._beats is not None and self._beats.done():
            self._beats.result()

    async def _beat_on(self) -> None:
        while True:
            try:
                await self._beat()
            except ConfigError:
                raise
            except (StoreUnavailable, StoreFull) as exc:
                logger.debug("discord.leases_wait", extra={"error": str(exc)})
            except Exception as exc:
                # Whatever it is, shards whose beats have ended would be another gateway's, too.
                is_said = isinstance(exc, StoreError)
                facts = {"error": str(exc) if is_said else type(exc).__name__}
                logger.warning(
                    "discord.beat_failed", extra=facts, exc_info=None if is_said else exc
                )
            await asyncio.sleep(BEAT_S)

    async def _beat(self) -> None:
        holdings = await self._holdings()
        beat = await self._leases.beat(holdings)
        self._has_beaten = True
        self._watcher.kept([number for number, one in holdings.items() if one.session is not None])
        self._heed(beat)

    def _heed(self, beat: Beat) -> None:
        for given in beat.taken:
            self._take(given)
        if beat.lost:
            logger.warning("discord.shards_lost", extra={"shards": list(beat.lost)})
        lost = {n: held for n in beat.lost if (held := self._held.pop(n, None))}
        self._end(lost, self._drop(lost))
        many = {n: held for n in beat.excess if (held := self._held.get(n))}
        excess = {n: held for n, held in many.items() if not held.is_leaving}
        self._end(excess, self._hand_over(excess, for_good=False))

    async def _holdings(self) -> dict[int, Holding]:
        """Our shards with their sessions, so that who is there after a crash can resume them."""
        left = {
            number: held.shard.resumable
            for number, held in self._held.items()
            if held.shard is not None and held.state is State.CONNECTED and not held.is_leaving
        }
        await asyncio.sleep(0)  # handlers of the last events begin, and note them
        return {
            number: Holding(
                state=held.state,
                session=None
                if (now := left.get(number)) is None
                else self._watcher.session(number, _session_of(now)),
            )
            for number, held in self._held.items()
        }

    def _take(self, given: Given) -> None:
        facts = {
            "shard": given.shard,
            "shards": self._count,
            "resumes": given.session is not None,
        }
        logger.info("discord.shard_taken", extra=facts)
        held = self._held[given.shard] = _Held()
        held.keeper = asyncio.create_task(
            self._keep(held, given), name=f"discord shard {given.shard}"
        )

    async def _keep(self, held: _Held, given: Given) -> None:
        session, failures = given.session, 0
        if (ending := self._ending.get(given.shard)) is not None:
            await asyncio.wait({ending})
        while True:
            try:
                await self._watcher.begin_shard(given.shard, self._count, session)
                shard = held.shard = self._make(given.shard, session)
                shard.begin()
                await shard.join()
            except Exception as exc:  # whatever it was, the guilds must be heard again
                if not self._may_go_on(exc):
                    return
                facts = {"error": type(exc).__name__, "shard": given.shard}
                unknown = None if isinstance(exc, (*PASSING, RuntimeError)) else exc
                logger.warning("discord.connection_ended", extra=facts, exc_info=unknown)
            if held.shard is not None:
                failures = 0 if held.shard.has_stood else failures
                await _closed(held.shard)
            await self._sleep(RECONNECT_S[min(failures, len(RECONNECT_S) - 1)])
            session, failures = None, failures + 1

    def _may_go_on(self, exc: Exception) -> bool:
        try:
            self._why_fatal(exc)
        except ConfigError as refused:
            self._refused = refused
            return False
        return True

    def _end(self, shards: dict[int, _Held], work: Coroutine[Any, Any, object]) -> None:
        """Ends shards beside the beats, which keep the others."""
        if not shards:
            work.close()
            return

        async def end() -> None:
            await work

        task = asyncio.create_task(end(), name=f"ending shards {sorted(shards)}")
        for number, held in shards.items():
            held.is_leaving = True
            self._ending[number] = task
        task.add_done_callback(lambda _: self._ended(shards, task))

    def _ended(self, shards: dict[int, _Held], task: asyncio.Task[None]) -> None:
        for number in shards:
            if self._ending.get(number) is task:
                del self._ending[number]

    async def _hand_over(self, shards: dict[int, _Held], *, for_good: bool) -> None:
        """Ends shards, and gives them up with their sessions; they are ours until then."""
        sessions = await self._drop(shards)
        logger.info("discord.shards_left", extra={"shards": sorted(shards)})
        try:
            async with asyncio.timeout(LEAVE_S):
                await self._leases.leave(sessions, for_good=for_good)
        except (StoreUnavailable, StoreFull, TimeoutError) as exc:
            logger.debug("discord.leases_left", extra={"error": type(exc).__name__})
        for number, held in shards.items():
            if self._held.get(number) is held:
                del self._held[number]

    async def _drop(self, shards: dict[int, _Held]) -> dict[int, Session | None]:
        """Ends shards, all at once; their sessions as others may resume them."""
        sessions: dict[int, Session | None] = {}

        async def drop(number: int, held: _Held) -> None:
            if held.keeper is not None:
                held.keeper.cancel()
                await asyncio.wait({held.keeper})
            left = None if held.shard is None else await _closed(held.shard)
            session = None if left is None else _session_of(left)
            sessions[number] = self._watcher.end_shard(number, session)

        async with asyncio.TaskGroup() as group:
            for number, held in shards.items():
                group.create_task(drop(number, held), name=f"leaving shard {number}")
        return sessions


async def _closed(shard: Shard) -> Resumable | None:
    """Closes a shard: its session for others. A socket that dies of it leaves none."""
    try:
        return await shard.leave()
    except Exception as exc:  # noqa: BLE001 -- the other shards are handed over all the same
        facts = {"error": type(exc).__name__, "shard": shard.id}
        logger.warning("discord.shard_not_closed", extra=facts)
        return None


def _session_of(left: Resumable) -> Session:
    now_ms = time.time_ns() // 1_000_000
    return Session(session_id=left.session_id, seq=left.seq, url=left.url, at_ms=now_ms)

"""Which shards of a bot this gateway has: by leases that all gateways of the bot share in Redis.

Comes in: what it holds, beat by beat. Goes out: what it is given, has lost, or has too many of, and
when it may begin a session. `gateway.edges.discord_tending` asks; `gateway.outward` makes one.
Every call may be repeated and raises `StoreUnavailable` when nobody answers.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec
from redis.asyncio import Redis

from shared.edges.redis import within
from shared.edges.scripting import Script
from shared.keys import Keys
from shared.lifetimes import SESSION_TTL_MS, SHARD_COUNT_TTL_MS, SHARDS_TTL_MS
from shared.setting_rules import AUTO, wanted_shards
from shared.wire import UNREADABLE

logger = logging.getLogger(__name__)

SHARD_LEASE_MS: Final = 3_000
"""Three beats, as long as the lease of a partition: a killed gateway is missed for as long."""
IDENTIFY_GAP_MS: Final = 5_250
"""Discord's five seconds between two starts of a bucket, and what the way may take off them."""


class KnownPlaces(msgspec.Struct, frozen=True, kw_only=True):
    """What only a new session tells: channels of threads, and which are age-restricted."""

    parents: dict[int, int]
    restricted: tuple[int, ...] = ()


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A session that can be resumed, and what its gateway knew of its places.

    `places` None: they are as they were when they were kept last.
    """

    session_id: str
    seq: int
    url: str
    at_ms: int
    places: KnownPlaces | None = None


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """A shard that is ours: how it stands, and its session as another could resume it now."""

    state: str
    session: Session | None = None


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """A shard that is ours from now on; with the session that somebody left, where there is one."""

    shard: int
    session: Session | None = None


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """What a beat has brought: shards that are new, that others have, that we have too many of."""

    taken: tuple[Given, ...] = ()
    lost: tuple[int, ...] = ()
    excess: tuple[int, ...] = ()


class ShardLeases(Protocol):
    """The shards that are ours."""

    async def agree(self, advised: int) -> int:
        """How many shards the bot has, where Discord advises so many."""
        ...

    async def beat(self, held: Mapping[int, Holding]) -> Beat:
        """Renews what is held, keeps its sessions, and takes what is free, up to a fair share."""
        ...

    async def leave(self, sessions: Mapping[int, Session | None], *, for_good: bool) -> None:
        """Gives shards up, so that others resume their sessions; `for_good` takes no new ones."""
        ...

    async def may_identify(self, shard: int, bucket: int) -> float:
        """Takes a bucket's next start: seconds to wait, 0 it may; negative: it is not ours."""
        ...


class Alone:
    """The leases of a gateway that has a bot to itself."""

    def __init__(self) -> None:
        self._free: tuple[int, ...] = ()

    async def agree(self, advised: int) -> int:
        """What Discord advises."""
        self._free = tuple(range(advised))
        return advised

    async def beat(self, held: Mapping[int, Holding]) -> Beat:
        """Gives every shard at once."""
        del held
        taken, self._free = self._free, ()
        return Beat(taken=tuple(Given(shard=shard) for shard in taken))

    async def leave(self, sessions: Mapping[int, Session | None], *, for_good: bool) -> None:
        """Nobody is there to take them."""

    async def may_identify(self, shard: int, bucket: int) -> float:
        """At once."""
        del shard, bucket
        return 0.0


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Session).decode
_decode_places = msgspec.json.Decoder(KnownPlaces).decode


def _texts_of(session: Session | None) -> tuple[bytes, bytes]:
    """A session and its places as they are kept; empty for what there is nothing new of."""
    if session is None:
        return b"", b""
    head = _encode(msgspec.structs.replace(session, places=None))
    return head, b"" if session.places is None else _encode(session.places)


class RedisShards:
    """The leases of one gateway.

    Args:
        redis: a client for short commands.
        keys: the cell's keys.
        owner: unique among living gateways.
        wanted: a number of shards, or `auto`: what Discord advised the first of the gateways that
            live. All of them keep to it, until none of them lives or a number is set.
        lease_ms: how long a shard is ours after a beat.
        gap_ms: how long after a start the next of the same bucket may follow.
        now_ms: the wall clock.

    Raises:
        SettingError: `wanted` is neither.
    """

    def __init__(
        self,
        redis: Redis,
        keys: Keys,
        owner: str,
        *,
        wanted: int | str = AUTO,
        lease_ms: int = SHARD_LEASE_MS,
        gap_ms: int = IDENTIFY_GAP_MS,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._wanted = wanted_shards(wanted)
        self._redis = redis
        self._keys = keys
        self._owner = owner
        self._lease_ms = lease_ms
        self._gap_ms = gap_ms
        self._now_ms = now_ms
        self._names = [keys.front(what) for what in ("leases", "gateways", "sessions", "count")]
        self._share = Script(redis, "shards")
        self._leave = Script(redis, "leave_shards")
        self._identify = Script(redis, "identify")
        self._count = 0

    async def agree(self, advised: int) -> int:
        """How many shards the bot has."""
        if self._wanted:
            self._count = self._wanted
            return self._count
        key = self._keys.front("count")
        await within(self._redis.set(key, advised, px=SHARD_COUNT_TTL_MS, nx=True))
        found: bytes | None = await within(self._redis.get(key))
        self._count = int(found or advised)
        if self._count < advised:
            # Discord refuses a shard of more than 2,500 guilds: somebody must act before.
            facts = {"advised": advised, "shards": self._count}
            logger.warning("discord.more_shards_advised", extra=facts)
        return self._count

    async def beat(self, held: Mapping[int, Holding]) -> Beat:
        """Renews, takes, and says what is lost."""
        count_ttl_ms = 0 if self._wanted else SHARD_COUNT_TTL_MS
        args: list[str | bytes | int] = [
            self._owner,
            self._count,
            self._lease_ms,
            SHARDS_TTL_MS,
            count_ttl_ms,
            SESSION_TTL_MS,
        ]
        for shard, holding in held.items():
            args += [shard, holding.state, *_texts_of(holding.session)]
        answer: Any = await within(self._share(self._names, args))
        taken, lost, excess = answer
        return Beat(
            taken=tuple(
                Given(shard=int(shard), session=self._session(head, places))
                for shard, head, places in taken
            ),
            lost=tuple(int(shard) for shard in lost),
            excess=tuple(int(shard) for shard in excess),
        )

    async def leave(self, sessions: Mapping[int, Session | None], *, for_good: bool) -> None:
        """Gives shards up with their sessions."""
        args: list[str | bytes | int] = [self._owner, self._count, int(for_good), SESSION_TTL_MS]
        for shard, session in sessions.items():
            args += [shard, *_texts_of(session)]
        await within(self._leave(self._names[:3], args))

    async def may_identify(self, shard: int, bucket: int) -> float:
        """Seconds to wait for the bucket's next start; 0 took it, negative: not ours."""
        names = [self._names[0], self._keys.front(f"identify:{bucket}")]
        answer: int = await within(
            self._identify(names, [self._owner, shard, self._count, self._gap_ms])
        )
        return answer / 1000

    def _session(self, head: bytes, places: bytes) -> Session | None:
        if not head or not places:
            return None
        try:
            session = msgspec.structs.replace(_decode(head), places=_decode_places(places))
        except UNREADABLE:
            return None  # of another version
        return session if self._now_ms() - session.at_ms < SESSION_TTL_MS else None

"""The queue as a whole: what waits and why, a turn's place in it, and whether its books are right.

Comes in: a queue. Goes out: values. The CLI, the console, probes and the gateway import it. Only a
repair writes.
"""

from collections.abc import AsyncIterator, Iterable
from enum import StrEnum
from typing import Any, Final

import msgspec

from shared.edges.queue import TurnQueue
from shared.edges.redis import within
from shared.edges.scripting import Script
from shared.turns import TurnState

LOOKED_AT: Final = 1_000
"""Waiting turns whose age is looked at: the oldest ones, about 2 ms of the server."""
SCAN_KEYS: Final = 500
"""Keys of one step of a look at all of them: a fifth of a millisecond."""
LOW: Final = "~"
"""The end of the names of what concerns replays; see `scripts/lanes.lua`."""


class GuildLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The turns of a guild; `depth` counts all, `oldest_ms` is the age of what waits longest."""

    guild: str
    depth: int
    running: int
    parked: int
    delayed: int
    oldest_ms: int

    @property
    def queued(self) -> int:
        """Turns that wait, wherever they do."""
        return self.depth - self.running


class FleetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What waits and runs.

    `keys` are running turns by provider key, `parkings` waiting lanes by what they wait for: a
    key's name where its slots are taken, `=` and the name of a pause. `pauses` are names with the
    milliseconds that are left, None until somebody ends it.
    """

    waiting: int
    oldest_ms: int
    guilds: tuple[GuildLoad, ...]
    keys: dict[str, int]
    parkings: dict[str, int]
    pauses: dict[str, int | None]


class Why(StrEnum):
    """What a turn waits for."""

    NOTHING = ""
    LANE = "lane"
    """An earlier turn of its channel."""
    GUILD = "guild"
    """Its guild runs as many turns as it may."""
    FLEET = "fleet"
    """A worker."""
    KEY = "key"
    """The provider: its slots are taken, or its keys rest."""
    PAUSED = "paused"
    """An operator."""
    LATER = "later"
    """Its own time."""
    CRASH = "crash"
    """The brake for turns that took workers with them."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a turn stands. `state` is None for one that nobody knows."""

    state: TurnState | None
    ahead: int
    why: Why


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something in the books that the turns do not bear out."""

    what: str
    whom: str
    found: str
    expected: str


class _Loads(msgspec.Struct):
    depth: int
    running: int
    parked: int
    delayed: int
    oldest: int


class _Status(msgspec.Struct):
    now: int
    waiting: int
    oldest: int
    guilds: dict[str, _Loads]
    keys: dict[str, int]
    parkings: dict[str, int]
    pauses: dict[str, float]


_status = msgspec.json.Decoder(_Status)


class Overview:
    """Looks at a queue. All methods raise `StoreUnavailable` when nobody answers."""

    def __init__(self, queue: TurnQueue) -> None:
        self._redis = queue.redis
        self._keys = queue.keys
        self._queue = queue
        self._ask_status = Script(queue.redis, "status")
        self._ask_place = Script(queue.redis, "place")
        self._audit = Script(queue.redis, "audit")

    async def status(self) -> FleetStatus:
        """What waits and runs, by guild; the busiest guilds first."""
        answer = await self._run(self._ask_status, [self._keys.depth], [LOOKED_AT])
        found = _status.decode(answer)
        guilds = [
            GuildLoad(
                guild=guild,
                depth=one.depth,
                running=one.running,
                parked=one.parked,
                delayed=one.delayed,
                oldest_ms=one.oldest,
            )
            for guild, one in found.guilds.items()
        ]
        return FleetStatus(
            waiting=found.waiting,
            oldest_ms=found.oldest,
            guilds=tuple(sorted(guilds, key=lambda one: (-one.depth, one.guild))),
            keys=found.keys,
            parkings=found.parkings,
            pauses={
                name: None if until_ms < 0 else max(0, int(until_ms) - found.now)
                for name, until_ms in found.pauses.items()
            },
        )

    async def place(self, turn_id: str) -> Place:
        """Where a turn stands in the queue."""
        answer = await self._run(self._ask_place, [self._keys.turn(turn_id)], [turn_id])
        state, ahead, why = answer
        return Place(
            state=TurnState(state.decode()) if state else None,
            ahead=int(ahead),
            why=Why(why.decode()),
        )

    async def audit(self, *, repair: bool = False) -> list[Finding]:
        """Compares counters and lists with the turns; with `repair`, puts them right.

        The look at all keys goes on beside the fleet's work. The comparison is one step, which
        takes the server some tens of milliseconds per thousand turns.
        """
        return await self._audited([name async for name in self._names()], repair=repair)

    async def _audited(self, names: list[str], *, repair: bool) -> list[Finding]:
        args: list[str | bytes | int] = [int(repair), *names]
        rows = [word.decode() for word in await self._run(self._audit, [self._keys.depth], args)]
        return [
            Finding(what=rows[i], whom=rows[i + 1], found=rows[i + 2], expected=rows[i + 3])
            for i in range(0, len(rows), 4)
        ]

    async def waiting(self) -> int:
        """How many turns wait, wherever they do."""
        count: int = await within(self._redis.zcard(self._keys.waiting))
        return count

    async def mend(self) -> list[Finding]:
        """Repairs what concerns the turns that wait and run, without a look at all keys."""
        keys, low = self._keys, b"1"
        waiting: list[bytes] = await within(self._redis.zrange(keys.waiting, 0, -1))
        running: list[bytes] = await within(self._redis.hvals(keys.running_lanes))
        async with self._redis.pipeline(transaction=False) as pipe:
            for turn_id in waiting:
                pipe.hmget(keys.turn(turn_id.decode()), ["guild", "lane", "low"])
            places: list[list[bytes | None]] = await within(pipe.execute())
        names = {f"T{turn_id.decode()}" for turn_id in (*waiting, *running)}
        for guild, lane, is_low in places:
            if guild is not None and lane is not None:
                suffix = LOW if is_low == low else ""
                names |= {f"G{guild.decode()}{suffix}", f"L{lane.decode()}{suffix}"}
        return await self._audited(sorted(names), repair=True)

    async def _names(self) -> AsyncIterator[str]:
        """Queues, guilds' lists and living turns, as `audit.lua` wants them."""
        for kind, part in (("L", "lane:"), ("G", "guild:")):
            async for name in self._keys_with(part):
                yield kind + name
        batch: list[str] = []
        async for turn_id in self._keys_with("t:"):
            batch.append(turn_id)
            if len(batch) == SCAN_KEYS:
                for living in await self._living(batch):
                    yield "T" + living
                batch = []
        for living in await self._living(batch):
            yield "T" + living

    async def _keys_with(self, part: str) -> AsyncIterator[str]:
        prefix = self._keys.prefix + part
        cursor, pattern = 0, prefix.replace("[", "\\[") + "*"
        seen: set[str] = set()
        while True:
            answer: Any = await within(self._redis.scan(cursor, match=pattern, count=SCAN_KEYS))
            cursor, names = answer
            for name in names:
                rest = name.decode().removeprefix(prefix)
                if rest not in seen:  # a scan may give a key twice
                    seen.add(rest)
                    yield rest
            if not cursor:
                return

    async def _living(self, turn_ids: Iterable[str]) -> list[str]:
        ids = list(turn_ids)
        if not ids:
            return []
        async with self._redis.pipeline(transaction=False) as pipe:
            for turn_id in ids:
                pipe.hget(self._keys.turn(turn_id), "state")
            states: list[bytes | None] = await within(pipe.execute())
        living = {TurnState.QUEUED.value.encode(), TurnState.RUNNING.value.encode()}
        return [tid for tid, state in zip(ids, states, strict=True) if state in living]

    async def _run(self, script: Script, keys: list[str], args: list[str | bytes | int]) -> Any:
        return await self._queue.run(script, keys, args)

"""Forgetting a person or a guild: everything of theirs that Redis holds, found by looking at all.

Comes in: a subject. Goes out: how much went, by place. Gateways and operators call it; the rows of
the database are the recorder's, which finds the subject on a list.

Nothing here knows what a key of tomorrow will hold: every value of the cell is looked at, and what
has the subject's id goes. Named are only the keys that must not be touched, because they hold the
queue together and empty themselves when its turns have ended. Those are stopped first.
"""

import asyncio
import contextlib
import hashlib
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from enum import StrEnum
from typing import Any, Final, Self

import msgspec
from redis.asyncio import Redis

from shared.at_rest import opened
from shared.edges.queue import TurnQueue
from shared.edges.redis import within
from shared.errors import ConfigError, WireError
from shared.keys import Keys
from shared.lifetimes import FORGOTTEN_TTL_MS
from shared.wire import decode_route

REMOVAL_DELAY_MS: Final = 30 * 24 * 3_600_000
"""A guild that removed the bot may take it back: its data wait for a month."""
ENOUGH_DIGITS: Final = 15
"""A number of so many digits is an id of Discord's wherever it stands; a shorter one is a local
guild's or person's, and is looked for only where a name says so."""
OPERATORS: Final = frozenset({"audit", "loan"})
"""What only an operator changes: the trail of credentials, and whose key a guild may use."""
LIMITS: Final = frozenset({"spend", "person"})
"""What bounds a person: whoever could erase it by a command could ask and spend anew."""
OWNED: Final = frozenset({"choices"})
"""Hashes whose fields are their owners', by name. A guild that names somebody, such as on the list
of whom it denies, does not lose what it chose when that person is forgotten."""
CHANNELS: Final = frozenset({"h", "memo"})
"""What is kept of a channel. It is somebody's as a whole, and goes as a whole with its owner, also
what an older version kept there without one."""
STOP_S: Final = 10.0
"""What running turns get to end after their stop."""
LOOK_S: Final = 0.1
COUNT: Final = 500
"""Keys of one look: a fraction of a millisecond of the server."""
KEEPS: Final = frozenset(
    {"arq", "lane", "guild", "parked", "lease", "ring", "ring.low", "vtime", "waiting", "delay",
     "pause", "depth", "totals", "run.guild", "run.key", "run.lane", "wake", "claim", "ctl", "m",
     "j", "out", "errors", "buried", "lead", "led", "memory", "processes", "hb", "config",
     "config.wish", "mirrored", "spent", "budget", "load", "traffic", "pool", "front", "forget",
     "forgotten", "alerts"}
)  # fmt: skip
"""First words of keys that are left alone: the queue's own, and those of streams that empty
themselves. The recorder takes the subject out of reports that are still on their way."""


class Kind(StrEnum):
    """Who is forgotten."""

    USER = "user"
    GUILD = "guild"


_NAMES: Final = {Kind.USER: ("user", "person", "personal", "supporter", "author", "owner"),
                 Kind.GUILD: ("guild", "server")}  # fmt: skip


def digest_of(noted: str) -> str:
    """Stands for a subject, as it is noted, where its id must not stand."""
    return hashlib.blake2b(noted.encode(), digest_size=16).hexdigest()


class Subject(msgspec.Struct, frozen=True):
    """A person or a guild."""

    kind: Kind
    id: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}"

    @classmethod
    def parsed(cls, text: str) -> Self:
        """Reads `user:123`. Raises `ConfigError`."""
        kind, _, number = text.partition(":")
        if kind not in set(Kind) or not number.isdigit():
            raise ConfigError(f"{text!r} names nobody: write user:ID or guild:ID")
        return cls(Kind(kind), int(number))

    @property
    def digest(self) -> str:
        """Stands for the subject where its id must not stand."""
        return digest_of(str(self))

    def pattern(self) -> re.Pattern[bytes]:
        """Finds the subject in a value."""
        number = str(self.id)
        if len(number) >= ENOUGH_DIGITS:
            return re.compile(rf"(?<!\d){number}(?!\d)".encode())
        names = "|".join(_NAMES[self.kind])
        return re.compile(rf"(?:{names})(?:_id)?[\"']?[:|] ?[\"']?{number}(?!\d)".encode())


class Forgetter:
    """Forgets in Redis.

    Args:
        redis: a client of `shared.edges.redis.connect`.
        keys: the key names of the cell.
        queue: stops what still waits or runs.
        leaves: first words of keys that this process must not change; an operator's may.
    """

    def __init__(
        self,
        redis: Redis,
        keys: Keys,
        queue: TurnQueue,
        *,
        leaves: frozenset[str] = frozenset(),
    ) -> None:
        self._redis: Any = redis  # redis-py types answers as awaitable or not
        self._keys = keys
        self._queue = queue
        self._leaves = KEEPS | leaves

    async def forget(self, subject: Subject) -> dict[str, int]:
        """Removes what Redis holds of a subject. Again, it finds nothing. Raises `StoreError`.

        A cancelled call has done a part; the next one does the rest.

        Returns:
            How much went: `turns`, `keys` (whole ones), `values` (parts of others).
        """
        now_ms = time.time_ns() // 1_000_000
        # First, so that reports that are on their way lose the subject, too.
        await within(self._redis.hset(self._keys.forgotten, subject.digest, now_ms))
        await within(self._redis.pexpire(self._keys.forgotten, FORGOTTEN_TTL_MS))
        await within(self._redis.zadd(self._keys.forget_rows, {str(subject): now_ms}))
        names = [name async for name in self._names()]
        turns, others = await self._turns_of(subject, names)
        await self._stop(turns)
        count = Counter(turns=len(turns))
        words = {*turns, *others}
        for name in [name async for name in self._names()]:
            if words & set(_words(name)) or subject.pattern().search(name):
                count["keys"] += await within(self._redis.unlink(name))
            elif not _is_turn(name):
                count["values"] += await self._clean(name, subject)
        for index, members in ((self._keys.failed, turns), (self._keys.front("dm"), others)):
            if members:
                await within(self._redis.zrem(index, *members))
        return dict(count)

    async def schedule(self, subject: Subject, due_ms: int) -> None:
        """Notes that a subject is forgotten at a time, such as a guild that removed the bot."""
        await within(self._redis.zadd(self._keys.forget_due, {str(subject): due_ms}))

    async def keep(self, subject: Subject) -> None:
        """Takes a note back: the guild is here again."""
        await within(self._redis.zrem(self._keys.forget_due, str(subject)))

    async def due(self, now_ms: int) -> list[str]:
        """Who is to be forgotten by now, as they were noted; see `Subject.parsed`."""
        found: list[bytes] = await within(
            self._redis.zrangebyscore(self._keys.forget_due, "-inf", now_ms)
        )
        return [text.decode(errors="replace") for text in found]

    async def _names(self) -> AsyncIterator[bytes]:
        for root in (self._keys.prefix, f"tfsec:{{{self._keys.cell}}}:"):
            cursor = 0
            while True:
                cursor, names = await within(
                    self._redis.scan(cursor, match=f"{root}*", count=COUNT)
                )
                for name in names:
                    if _first_word(name) not in self._leaves:
                        yield name
                if cursor == 0:
                    break

    async def _turns_of(self, subject: Subject, names: list[bytes]) -> tuple[list[str], set[str]]:
        """The subject's turns; and what else of theirs is named by: channels and reports."""
        turns, others = [], set()
        for name in names:
            if not _is_turn(name):
                continue
            raw, event = await within(self._redis.hmget(name, "route", "event"))
            if raw is None:
                continue  # its time ended since it was listed
            turn_id = name.decode().partition(":t:")[2]
            try:
                route = decode_route(raw)
            except WireError:  # of another version: as with any value, the id in it tells
                if subject.pattern().search(raw):
                    turns.append(turn_id)
                continue
            owner = route.guild_id if subject.kind is Kind.GUILD else route.user_id
            if owner == subject.id:
                turns.append(turn_id)
                # A channel is the guild's; a person has only that of their direct messages.
                if subject.kind is Kind.GUILD or route.guild_id is None:
                    others.add(str(route.channel_id))
                others |= {one.decode() for one in _REPORT.findall(event or b"")}
        return turns, others

    async def _stop(self, turns: Iterable[str]) -> None:
        """Stops turns that wait or run, and lets their workers end them."""
        open_turns = {tid for tid in turns if await self._queue.cancel(tid) not in _OVER}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                while open_turns:
                    states = [
                        (tid, await within(self._redis.hget(self._keys.turn(tid), "state")))
                        for tid in open_turns
                    ]
                    open_turns = {tid for tid, state in states if state in (b"queued", b"running")}
                    if open_turns:
                        await asyncio.sleep(LOOK_S)

    async def _clean(self, name: bytes, subject: Subject) -> int:
        """Removes the parts of a value that have the subject; all of a string."""
        redis, wanted = self._redis, subject.pattern()
        kind = (await within(redis.type(name))).decode()
        if kind == "string":
            text = _unsealed(await within(redis.get(name)) or b"")
            return int(await within(redis.unlink(name))) if wanted.search(text) else 0
        if kind == "hash":
            fields: dict[bytes, bytes] = await within(redis.hgetall(name))
            is_of, is_owned = _chooser(name, subject, fields.values()), _first_word(name) in OWNED
            gone = [
                one
                for one, text in fields.items()
                if wanted.search(one) or (is_of(text) and not is_owned)
            ]
            return int(await within(redis.hdel(name, *gone))) if gone else 0
        if kind == "zset":
            members: list[bytes] = await within(redis.zrange(name, 0, -1))
            gone = [one for one in members if wanted.search(one)]
            return int(await within(redis.zrem(name, *gone))) if gone else 0
        if kind == "list":
            rows: list[bytes] = await within(redis.lrange(name, 0, -1))
            items = set(filter(_chooser(name, subject, rows), rows))
            return sum([int(await within(redis.lrem(name, 0, item))) for item in items])
        if kind == "stream":
            entries: list[tuple[bytes, dict[bytes, bytes]]] = await within(redis.xrange(name))
            gone = [one for one, row in entries if any(map(wanted.search, row.values()))]
            return int(await within(redis.xdel(name, *gone))) if gone else 0
        return 0


def _chooser(name: bytes, subject: Subject, texts: Iterable[bytes]) -> Callable[[bytes], object]:
    """What of a value is the subject's: of a channel that is theirs everything."""
    # In JSON a quote within a text is escaped: nobody owns a channel by what they write.
    owned = f'"owner":"{subject}"'.encode()
    if _first_word(name) in CHANNELS and any(owned in text for text in texts):
        return lambda _text: True
    return subject.pattern().search


_REPORT: Final = re.compile(rb'"report_id":"([\w-]+)"')
_OVER: Final = ("cancelled", "finished", "unknown")
"""Answers to a stop after which nobody has to be waited for."""


def _unsealed(text: bytes) -> bytes:
    """A value, also one that is sealed at rest; as it is where this process has no key for it."""
    try:
        return opened(text)
    except WireError:
        return text


def _words(name: bytes) -> list[str]:
    """A key's parts. A replay's turn id (`m1.2`) is a part of its own."""
    return name.decode().partition("}:")[2].split(":")


def _first_word(name: bytes) -> str:
    return _words(name)[0]


def _is_turn(name: bytes) -> bool:
    return _first_word(name) == "t"

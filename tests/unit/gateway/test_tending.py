"""Shards that end for a reason nobody thought of are begun again; what cannot go on is said."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, cast

import pytest

from gateway.edges.discord_shard import Resumable, Shard, State
from gateway.edges.discord_tending import Tending
from gateway.edges.shard_leases import Beat, Given, Holding, Session
from shared.errors import ConfigError, StoreError

GIVEN = Beat(taken=(Given(shard=0), Given(shard=1)))


class Leases:
    """The port `ShardLeases`: beats as they are written down, then quiet ones."""

    def __init__(self, *beats: Beat | Exception) -> None:
        self.beats = list(beats)
        self.left: dict[int, Session | None] = {}

    async def agree(self, advised: int) -> int:
        return advised

    async def beat(self, held: Mapping[int, Holding]) -> Beat:
        del held
        beat = self.beats.pop(0) if self.beats else Beat()
        if isinstance(beat, Exception):
            raise beat
        return beat

    async def leave(self, sessions: Mapping[int, Session | None], *, for_good: bool) -> None:
        del for_good
        self.left |= sessions

    async def may_identify(self, shard: int, bucket: int) -> float:
        del shard, bucket
        return 0.0


class OddShard:
    """A shard that ends with an error, or cannot be closed without one."""

    def __init__(self, number: int, *, ends: Exception | None, leaves: Exception | None) -> None:
        self.id = number
        self.state, self.has_stood, self.is_connected = State.STARTING, False, ends is None
        self._ends, self._leaves = ends, leaves

    def begin(self) -> None:
        """Nothing is connected here."""

    async def join(self) -> None:
        if self._ends is not None:
            raise self._ends
        await asyncio.Event().wait()

    @property
    def resumable(self) -> Resumable:
        return Resumable(session_id="s", seq=3, url="u")

    async def leave(self) -> Resumable:
        if self._leaves is not None:
            raise self._leaves
        return self.resumable


class Watcher:
    async def begin_shard(self, shard: int, count: int, session: Session | None) -> None:
        """Nobody listens."""

    def end_shard(self, shard: int, left: Session | None) -> Session | None:
        del shard
        return left

    def session(self, shard: int, left: Session) -> Session:
        del shard
        return left

    def kept(self, shards: Iterable[int]) -> None:
        """Nothing is noted here."""


def tending(leases: Leases, **odd: Any) -> Tending:
    """Two shards; the first one that is made for 0 is odd."""
    made: list[int] = []

    def make(number: int, session: Session | None) -> Shard:
        del session
        is_odd = number == 0 and 0 not in made
        made.append(number)
        facts = {"ends": None, "leaves": None} | (odd if is_odd else {})
        return cast("Shard", OddShard(number, **facts))

    async def sleep(seconds: float) -> None:
        del seconds
        await asyncio.sleep(0)

    def why_fatal(error: Exception) -> None:
        del error

    return Tending(leases, count=2, make=make, watcher=Watcher(), why_fatal=why_fatal, sleep=sleep)


async def until_connected(tended: Tending, count: int) -> None:
    async with asyncio.timeout(5):
        while list(tended.states.values()).count(State.CONNECTED) < count:
            await asyncio.sleep(0.01)


async def test_a_shard_that_ends_for_no_known_reason_is_begun_again(caplog):
    tended = tending(Leases(GIVEN), ends=ValueError("a frame of nonsense"))
    await tended.begin()
    await until_connected(tended, 2)
    await tended.leave()
    (told,) = [one for one in caplog.records if one.message == "discord.connection_ended"]
    assert (told.error, told.exc_info is None) == ("ValueError", False)


async def test_a_socket_that_dies_in_its_goodbye_costs_only_its_own_session():
    leases = Leases(GIVEN)
    tended = tending(leases, leaves=ConnectionResetError("gone"))
    await tended.begin()
    await until_connected(tended, 2)
    await tended.leave()
    assert {number: one is not None for number, one in leases.left.items()} == {0: False, 1: True}


async def test_a_refused_user_of_redis_is_said_at_the_start():
    async with asyncio.timeout(5):
        with pytest.raises(ConfigError, match="NOPERM"):
            await tending(Leases(ConfigError("NOPERM"))).begin()


@pytest.mark.parametrize("error", [StoreError("refused"), ValueError("a bug")], ids=repr)
async def test_a_beat_that_fails_is_not_the_last_one(error: Exception):
    tended = tending(Leases(error, GIVEN))
    async with asyncio.timeout(10):
        await tended.begin()
    await until_connected(tended, 2)
    await tended.leave()

"""The leases of shards on a real server: who has which, who takes what is free, who identifies."""

import asyncio
from collections.abc import Iterator

import msgspec
import pytest
from redis.asyncio import Redis

from gateway.edges.shard_leases import (
    Beat,
    Given,
    Holding,
    KnownPlaces,
    RedisShards,
    Session,
)
from shared.edges.shards import shard_rows
from shared.errors import ConfigError
from shared.keys import Keys
from shared.lifetimes import SESSION_TTL_MS
from shared.setting_rules import wanted_shards
from tests.support.servers import RedisServer, flavors, running_server

KEYS = Keys()
LEASE_MS = 300
NOW_MS = 1_800_000_000_000


@pytest.fixture(scope="module", params=flavors())
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    with running_server(request.param) as running:
        yield running


class Gateway:
    """One gateway's leases, and what it holds by their answers."""

    def __init__(self, redis: Redis, name: str, wanted: str = "4", *, gap_ms: int = 400) -> None:
        self.leases = RedisShards(
            redis,
            KEYS,
            name,
            wanted=wanted,
            lease_ms=LEASE_MS,
            gap_ms=gap_ms,
            now_ms=lambda: NOW_MS,
        )
        self.held: set[int] = set()
        self.given: list[Given] = []
        self.saves = False

    async def start(self, advised: int = 1) -> int:
        return await self.leases.agree(advised)

    async def beat(self) -> Beat:
        held = {
            shard: Holding(state="connected", session=session(shard) if self.saves else None)
            for shard in self.held
        }
        beat = await self.leases.beat(held)
        self.held |= {given.shard for given in beat.taken}
        self.given += beat.taken
        self.held -= {*beat.lost}
        if beat.excess:
            await self.leave(beat.excess)
        return beat

    async def leave(self, shards: tuple[int, ...], *, for_good: bool = False) -> None:
        sessions = {shard: session(shard) for shard in shards}
        await self.leases.leave(sessions, for_good=for_good)
        self.held -= {*shards}


def session(shard: int, at_ms: int = NOW_MS) -> Session:
    places = KnownPlaces(parents={1: 2}, restricted=(3,))
    return Session(session_id=f"s{shard}", seq=7, url="ws://x", at_ms=at_ms, places=places)


async def gateways(redis: Redis, names: str, wanted: str = "4") -> list[Gateway]:
    found = [Gateway(redis, name, wanted) for name in names]
    for one in found:
        await one.start()
    return found


async def passes(seconds: float, *living: Gateway) -> None:
    """Time, in which these gateways go on."""
    for _ in range(6):
        for one in living:
            await one.beat()
        await asyncio.sleep(seconds / 6)


async def settled(*living: Gateway) -> None:
    for _ in range(3):
        for one in living:
            await one.beat()


@pytest.mark.parametrize(
    ("count", "names", "shares"),
    [
        ("1", "a", [1]),
        ("4", "a", [4]),
        ("1", "ab", [1, 0]),
        ("4", "ab", [2, 2]),
        ("5", "ab", [3, 2]),
        ("7", "abc", [3, 2, 2]),
        ("2", "abc", [1, 1, 0]),
    ],
)
async def test_each_gateway_has_its_share_and_each_shard_one_gateway(redis, count, names, shares):
    living = await gateways(redis, names, count)
    await settled(*living)
    assert [len(one.held) for one in living] == shares
    assert sorted(shard for one in living for shard in one.held) == list(range(int(count)))


async def test_a_newcomer_takes_what_is_too_many_with_its_sessions(redis):
    first, second = await gateways(redis, "ab")
    await first.beat()
    assert (await second.beat()).taken == (), "nothing is free yet"
    assert (await first.beat()).excess == (3, 2)
    taken = (await second.beat()).taken
    assert [(one.shard, one.session) for one in taken] == [(2, session(2)), (3, session(3))]
    await settled(first, second)
    assert (first.held, second.held) == ({0, 1}, {2, 3}), "and nothing moves from there on"


async def test_who_ends_is_replaced_at_once_and_who_is_killed_after_its_lease(redis):
    first, second = await gateways(redis, "ab")
    await settled(first, second)
    await first.leave(tuple(first.held), for_good=True)
    assert {one.shard for one in (await second.beat()).taken} == {0, 1}
    third = Gateway(redis, "c")
    await third.start()
    await passes(LEASE_MS / 2000, third)
    assert third.held == set()
    await passes(LEASE_MS / 1000, third)  # the second is heard of no more
    assert third.held == {0, 1, 2, 3}


async def test_the_sessions_of_a_killed_gateway_are_resumed(redis):
    first, second = await gateways(redis, "ab", "2")
    first.saves = True
    await settled(first, second)
    moved = msgspec.structs.replace(session(0), seq=9, places=None)
    await first.leases.beat({0: Holding(state="connected", session=moved)})
    await passes(LEASE_MS / 500, second)
    (given,) = [one for one in second.given if one.shard == 0]
    assert given.session == msgspec.structs.replace(session(0), seq=9), "with its places of before"


async def test_a_gateway_that_was_stopped_loses_only_what_another_has_taken(redis):
    first, second = await gateways(redis, "ab")
    await settled(first, second)
    await asyncio.sleep(LEASE_MS / 1000 + 0.05)
    assert (await first.beat()).lost == (), "nobody was there to take it"
    await passes(LEASE_MS / 500, second)
    assert second.held == {0, 1, 2, 3}
    woken = await first.beat()
    assert (woken.lost, first.held) == ((0, 1), set())
    await settled(second, first)
    assert len(first.held) == len(second.held) == 2


async def test_an_answer_that_was_lost_is_given_again(redis):
    (first,) = await gateways(redis, "a")
    lost = await first.leases.beat({})
    assert await first.leases.beat({}) == lost
    assert len(lost.taken) == 4


async def test_after_an_outage_everybody_keeps_what_was_theirs(redis):
    first, second, stood_by = await gateways(redis, "abc", "2")
    await settled(first, second, stood_by)
    await asyncio.sleep(LEASE_MS / 1000 + 0.05)  # nobody gets through
    late = Gateway(redis, "d", "2")
    await late.start()
    beats = [await one.beat() for one in (late, stood_by, first, second)]
    assert [(beat.taken, beat.lost) for beat in beats] == [((), ())] * 4
    await passes(LEASE_MS / 500, stood_by, second, late)
    assert (first.held, second.held, stood_by.held, late.held) == ({0}, {1}, {0}, set()), (
        "0 is dead"
    )


async def test_who_ends_in_order_leaves_no_outage_behind(redis):
    (first,) = await gateways(redis, "a", "1")
    await first.beat()
    await first.leave((0,), for_good=True)
    await asyncio.sleep(LEASE_MS / 1000 + 0.05)
    (second,) = await gateways(redis, "b", "1")
    assert len((await second.beat()).taken) == 1


async def test_a_server_that_forgot_everything_takes_nothing_from_anybody(redis):
    first, second = await gateways(redis, "ab")
    await settled(first, second)
    had = set(first.held), set(second.held)
    await redis.flushall()
    beats = [await one.beat() for one in (first, second)]
    assert [beat.lost for beat in beats] == [(), ()]
    await settled(first, second)
    assert (first.held, second.held) == had


async def test_a_session_of_long_ago_is_not_resumed(redis):
    (first,) = await gateways(redis, "a", "1")
    await first.beat()
    old = session(0, at_ms=NOW_MS - SESSION_TTL_MS)
    await first.leases.leave({0: old}, for_good=True)
    second = Gateway(redis, "b", "1")
    await second.start()
    assert [one.session for one in (await second.beat()).taken] == [None]


async def test_two_numbers_of_shards_stand_side_by_side(redis):
    (old,) = await gateways(redis, "a", "2")
    (new,) = await gateways(redis, "b", "4")
    await settled(old, new)
    assert (old.held, new.held) == ({0, 1}, {0, 1, 2, 3})
    rows = await shard_rows(redis, KEYS)
    assert [(row.count, row.shard, row.gateway) for row in rows] == [
        *((2, shard, "a") for shard in range(2)),
        *((4, shard, "b") for shard in range(4)),
    ]


async def test_sessions_of_a_number_that_nobody_has_any_more_go(redis):
    (old,) = await gateways(redis, "a", "2")
    (new,) = await gateways(redis, "b", "4")
    old.saves = new.saves = True
    await settled(old, new)
    await old.leave((0, 1))
    await settled(old, new)
    assert {b"0/2", b"0/2/places", b"0/4", b"0/4/places"} <= {
        *await redis.hkeys(KEYS.front("sessions"))
    }, "its gateways may come back to it"
    await old.leave((0, 1), for_good=True)
    await settled(new)
    left = await redis.hkeys(KEYS.front("sessions"))
    assert {name.split(b"/")[1] for name in left} == {b"4"}


async def test_sessions_begin_one_at_a_time_in_a_bucket_for_all_gateways(redis):
    first, second = await gateways(redis, "ab")
    await settled(first, second)
    assert await first.leases.may_identify(0, 0) == 0
    assert await first.leases.may_identify(1, 1) == 0, "another bucket"
    waits_s = await second.leases.may_identify(2, 0)
    assert 0 < waits_s <= 0.4
    await asyncio.sleep(waits_s)
    assert await second.leases.may_identify(2, 0) == 0
    assert await second.leases.may_identify(1, 2) < 0, "it is the other one's shard"


async def test_the_first_advice_holds_while_its_gateways_live(redis, caplog):
    first, second = Gateway(redis, "a", "auto"), Gateway(redis, "b", "auto")
    assert await first.start(advised=2) == 2
    assert await second.start(advised=3) == 2
    assert "discord.more_shards_advised" in caplog.messages
    third = Gateway(redis, "c", "5")
    assert await third.start(advised=3) == 5, "a number that is set is nobody else's business"
    await first.beat()
    assert await redis.pttl(KEYS.front("count")) > 0


@pytest.mark.parametrize("text", ["-1", "many", "1.5", "100000"])
def test_a_number_that_is_none_is_refused(text):
    with pytest.raises(ConfigError, match="TURNFLEET_DISCORD_SHARDS"):
        wanted_shards(text)


async def test_everything_about_shards_expires(redis):
    (first,) = await gateways(redis, "a", "auto")
    await first.beat()
    await first.leases.may_identify(0, 0)
    await first.leases.leave({0: session(0)}, for_good=False)
    for name in await redis.keys("*"):
        assert await redis.pttl(name) > 0, name

"""A queue that lost keys: its turns are started all the same, or somebody hears of it."""

from collections.abc import Awaitable, Callable

import pytest
from redis.asyncio import Redis

from shared.edges.overview import Finding, FleetStatus, Overview
from shared.edges.queue import TurnQueue
from shared.errors import StoreUnavailable
from shared.keys import Keys
from tests.support.in_process import Start, answer
from tests.support.turns import claim_one, turn
from worker.edges.fleet.checkup import living
from worker.edges.fleet.stalls import REPAIR_S, STUCK_S, Stalls, stalled


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stalls(queue: TurnQueue, clock: Clock) -> Stalls:
    return Stalls(Overview(queue), lambda: True, now_s=clock)


async def test_a_ring_that_was_lost_is_put_right(
    queue: TurnQueue, client: Redis, keys: Keys, stalls: Stalls, clock: Clock, caplog
):
    await queue.admit(turn("l1"))
    await client.delete(keys.ring)
    assert await queue.claim("w1", 8) == []
    await stalls.look()
    clock.now_s += REPAIR_S / 2
    await stalls.look()
    assert await queue.claim("w1", 8) == []  # it may have come this moment
    clock.now_s += REPAIR_S / 2
    await stalls.look()
    assert (await claim_one(queue)).token.turn_id == "l1"
    assert caplog.messages == ["queue.repaired"]
    await stalls.look()
    assert stalls.problem is None


class Helpless(Overview):
    """A queue that stays as it is."""

    tried = 0

    async def mend(self) -> list[Finding]:
        self.tried += 1
        return []


async def test_a_probe_fails_where_nothing_helps(
    queue: TurnQueue, client: Redis, keys: Keys, clock: Clock, caplog, start: Start
):
    overview = Helpless(queue)
    stalls = Stalls(overview, lambda: True, now_s=clock)
    await queue.admit(turn("l1"))
    await client.delete(keys.ring)
    for _ in range(4):
        assert stalls.problem is None
        await stalls.look()
        clock.now_s += STUCK_S / 4
    await stalls.look()
    assert stalls.problem == "turns of 1 guilds wait for 30 s, and slots are free"
    assert (overview.tried, caplog.messages) == (1, ["queue.stalled"])
    async with start(answer) as fleet:
        assert list(await living(fleet.worker, client, stalls)) == ["stall"]


class Away(Overview):
    """A queue whose server may be away."""

    is_away = False

    async def waiting(self) -> int:
        if self.is_away:
            raise StoreUnavailable("away")
        return await super().waiting()


async def test_an_outage_of_the_server_is_no_stall(
    queue: TurnQueue, client: Redis, keys: Keys, clock: Clock
):
    overview = Away(queue)
    stalls = Stalls(overview, lambda: True, now_s=clock)
    await queue.admit(turn("l1"))  # seen before it is claimed, or just so
    await client.delete(keys.ring)
    await stalls.look()
    overview.is_away = True
    for _ in range(4):
        clock.now_s += STUCK_S / 2
        with pytest.raises(StoreUnavailable):
            await stalls.look()
        assert stalls.problem is None
    overview.is_away = False
    await stalls.look()
    assert stalls.problem is None


Deed = Callable[[TurnQueue], Awaitable[None]]


async def waits_for_a_slot(queue: TurnQueue) -> None:
    await queue.admit(turn("l1", channel=1))
    await queue.claim("w1", 1)
    await queue.admit(turn("l2", channel=1))


async def waits_for_an_operator(queue: TurnQueue) -> None:
    await queue.pause("fleet")
    await queue.admit(turn("l1"))


async def waits_for_a_pause_of_its_guild(queue: TurnQueue) -> None:
    await queue.pause("guild:7")
    await queue.admit(turn("l1"))


async def waits_for_its_key(queue: TurnQueue) -> None:
    await queue.pause("rest:rehearsal:server", 60)
    await queue.admit(turn("l1"))
    assert await queue.claim("w1", 1) == []


async def waits_for_its_time(queue: TurnQueue) -> None:
    await queue.admit(turn("l1", wait_ms=60_000))


@pytest.mark.parametrize(
    "deed",
    [
        waits_for_a_slot,
        waits_for_an_operator,
        waits_for_a_pause_of_its_guild,
        waits_for_its_key,
        waits_for_its_time,
    ],
)
async def test_who_waits_for_something_is_not_stalled(queue: TurnQueue, deed: Deed):
    await deed(queue)
    assert stalled(await Overview(queue).status()) == []


async def test_a_full_worker_says_nothing_of_the_queue(queue: TurnQueue, clock: Clock):
    stalls = Stalls(Overview(queue), lambda: False, now_s=clock)
    await queue.admit(turn("l1"))
    await stalls.look()
    clock.now_s += 2 * STUCK_S
    await stalls.look()
    assert stalls.problem is None


def test_an_empty_queue_is_not_stalled():
    status = FleetStatus(waiting=0, oldest_ms=0, guilds=(), keys={}, parkings={}, pauses={})
    assert stalled(status) == []

import asyncio

import pytest

from shared.edges.queue import Claimed
from shared.turns import AttemptToken
from worker.edges.fleet.lease import Holdings, Lease


def lease(turn_id: str = "l1") -> Lease:
    token = AttemptToken(turn_id=turn_id, attempt=1, claim="0badcafe")
    return Lease(
        Claimed(
            token=token,
            request=b"{}",
            seq=0,
            crashes=0,
            superseding=False,
            enqueued_ms=1,
            claimed_ms=2,
        )
    )


@pytest.mark.parametrize("way", ["lose", "give_back"])
async def test_a_lease_that_ended_before_its_job_cancels_it(way: str):
    held = lease()
    getattr(held, way)()
    with pytest.raises(asyncio.CancelledError):
        held.begin()


@pytest.mark.parametrize("way", ["lose", "give_back"])
async def test_the_end_of_a_lease_cancels_the_running_job(way: str):
    held = lease()
    begun = asyncio.Event()

    async def job() -> None:
        held.begin()
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(job())
    await begun.wait()
    getattr(held, way)()
    await asyncio.wait({task})
    assert task.cancelled()


async def test_a_job_that_is_over_is_not_cancelled():
    held = lease()
    held.begin()
    held.end()
    held.lose()
    await asyncio.sleep(0)
    assert held.lost.is_set()


async def test_holdings_know_when_they_are_idle():
    holdings, held = Holdings(), lease()
    await holdings.wait_idle()
    holdings.add(held)
    waiting = asyncio.create_task(holdings.wait_idle())
    await asyncio.sleep(0)
    assert not waiting.done()
    assert len(holdings) == 1
    holdings.remove(held)
    await waiting


async def test_a_stop_can_overtake_the_answer_of_its_claim():
    holdings, one, again = Holdings(), lease("l1"), lease("l1")
    holdings.stop("l1")
    holdings.add(one)
    assert one.stopped.is_set()
    holdings.add(again)
    assert not again.stopped.is_set()


async def test_early_stops_are_bounded():
    holdings = Holdings()
    for number in range(1000):
        holdings.stop(f"l{number}")
    late = lease("l999")
    holdings.add(late)
    assert not late.stopped.is_set()


async def test_a_stop_reaches_the_leases_of_its_turn_only():
    holdings, one, other = Holdings(), lease("l1"), lease("l2")
    holdings.add(one)
    holdings.add(other)
    holdings.stop("l1")
    assert one.stopped.is_set()
    assert not other.stopped.is_set()

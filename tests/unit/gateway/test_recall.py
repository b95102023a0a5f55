"""Turns of a moment ago are given once more to a server that may have forgotten them."""

import asyncio

import pytest

from gateway.recall import KEPT_MAX, Recall
from shared.errors import StoreUnavailable
from shared.turns import TurnRequest
from tests.support.turns import turn


class ForgetfulQueue:
    """The port `Queue`: takes a turn once, until it comes back as another server."""

    def __init__(self) -> None:
        self.name = "one"
        self.taken: list[str] = []
        self.is_away = False
        self.asked = 0

    def forget(self, *turn_ids: str) -> None:
        self.name += "'"
        self.taken = [turn_id for turn_id in self.taken if turn_id not in turn_ids]

    async def admit(self, request: TurnRequest) -> str:
        if request.turn_id in self.taken:
            return "duplicate"
        self.taken.append(request.turn_id)
        return "accepted"

    async def is_blocked(self, channel_id: int) -> bool:
        return channel_id == 13

    async def decline(self, turn_id: str) -> None:
        self.taken.append(turn_id)

    async def is_known(self, turn_id: str) -> bool:
        return turn_id in self.taken

    async def server_id(self) -> str:
        self.asked += 1
        if self.is_away:
            raise StoreUnavailable
        return self.name


@pytest.fixture
def queue() -> ForgetfulQueue:
    return ForgetfulQueue()


async def test_what_a_server_forgot_is_admitted_again_in_order(queue, caplog):
    recall = Recall(queue)
    await recall.look()
    for name in ("l1", "l2", "l3"):
        assert await recall.admit(turn(name)) == "accepted"
    queue.forget("l2", "l3")
    await recall.look()
    assert queue.taken == ["l1", "l2", "l3"]
    assert caplog.messages == ["recall.admitted_again"] * 2


async def test_the_same_server_is_asked_nothing_again(queue):
    recall = Recall(queue)
    await recall.look()
    await recall.admit(turn("l1"))
    queue.taken.clear()
    await recall.look()
    assert queue.taken == []


async def test_what_was_taken_long_ago_is_not_kept(queue):
    recall = Recall(queue, kept_s=-1.0)
    await recall.look()
    await recall.admit(turn("l1"))
    await recall.look()
    queue.forget("l1")
    await recall.look()
    assert queue.taken == []


async def test_a_server_may_be_away_for_longer_than_anything_is_kept(queue):
    recall = Recall(queue, kept_s=-1.0)
    await recall.look()
    await recall.admit(turn("l1"))
    queue.is_away = True
    with pytest.raises(StoreUnavailable):
        await recall.look()
    queue.is_away = False
    queue.forget("l1")
    await recall.look()
    assert queue.taken == ["l1"]


async def test_what_was_given_again_is_kept_as_long_as_what_is_new(queue):
    recall = Recall(queue, kept_s=0.05)
    await recall.look()
    await recall.admit(turn("l1"))
    await asyncio.sleep(0.06)
    queue.forget("l1")
    await recall.look()
    await recall.look()  # the same server: what is old would go now
    queue.forget("l1")
    await recall.look()
    assert queue.taken == ["l1"]


async def test_so_many_are_kept_and_no_more(queue):
    recall = Recall(queue)
    await recall.look()
    for number in range(KEPT_MAX + 1):
        await recall.admit(turn(f"l{number}"))
    queue.forget(*queue.taken)
    await recall.look()
    assert len(queue.taken) == KEPT_MAX


async def test_a_server_that_is_away_is_asked_again(queue):
    recall = Recall(queue, look_s=0.001)
    await recall.admit(turn("l1"))
    async with asyncio.timeout(5):
        running = asyncio.create_task(recall.run(), name="recall")
        while not queue.asked:
            await asyncio.sleep(0.001)
        queue.is_away = True
        asked = queue.asked
        while queue.asked < asked + 2:
            await asyncio.sleep(0.001)
        queue.forget("l1")
        queue.is_away = False
        while not queue.taken:
            await asyncio.sleep(0.001)
        running.cancel()
    assert queue.taken == ["l1"]


async def test_the_rest_is_passed_on(queue):
    recall = Recall(queue)
    assert await recall.is_blocked(13)
    assert not await recall.is_blocked(7)
    await recall.decline("l1")
    assert await recall.is_known("l1")
    assert not await recall.is_known("l2")

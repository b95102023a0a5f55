"""The lanes of prompts: in their order in a channel, side by side otherwise, and never too many."""

import asyncio

import pytest

from gateway.front import Prompt
from gateway.prompt_lanes import MAX_IN_HAND, PromptLanes
from shared.turns import Front


def prompt(number: int, channel: int) -> Prompt:
    return Prompt(front=Front.LOCAL, message_id=number, channel_id=channel, user_id=5, text="?")


class Taker:
    """Takes prompts when it is let."""

    def __init__(self) -> None:
        self.may = asyncio.Event()
        self.begun: list[int] = []
        self.taken: list[int] = []

    async def take(self, one: Prompt) -> None:
        self.begun.append(one.message_id)
        await self.may.wait()
        self.taken.append(one.message_id)


async def test_a_channel_keeps_its_order_and_holds_up_no_other():
    taker = Taker()
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        lanes = PromptLanes(group, taker.take)
        for number, channel in enumerate((7, 7, 8, 7, 9)):
            await lanes.put(prompt(number, channel))
        await asyncio.sleep(0.01)
        assert taker.begun == [0, 2, 4]
        taker.may.set()
    assert [number for number in taker.taken if number not in (2, 4)] == [0, 1, 3]


async def test_what_changes_a_prompt_waits_until_it_is_taken():
    taker = Taker()
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        lanes = PromptLanes(group, taker.take)
        await lanes.put(prompt(1, 7))
        await lanes.put(prompt(2, 7))
        await lanes.empty(8)
        await lanes.empty(None)
        changed = group.create_task(lanes.empty(7))
        await asyncio.sleep(0.01)
        assert not changed.done()
        taker.may.set()
        await changed
        assert taker.taken == [1, 2]


async def test_there_is_room_for_so_many_and_no_more():
    taker = Taker()
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        lanes = PromptLanes(group, taker.take)
        for number in range(MAX_IN_HAND):
            await lanes.put(prompt(number, number % 10))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await lanes.put(prompt(999, 99))
        taker.may.set()
        await lanes.put(prompt(1000, 99))
    assert len(taker.taken) == MAX_IN_HAND + 1

"""Turns of a moment ago are given once more to a server that may have forgotten them."""

import asyncio
from collections.abc import Callable

import pytest

from gateway.front import Unavailable
from gateway.notices import Notices
from gateway.recall import KEPT_MAX, Recall
from gateway.telling import Regrets, Teller
from shared.errors import StoreUnavailable
from shared.i18n import load_texts
from shared.turns import Admission, Front, TurnRequest
from tests.support.channel import ManualClock, MemoryBudget, MemoryFront, NoTyping
from tests.support.turns import turn


class ForgetfulQueue:
    """The port `Queue`: takes a turn once, until it comes back as another server."""

    def __init__(self) -> None:
        self.name = "one"
        self.taken: list[str] = []
        self.is_away = False
        self.asked = 0
        self.room = 10_000
        self.over: set[str] = set()
        self.texts: dict[str, str] = {}
        self.words: list[object] = []
        self.told: list[tuple[str, str]] = []

    async def tell(self, request: TurnRequest, answer: Admission) -> None:
        self.told.append((request.turn_id, answer.value))

    def forget(self, *turn_ids: str) -> None:
        self.name += "'"
        self.taken = [turn_id for turn_id in self.taken if turn_id not in turn_ids]
        for turn_id in turn_ids:
            self.texts.pop(turn_id, None)

    async def admit(self, request: TurnRequest) -> Admission:
        if request.turn_id in self.taken:
            return Admission.DUPLICATE
        if len(self.taken) >= self.room:
            return Admission.FULL
        self.taken.append(request.turn_id)
        self.words.append(request.messages[-1].content)
        return Admission.ACCEPTED

    async def amend(self, turn_id: str, text: str) -> bool:
        if turn_id in self.taken:
            self.texts[turn_id] = text
        return turn_id in self.taken

    async def withdraw(self, turn_id: str) -> None:
        self.taken = [one for one in self.taken if one != turn_id]

    async def decline(self, turn_id: str) -> None:
        self.taken.append(turn_id)

    async def ended(self, turn_ids: list[str]) -> set[str]:
        return {one for one in turn_ids if one in self.over or one not in self.taken}

    async def server_id(self) -> str:
        self.asked += 1
        if self.is_away:
            raise StoreUnavailable
        return self.name


def recalling(queue: ForgetfulQueue, **more: float) -> Recall:
    return Recall(queue.admit, queue, queue.tell, **{"tend_s": 0.0, **more})


@pytest.fixture
def queue() -> ForgetfulQueue:
    return ForgetfulQueue()


async def test_a_turn_whose_answer_was_lost_is_accepted_when_asked_again(queue: ForgetfulQueue):
    lost = [True, False, False]

    async def admit(request: TurnRequest) -> Admission:
        answer = await queue.admit(request)
        if lost.pop(0):
            raise StoreUnavailable
        return answer

    recall = Recall(admit, queue, queue.tell)
    await recall.look()
    with pytest.raises(StoreUnavailable):
        await recall.admit(turn("l1"))
    assert await recall.admit(turn("l1")) is Admission.ACCEPTED
    assert await recall.admit(turn("l1")) is Admission.DUPLICATE
    queue.forget("l1")
    lost.append(False)
    await recall.look()
    assert queue.taken == ["l1"]


async def test_turns_whose_answers_were_lost_are_forgotten_in_the_end(queue: ForgetfulQueue):
    async def admit(request: TurnRequest) -> Admission:
        if request.turn_id in queue.taken:
            return Admission.DUPLICATE
        await queue.admit(request)
        raise StoreUnavailable

    recall = Recall(admit, queue, queue.tell)
    for number in range(KEPT_MAX + 1):
        with pytest.raises(StoreUnavailable):
            await recall.admit(turn(f"l{number}"))
    assert await recall.admit(turn("l0")) is Admission.DUPLICATE
    assert await recall.admit(turn("l1")) is Admission.ACCEPTED


async def test_what_a_server_forgot_is_admitted_again_in_order(queue, caplog):
    recall = recalling(queue)
    await recall.look()
    for name in ("l1", "l2", "l3"):
        assert await recall.admit(turn(name)) == "accepted"
    queue.forget("l2", "l3")
    await recall.look()
    assert queue.taken == ["l1", "l2", "l3"]
    assert caplog.messages == ["recall.admitted_again"] * 2


async def test_the_same_server_is_asked_nothing_again(queue):
    recall = recalling(queue)
    await recall.look()
    await recall.admit(turn("l1"))
    queue.taken.clear()
    await recall.look()
    assert queue.taken == []


async def test_what_was_taken_long_ago_is_not_kept(queue):
    recall = recalling(queue, kept_s=-1.0)
    await recall.look()
    await recall.admit(turn("l1"))
    queue.over.add("l1")
    await recall.look()
    queue.forget("l1")
    await recall.look()
    assert queue.taken == []


async def test_a_turn_that_has_not_ended_is_kept_for_longer(queue):
    recall = recalling(queue, kept_s=-1.0)
    await recall.look()
    await recall.admit(turn("l1"))
    await recall.look()
    await recall.look()
    queue.forget("l1")
    await recall.look()
    assert queue.taken == ["l1"]


async def test_which_turns_have_ended_is_not_asked_all_the_time(queue):
    recall = recalling(queue, kept_s=-1.0, tend_s=60.0)
    await recall.look()
    await recall.admit(turn("l1"))
    await recall.look()
    queue.over.add("l1")
    await recall.look()  # asked a moment ago
    queue.forget("l1")
    await recall.look()
    assert queue.taken == ["l1"]


async def test_nobody_waits_for_longer_than_a_quarter_of_an_hour(queue, monkeypatch):
    monkeypatch.setattr("gateway.recall.LONGEST_S", -1.0)
    recall = recalling(queue, kept_s=-1.0)
    await recall.look()
    await recall.admit(turn("l1"))
    await recall.look()
    queue.forget("l1")
    await recall.look()
    assert queue.taken == []


async def test_a_server_may_be_away_for_longer_than_anything_is_kept(queue):
    recall = recalling(queue, kept_s=-1.0)
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
    recall = recalling(queue, kept_s=0.05)
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
    recall = recalling(queue)
    await recall.look()
    for number in range(KEPT_MAX + 1):
        await recall.admit(turn(f"l{number}"))
    queue.forget(*queue.taken)
    await recall.look()
    assert len(queue.taken) == KEPT_MAX


async def test_a_server_that_is_away_is_asked_again(queue):
    recall = recalling(queue, look_s=0.001)
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


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not is_so():
            await asyncio.sleep(0.001)


async def test_who_was_forgotten_and_finds_no_room_is_told_so(queue, caplog):
    recall = recalling(queue, look_s=0.001)
    await recall.look()
    for name in ("l1", "l2"):
        await recall.admit(turn(name))
    queue.room = 1
    queue.forget("l1", "l2")
    running = asyncio.create_task(recall.run(), name="recall")
    await until(lambda: bool(queue.told))
    running.cancel()
    assert queue.told == [("l2", "full")]
    assert caplog.messages == ["recall.admitted_again", "recall.refused"]
    queue.room = 5
    queue.forget("l1")
    await recall.look()
    assert queue.taken == ["l1"]  # the other one was told


async def test_a_deleted_prompt_is_not_given_again(queue):
    recall = recalling(queue)
    await recall.look()
    for name in ("l1", "l2", "l3"):
        await recall.admit(turn(name))
    await recall.withdraw("l1")
    await recall.withdraw("l2")
    queue.taken.append("l2")  # the turn was kept, that it was withdrawn was forgotten
    queue.forget("l1")
    await recall.look()
    assert queue.taken == ["l3"]


async def test_an_edit_is_made_again(queue):
    recall = recalling(queue)
    await recall.look()
    for name in ("l1", "l2"):
        await recall.admit(turn(name))
        assert await recall.amend(name, "once")
        assert await recall.amend(name, "better")
    assert not await recall.amend("l9", "nobody's")
    queue.texts["l2"] = "once"
    queue.forget("l1")
    await recall.look()
    assert queue.texts == {"l1": "better", "l2": "better"}


async def test_changes_of_long_ago_are_not_kept(queue):
    recall = recalling(queue, kept_s=-1.0)
    await recall.look()
    await recall.admit(turn("l1"))
    await recall.amend("l1", "better")
    await recall.look()
    queue.taken.clear()
    queue.texts.clear()
    queue.forget()
    await recall.look()
    assert queue.texts == {}


async def test_an_edit_of_long_ago_goes_with_a_turn_that_still_waits(queue):
    recall = recalling(queue, kept_s=-1.0)
    await recall.look()
    await recall.admit(turn("l1"))
    await recall.amend("l1", "better")
    await recall.look()
    queue.forget("l1")
    await recall.look()
    assert (queue.taken, queue.words[-1]) == (["l1"], "better")


async def test_a_regret_is_said_in_the_channel_until_it_gets_through(queue):
    front, clock, signs = MemoryFront(), ManualClock(0.0), NoTyping()
    front.script = [Unavailable(reason="connection"), Unavailable(reason="busy", retry_after_s=3)]
    tellers = {Front.LOCAL: Teller(front, MemoryBudget(clock), clock.sleep)}
    regrets = Regrets(tellers, Notices(load_texts()), signs, queue)
    request = turn("l1", channel=7)
    await regrets.tell(request, Admission.FULL)
    (message,) = front.channels[7].values()
    assert message.text == load_texts().text("notice.busy")
    assert message.is_notice
    assert signs.stopped == ["l1"]
    assert queue.taken == ["l1"]  # marked: found again, it becomes no turn


async def test_a_regret_for_a_front_that_is_not_here_ends_the_sign(queue):
    signs = NoTyping()
    await Regrets({}, Notices(load_texts()), signs, queue).tell(turn("l1"), Admission.FULL)
    assert signs.stopped == ["l1"]
    assert queue.taken == []

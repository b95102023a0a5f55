"""Edits and deletions of prompts that are answered together: each reaches its own words only."""

from typing import Any

import msgspec
import pytest

from gateway.edges.store import GatewayFleet
from shared.config import Settings
from shared.edges.queue import Admission, Cancelled, TurnQueue
from shared.edges.records import TurnRecords
from shared.history import Attachment, Reading
from shared.messages import Message, Role
from shared.segments import WITHDRAWN, TurnDone
from shared.turns import FollowUp, TurnRequest, TurnState
from shared.wire import decode_turn_request
from tests.support.turns import claim_one, out_entries, turn


def said(number: int, *, file: int | None = None, **more: Any) -> TurnRequest:
    request = turn(f"m{number}", channel=1, follow_up=FollowUp.MERGE, **more)
    files = () if file is None else (Attachment(id=file, name="a.txt", url="https://x/"),)
    return msgspec.structs.replace(
        request,
        messages=[Message(role=Role.USER, content=f"say {number}")],
        reading=Reading(before=number, attachments=files),
    )


async def admitted(queue: TurnQueue, *numbers: int, files: bool = False) -> GatewayFleet:
    """Prompts of one person that wait, as one turn."""
    for number in numbers:
        request = said(number, file=number * 10 if files else None)
        assert await queue.admit(request) is Admission.ACCEPTED
    return GatewayFleet(queue)


async def asked(queue: TurnQueue) -> TurnRequest:
    return decode_turn_request((await claim_one(queue)).request)


def words(request: TurnRequest) -> list[object]:
    return [message.content for message in request.messages]


@pytest.mark.parametrize(
    ("edited", "expected"),
    [
        ("m1", ["now 1", "say 2", "say 3"]),
        ("m2", ["say 1", "now 2", "say 3"]),
        ("m3", ["say 1", "say 2", "now 3"]),
    ],
)
async def test_an_edit_reaches_its_own_words(queue: TurnQueue, edited: str, expected: list[str]):
    fleet = await admitted(queue, 1, 2, 3)
    assert await fleet.amend(edited, f"now {edited[1:]}")
    assert not await fleet.amend(edited, f"now {edited[1:]}")  # nothing new
    assert words(await asked(queue)) == expected
    assert not await fleet.amend(edited, "too late")


@pytest.mark.parametrize(
    ("deleted", "expected"),
    [
        (["m1"], ["say 2", "say 3"]),
        (["m2"], ["say 1", "say 3"]),
        (["m3"], ["say 1", "say 2"]),
        (["m3", "m1"], ["say 2"]),
        (["m1", "m3"], ["say 2"]),
        (["m3", "m3"], ["say 1", "say 2"]),
    ],
    ids=" ".join,
)
async def test_a_deletion_takes_its_own_words(
    queue: TurnQueue, deleted: list[str], expected: list[str]
):
    fleet = await admitted(queue, 1, 2, 3)
    for one in deleted:
        await fleet.withdraw(one)
    request = await asked(queue)
    assert (request.turn_id, words(request)) == ("m3", expected)


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
async def test_without_any_of_its_prompts_a_turn_is_stopped(
    queue: TurnQueue, records: TurnRecords, order
):
    fleet = await admitted(queue, 1, 2, 3)
    for number in order:
        await fleet.withdraw(f"m{number}")
    assert await records.state("m3") is TurnState.CANCELLED
    last = (await out_entries(queue.redis, queue.keys))[-1]
    assert isinstance(last.event, TurnDone)
    assert (last.turn_id, last.event.notes) == ("m3", (WITHDRAWN,))


async def test_what_follows_one_that_was_taken_back_stands_beside_the_others(queue: TurnQueue):
    fleet = await admitted(queue, 1, 2)
    await fleet.withdraw("m2")
    await admitted(queue, 3)
    assert await fleet.amend("m1", "now 1")
    assert not await fleet.amend("m2", "now 2")
    assert await fleet.amend("m3", "now 3")
    request = await asked(queue)
    assert (request.turn_id, words(request)) == ("m3", ["now 1", "now 3"])
    assert request.merged == ("m1",)


async def test_the_files_of_a_prompt_go_with_it(queue: TurnQueue):
    fleet = await admitted(queue, 1, 2, 3, files=True)
    await fleet.withdraw("m2")
    request = await asked(queue)
    assert request.reading is not None
    assert [one.id for one in request.reading.attachments] == [10, 30]


async def test_one_that_runs_goes_on_for_the_others_and_ends_without_any(
    queue: TurnQueue, records: TurnRecords
):
    fleet = await admitted(queue, 1, 2)
    claimed = await claim_one(queue)
    await fleet.withdraw("m1")
    record = await records.turn("m2")
    assert record is not None
    assert (record.state, record.is_stopping) == (TurnState.RUNNING, False)
    await fleet.withdraw("m2")
    record = await records.turn("m2")
    assert record is not None
    assert record.is_stopping
    await queue.finish(claimed.token, TurnDone(count=0, state=TurnState.CANCELLED))
    await fleet.withdraw("m2")  # long over


async def test_a_prompt_that_stands_alone_is_stopped_as_before(
    queue: TurnQueue, records: TurnRecords
):
    fleet = await admitted(queue, 1)
    await fleet.withdraw("m1")
    assert await records.state("m1") is TurnState.CANCELLED
    await fleet.withdraw("m9")  # nobody knows it


class HastyQueue(TurnQueue):
    """Takes another prompt of the same person in just before a turn is stopped."""

    follower: TurnRequest | None = None

    async def cancel(self, turn_id: str, *, why: str = "") -> Cancelled:
        follower, self.follower = self.follower, None
        if follower is not None:
            assert await self.admit(follower) is Admission.ACCEPTED
        return await super().cancel(turn_id, why=why)


async def test_a_prompt_that_is_taken_in_while_it_is_deleted_is_deleted_there(queue: TurnQueue):
    hasty = HastyQueue(queue.redis, queue.keys, Settings())
    fleet = await admitted(hasty, 1)
    hasty.follower = said(2)
    await fleet.withdraw("m1")
    assert words(await asked(queue)) == ["say 2"]

"""A reply that was cut off at its length goes on as a turn of its own, once."""

import msgspec
from redis.asyncio import Redis

from shared.continuing import GO_ON, Continuation, dump
from shared.edges.continuing import Continuations
from shared.edges.queue import Admission, TurnQueue
from shared.edges.records import TurnRecords
from shared.keys import Keys
from shared.messages import Message, Role
from shared.turns import FollowUp, Target
from shared.wire import decode_turn_request
from tests.support.turns import admit_and_claim, claim_one, turn
from worker.edges.fleet.lease import Lease
from worker.edges.outbox import Outbox

STOOD_IN = Target(provider="other", model="second")


def kept(turn_id: str = "l1") -> Continuation:
    request = turn(
        turn_id,
        fallbacks=(STOOD_IN,),
        follow_up=FollowUp.REPLACE,
        merged=("l0",),
        system="Be kind.",
    )
    result = Message(role=Role.TOOL, content="4", tool_call_id="c1")
    return Continuation(request=request, target=STOOD_IN, said="One, two, th", rounds=[result])


async def test_the_model_reads_what_it_has_said_and_is_asked_to_go_on(
    queue: TurnQueue, client: Redis, keys: Keys, records: TurnRecords
):
    first = await admit_and_claim(queue)
    await Outbox(queue, records, Lease(first)).keep_continuation(dump(kept()))
    store = Continuations(client, keys)
    assert await store.go_on("l1", queue, 5) is Admission.ACCEPTED
    await queue.release(first.token)
    await queue.cancel("l1")
    request = decode_turn_request((await claim_one(queue)).request)
    assert (request.turn_id, request.continue_of, request.created_ms) == ("l1.2", "l1", 5)
    assert (request.target, request.fallbacks) == (STOOD_IN, ())
    assert (request.follow_up, request.merged) == (FollowUp.QUEUE, ())
    assert request.route == kept().request.route
    assert request.system == "Be kind."
    asked, result, said, go_on = request.messages
    assert asked == turn().messages[0]
    assert result.role is Role.TOOL
    assert (said.role, said.content, said.model) == (Role.ASSISTANT, "One, two, th", "second")
    assert (go_on.role, go_on.content) == (Role.USER, GO_ON)


async def test_asked_twice_it_goes_on_once(queue: TurnQueue, client: Redis, keys: Keys):
    store = Continuations(client, keys)
    await store.keep("l1", dump(kept()))
    assert await store.go_on("l1", queue, 5) is Admission.ACCEPTED
    assert await store.go_on("l1", queue, 6) is Admission.DUPLICATE


async def test_what_goes_on_can_be_cut_off_again(queue: TurnQueue, client: Redis, keys: Keys):
    store = Continuations(client, keys)
    await store.keep("l1.2", dump(kept("l1.2")))
    assert await store.go_on("l1.2", queue, 5) is Admission.ACCEPTED
    assert decode_turn_request((await claim_one(queue)).request).turn_id == "l1.3"


async def test_nothing_is_kept_for_ever_and_nothing_goes_on_from_nothing(
    queue: TurnQueue, client: Redis, keys: Keys
):
    store = Continuations(client, keys)
    assert await store.go_on("l1", queue, 5) is None
    await store.keep("l1", dump(kept()))
    assert 0 < await client.pttl(keys.continuation("l1")) <= 24 * 3_600_000


async def test_a_server_without_memory_keeps_none_and_the_turn_ends_all_the_same(
    queue: TurnQueue, client: Redis, keys: Keys, records: TurnRecords
):
    outbox = Outbox(queue, records, Lease(await admit_and_claim(queue)))
    await client.config_set("maxmemory", "1")
    try:
        await outbox.keep_continuation(dump(kept()))
    finally:
        await client.config_set("maxmemory", "0")
    assert await client.exists(keys.continuation("l1")) == 0


def test_a_representation_tells_only_the_size_of_what_was_said():
    assert "two" not in repr(kept())
    assert msgspec.structs.asdict(kept())["said"] == "One, two, th"

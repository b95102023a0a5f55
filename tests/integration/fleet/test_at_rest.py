"""What is sealed at rest: no prompt can be read in Redis, and the fleet reads all of it."""

from collections.abc import Iterator
from typing import Any

import pytest

from gateway.edges.store import GatewayFleet
from shared import at_rest
from shared.at_rest import MARK, AtRest
from shared.edges.continuing import Continuations
from shared.edges.forgetting import Forgetter, Kind, Subject
from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords
from shared.errors import ConfigError, WireError
from shared.keys import Keys
from shared.wire import decode_turn_request, encode_turn_request
from tests.support.turns import admit_and_claim, claim_one, turn
from worker.edges.fleet.lease import Lease
from worker.edges.outbox import Outbox

OLD, NEW = bytes(range(32)), bytes(range(32, 64))


@pytest.fixture
def with_key() -> Iterator[None]:
    at_rest.use(AtRest([OLD]))
    yield
    at_rest.use(AtRest())


@pytest.mark.usefixtures("with_key")
async def test_a_stored_request_and_a_recording_cannot_be_read(
    queue: TurnQueue, records: TurnRecords, keys: Keys
):
    redis: Any = queue.redis
    await queue.admit(turn())
    await records.save_recording("l1", 1, b"what a provider answered")
    stored = await redis.hget(keys.turn("l1"), "request")
    recorded = await redis.get(keys.recording("l1", 1))
    assert stored.startswith(MARK)
    assert recorded.startswith(MARK)
    assert b"hello" not in stored
    assert b"provider" not in recorded
    assert decode_turn_request((await claim_one(queue)).request) == turn()
    assert await records.load_recording("l1", 1) == b"what a provider answered"


@pytest.mark.usefixtures("with_key")
async def test_a_reply_that_can_go_on_is_sealed(queue: TurnQueue, keys: Keys):
    redis: Any = queue.redis
    await Continuations(redis, keys).keep("l1", b"what the model said")
    assert b"model" not in await redis.get(keys.continuation("l1"))


@pytest.mark.usefixtures("with_key")
async def test_what_is_sealed_is_forgotten_too(queue: TurnQueue, keys: Keys):
    redis: Any = queue.redis
    user = 187_001_234_567_890_123
    await Continuations(redis, keys).keep("m1", f'{{"user_id":{user}}}'.encode())
    await Continuations(redis, keys).keep("m2", b'{"user_id":187001234567890777}')
    await Forgetter(redis, keys, queue).forget(Subject(Kind.USER, user))
    assert not await redis.exists(keys.continuation("m1"))
    assert await redis.exists(keys.continuation("m2"))


@pytest.mark.usefixtures("with_key")
async def test_tool_rounds_and_pictures_are_sealed_and_read(
    queue: TurnQueue, records: TurnRecords, keys: Keys
):
    redis: Any = queue.redis
    outbox = Outbox(queue, records, Lease(await admit_and_claim(queue)))
    await outbox.keep_rounds(b"what a tool gave")
    await outbox.keep_picture("p1", b"\x89PNG")
    assert b"tool" not in await redis.get(keys.rounds("l1"))
    assert b"PNG" not in await redis.get(keys.picture("p1"))
    await queue.release(outbox.token)
    heir = Outbox(queue, records, Lease(await claim_one(queue, "w2")))
    assert await heir.kept_rounds() == b"what a tool gave"
    assert await GatewayFleet(queue).picture("p1") == b"\x89PNG"
    at_rest.use(AtRest([NEW]))
    assert await GatewayFleet(queue).picture("p1") is None
    with pytest.raises(WireError):
        await heir.kept_rounds()


def test_what_was_stored_before_there_was_a_key_is_still_read():
    plain = encode_turn_request(turn())
    assert AtRest([OLD]).opened(plain) == plain


def test_an_older_key_still_opens():
    sealed = AtRest([OLD]).sealed(b"text")
    assert AtRest([NEW, OLD]).opened(sealed) == b"text"
    with pytest.raises(WireError):
        AtRest([NEW]).opened(sealed)
    with pytest.raises(WireError):
        AtRest().opened(sealed)


@pytest.mark.parametrize("text", ["", "abcd", "zz" * 32, f"{OLD.hex()},"])
def test_what_is_no_key_is_refused_and_not_shown(text: str):
    with pytest.raises(ConfigError) as caught:
        at_rest.keys_of(text)
    assert "zz" not in str(caught.value)


def test_without_a_key_nothing_changes():
    assert at_rest.keys_of(None).sealed(b"text") == b"text"

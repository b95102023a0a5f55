"""What a person is told of a turn that waits, from a real queue."""

from collections.abc import AsyncIterator, Iterator

import msgspec
import pytest
from redis.asyncio import Redis

from gateway.edges.waiting import Waiting, sentence
from gateway.typist import Elsewhere, Left
from shared.config import Settings
from shared.edges.overview import Place, Why
from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords, this_process
from shared.edges.redis import connect
from shared.i18n import load_texts
from shared.keys import Keys
from shared.segments import TurnDone
from shared.turns import TurnState
from tests.support.channel import MemoryReporter
from tests.support.servers import RedisServer, free_port, running_server
from tests.support.turns import segment, turn

TEXTS = load_texts()


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


@pytest.fixture
async def queue(server: RedisServer) -> AsyncIterator[TurnQueue]:
    redis: Redis = connect(server.url)
    await redis.flushall()
    yield TurnQueue(redis, Keys("waiting"), Settings())
    await redis.aclose(close_connection_pool=True)


async def test_words_follow_the_turn_through_the_queue(queue: TurnQueue):
    waiting = Waiting(queue, TEXTS)
    for n in range(3):
        await queue.admit(turn(f"l{n}"))
    (first,) = await queue.claim("w1", 8)
    assert await waiting.words("l0", "en") is None
    assert await waiting.words("l1", "en") == "1 question is before yours."
    assert await waiting.words("l2", "en") == "2 questions are before yours."
    await queue.finish(first.token, TurnDone(count=0))
    assert await waiting.words("l1", "en") == "Your question is next."
    await queue.pause("fleet")
    assert "paused" in (await waiting.words("l1", "en") or "")
    assert await waiting.words("unknown", "en") is None


async def test_a_turn_is_answered_once_something_of_it_is_there(queue: TurnQueue):
    waiting = Waiting(queue, TEXTS)
    await queue.admit(turn("l1", channel=1))
    await queue.admit(turn("l2", channel=2))
    assert not await waiting.is_answered("l1")
    first, second = await queue.claim("w1", 2)
    assert not await waiting.is_answered("l1")
    await queue.append(first.token, 1, segment(first.token, 1))
    assert await waiting.is_answered(first.token.turn_id)
    await queue.finish(second.token, TurnDone(count=0))
    assert await waiting.is_answered(second.token.turn_id)
    assert not await waiting.is_answered("unknown")


async def test_without_redis_nothing_is_said(queue: TurnQueue):
    redis = connect(f"redis://127.0.0.1:{free_port()}")
    away = Waiting(TurnQueue(redis, queue.keys, Settings()), TEXTS)
    assert await away.words("l1", "en") == ""
    assert not await away.is_answered("l1")
    await away.remember(Left(turn_id="l1", channel_id=7, message_id=8))
    await away.forget("l1")
    assert await away.left_behind(is_local=True) == []
    assert await away.elsewhere("l1") is Elsewhere.KEPT
    await redis.aclose(close_connection_pool=True)


@pytest.mark.parametrize("why", list(Why))
def test_every_reason_has_its_words(why: Why):
    said = sentence(Place(state=TurnState.QUEUED, ahead=1, why=why), TEXTS, "en")
    assert bool(said) == (why not in {Why.LATER, Why.NOTHING})
    assert "notice." not in said


def test_a_notice_has_a_nonce_of_its_own_each_time(queue: TurnQueue):
    waiting = Waiting(queue, TEXTS)
    assert waiting.nonce("l1", 0) == waiting.nonce("l1", 0)
    assert waiting.nonce("l1", 0) != waiting.nonce("l1", 1)


async def test_notices_are_remembered_for_the_next_gateway(queue: TurnQueue):
    waiting = Waiting(queue, TEXTS, "g1")
    local = Left(
        turn_id="l1", channel_id=7, message_id=8, locale="de", nth=2, text="wait", reply_to=6
    )
    await waiting.remember(local)
    local = msgspec.structs.replace(local, gateway="g1")
    await waiting.remember(Left(turn_id="m1", channel_id=9, message_id=10))
    assert await waiting.left_behind(is_local=True) == [local]
    assert [one.turn_id for one in await waiting.left_behind(is_local=False)] == ["m1"]
    assert await queue.redis.pttl(queue.keys.places) > 0
    await waiting.forget("l1")
    assert await waiting.left_behind(is_local=True) == []


async def test_a_notice_that_cannot_be_read_is_reported_once_and_hides_no_other(queue: TurnQueue):
    reporter = MemoryReporter()
    waiting = Waiting(queue, TEXTS, tell=reporter.report)
    await waiting.remember(Left(turn_id="m1", channel_id=9, message_id=10))
    deep = '{"x":' + "[" * 100_000
    for name, row in (("m2", "{"), ("m3", '{"turn_id":3}'), ("m4", ""), ("m5", deep)):
        await queue.redis.hset(queue.keys.places, name, row)  # type: ignore[misc]  # redis-py
    found = {is_local: await waiting.left_behind(is_local=is_local) for is_local in (True, False)}
    assert [one.turn_id for one in found[False]] == ["m1"]
    assert found[True] == []
    assert sorted(str(one.turn_id) for one in reporter.reports) == ["m2", "m3", "m4", "m5"]
    assert {one.stage for one in reporter.reports} == {"places"}


async def test_a_notice_is_its_gateways_while_that_one_lives(queue: TurnQueue):
    records = TurnRecords(queue.redis, queue.keys)
    waiting = Waiting(queue, TEXTS, "g1")
    assert await waiting.elsewhere("m1") is Elsewhere.NONE
    await records.report_process(this_process("g1", "gateway", started_ms=0, now_ms=0))
    await waiting.remember(Left(turn_id="m1", channel_id=9, message_id=10))
    assert await waiting.elsewhere("m1") is Elsewhere.KEPT
    await records.forget_process("g1")
    assert await waiting.elsewhere("m1") == Left(
        turn_id="m1", channel_id=9, message_id=10, gateway="g1"
    )
    older = '{"turn_id":"m2","channel_id":9,"message_id":11}'
    await queue.redis.hset(queue.keys.places, "m2", older)  # type: ignore[misc]  # redis-py
    assert isinstance(await waiting.elsewhere("m2"), Left)
    await queue.redis.hset(queue.keys.places, "m3", "{")  # type: ignore[misc]  # redis-py
    assert await waiting.elsewhere("m3") is Elsewhere.KEPT

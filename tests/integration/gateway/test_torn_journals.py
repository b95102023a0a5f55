"""A journal that nobody can read ends one reply, on both servers, and nothing else."""

from collections.abc import Iterator

import msgspec
import pytest

from gateway.edges.leadership import PartitionLease
from gateway.edges.store import RedisJournal
from gateway.sequencer import TurnSequencer
from gateway.steps import Head, TornJournal, Written
from shared.keys import Keys
from shared.wire import encode_json
from tests.support.channel import MemorySource
from tests.support.delivery import Bench
from tests.support.envelopes import text
from tests.support.servers import RedisServer, flavors, running_server

KEYS = Keys()
SEVERAL = encode_json(Head(attempt=1, claim="aaaa0001", seq=3, writes=9))
TORN: dict[str, dict[str, bytes]] = {
    "a field of another kind, and many writes": {"head": b'{"attempt":"x","writes":9}'},
    "no JSON": {"head": b"not json"},
    "no text": {"head": b'{"claim":"\xff","writes":9}'},
    "no object": {"head": b"[1]"},
    "no number of writes": {"head": b'{"attempt":1,"writes":null}'},
    "deeper than anything": {"head": b'{"x":' + b"[" * 100_000},
    "nothing": {"head": b""},
    "a slot that is none": {"head": SEVERAL, "0": b"{"},
    "nothing, and a slot that is none": {"head": b"", "0": b"{"},
    "a slot of an odd number": {"head": SEVERAL, "01": b"{}"},
    "a slot without a number": {"head": SEVERAL, "zero": b"{}"},
}
each_torn = pytest.mark.parametrize("torn", TORN.values(), ids=TORN.keys())


class Acknowledged(MemorySource):
    """The journal acknowledges in the server's stream; here its envelopes are in memory."""

    def acked(self, entry_id: str) -> None:
        self.entries.pop(entry_id, None)


@pytest.fixture(scope="module", params=flavors())
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    with running_server(request.param) as running:
        yield running


@each_torn
async def test_it_ends_its_reply_with_one_report_and_others_go_on(redis, torn: dict[str, bytes]):
    await redis.hset(KEYS.journal("l1"), mapping=torn)
    bench = Bench()
    bench.source = Acknowledged()
    bench.journal = RedisJournal(redis, KEYS, 0, "a")  # type: ignore[assignment]  # same port
    bench.lease = PartitionLease(redis, KEYS, 0, "a")  # type: ignore[assignment]  # same port
    await bench.deliver(text(1, "a"), text(2, "b"), text(1, "c", turn="l2", channel=8))
    assert (bench.front.shown(7), bench.front.shown(8)) == ([], ["c"])
    assert bench.reporter.causes == ["delivery_crashed"]
    found = await RedisJournal(redis, KEYS, 0, "a").read("l1")
    assert found is not None
    assert found.head.closed
    assert found.slots == ()


@each_torn
async def test_it_is_replaced_as_it_was_read_and_by_a_late_copy_never(
    redis, torn: dict[str, bytes]
):
    await PartitionLease(redis, KEYS, 0, "a").take()
    await redis.hset(KEYS.journal("l1"), mapping=torn)
    journal = RedisJournal(redis, KEYS, 0, "a")
    with pytest.raises(TornJournal) as caught:
        await journal.read("l1")
    turn = TurnSequencer("l1")
    patch = msgspec.structs.replace(turn.abandon(), before=None, over=caught.value.head)
    assert await journal.write("l1", patch) is Written.DONE
    assert await journal.write("l1", patch) is Written.DONE
    assert await journal.write("l1", turn.abandon()) is Written.DONE
    later = await journal.read("l1")
    assert await journal.write("l1", patch) is Written.FORGOTTEN
    assert await journal.read("l1") == later


async def test_where_a_server_forgot_it_meanwhile_the_whole_is_written(redis):
    await PartitionLease(redis, KEYS, 0, "a").take()
    journal, turn = RedisJournal(redis, KEYS, 0, "a"), TurnSequencer("l1")
    patch = msgspec.structs.replace(turn.abandon(), before=None, over=b"{")
    assert await journal.write("l1", patch) is Written.FORGOTTEN
    assert await journal.write("l1", turn.whole()) is Written.DONE

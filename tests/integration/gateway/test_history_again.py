"""A channel whose history cannot be read at the moment is read later: what was missed is there."""

from collections.abc import AsyncIterator, Iterator

import pytest

from ops.rehearsal.discord.faults import Fault
from tests.support.discord import running_discord
from tests.support.servers import RedisServer, running_server
from tests.support.shards import ShardBench, shard_bench


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as running:
        yield running


@pytest.fixture
async def bench(server: RedisServer) -> AsyncIterator[ShardBench]:
    async with running_discord() as discord, shard_bench(discord, server.url) as running:
        yield running


@pytest.mark.parametrize(
    "fault",
    [
        Fault(method="GET", path="/messages", status=503),
        Fault(method="GET", path="/messages", drop=True),
    ],
    ids=["an error", "a dead connection"],
)
async def test_what_was_missed_is_found_although_a_request_failed(bench: ShardBench, fault: Fault):
    old = await bench.gateway("a", "2")
    await bench.connected(2)
    await old.leave()
    bench.discord.sockets.sessions.clear()
    said = await bench.say_everywhere("meanwhile")
    bench.discord.faults.add(fault, times=2)
    await bench.gateway("b", "2")
    await bench.heard(*said)
    heard = [prompt.message_id for one in bench.gateways for prompt in one.prompts]
    assert sorted(heard) == sorted(said), "each once"

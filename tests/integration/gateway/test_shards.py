"""Several gateways share the shards of one bot: each event is heard, and a deploy loses nothing."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from gateway.edges.discord_incoming import shard_of
from ops.rehearsal.discord.world import THREAD
from tests.support.discord import running_discord
from tests.support.proxy import Proxy
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


async def test_two_gateways_share_four_shards_and_hear_every_guild_once(bench: ShardBench):
    first = await bench.gateway("a")
    await bench.connected(4)
    second = await bench.gateway("b")
    await bench.connected(2, 2)
    said = await bench.say_everywhere("hello")
    await bench.heard(*said)
    heard = [prompt for gateway in (first, second) for prompt in gateway.prompts]
    assert sorted(prompt.message_id for prompt in heard) == sorted(said)
    for gateway in (first, second):
        shards = [shard_of(prompt.guild_id, 4) for prompt in gateway.prompts]
        assert sorted(shards) == sorted(gateway.shards * 2)
    assert bench.discord.sockets.identifies == 4, "the second one goes on with two sessions"
    assert bench.discord.sockets.resumes == 2


async def test_direct_messages_come_from_the_first_shard(bench: ShardBench):
    first = await bench.gateway("a")
    await bench.gateway("b")
    await bench.connected(2, 2)
    direct = bench.discord.world.direct_channel(bench.person.id)
    said = await bench.say("between us", direct.id)
    await bench.heard(said)
    assert [prompt.message_id for prompt in first.prompts] == [said]
    assert 0 in first.shards


async def test_a_deploy_loses_nothing_and_begins_no_session(bench: ShardBench):
    """The old one has taken some prompts, has some in hand, and hears none of the last ones."""
    world = bench.discord.world
    guild_id = world.channels[bench.channels[0]].guild_id
    assert guild_id is not None
    thread = world.add_channel(guild_id, kind=THREAD, parent_id=bench.channels[0])
    old = await bench.gateway("a", "2")
    await bench.connected(2)
    taken = await bench.say("taken")
    await bench.heard(taken)
    old.is_lazy = True
    in_hand = await bench.say_everywhere("in hand")
    await bench.heard(*in_hand)
    await old.leave()
    meanwhile = [await bench.say("meanwhile", thread.id), *await bench.say_everywhere("meanwhile")]
    new = await bench.gateway("b", "2")
    await bench.heard(*meanwhile)
    async with asyncio.timeout(10):
        while not {*in_hand} <= {prompt.message_id for prompt in new.prompts}:
            await asyncio.sleep(0.02)
    heard = [prompt.message_id for prompt in new.prompts]
    assert sorted(heard) == sorted([*in_hand, *meanwhile]), "each of them once, nothing before"
    assert not any(prompt.backfilled for prompt in new.prompts), "the sessions told it"
    parents = {prompt.message_id: prompt.parent_id for prompt in new.prompts}
    assert parents[meanwhile[0]] == bench.channels[0], "what is known of places came with them"
    sockets = bench.discord.sockets
    assert (sockets.identifies, sockets.resumes) == (2, 2)


async def test_a_session_that_discord_forgot_is_begun_anew_and_the_history_tells(
    bench: ShardBench,
):
    old = await bench.gateway("a", "2")
    await bench.connected(2)
    await old.leave()
    bench.discord.sockets.sessions.clear()
    said = await bench.say_everywhere("meanwhile")
    new = await bench.gateway("b", "2")
    await bench.heard(*said)
    await bench.connected(0, 2)
    assert all(prompt.backfilled for prompt in new.prompts)
    assert bench.discord.sockets.identifies == 4


async def test_who_is_cut_off_from_redis_is_replaced_and_leaves_when_it_learns_of_it(
    bench: ShardBench, server: RedisServer
):
    """Split brain: one gateway hears nothing of Redis, and another goes on with its session."""
    async with Proxy(int(server.url.rsplit(":", 1)[1].split("/")[0])) as proxy:
        cut_off = await bench.gateway("a", "2", url=f"redis://127.0.0.1:{proxy.port}/0")
        await bench.connected(2)
        other = await bench.gateway("b", "2")
        await bench.connected(1, 1)
        await proxy.shut()
        proxy.freeze()
        await bench.connected(1, 2)
        assert len(bench.discord.sockets.connections) == 3, "the first one knows nothing of it"
        said = await bench.say_everywhere("who hears it?")
        await bench.heard(*said)
        assert sorted(prompt.message_id for prompt in other.prompts) == sorted(said)
        proxy.heal()
        await proxy.open()
        await bench.connected(1, 1)
        only = await bench.say_everywhere("one hears it")
        await bench.heard(*only)
        heard = [prompt.message_id for one in (cut_off, other) for prompt in one.prompts]
        assert sorted(message for message in heard if message in only) == sorted(only)
        assert bench.discord.sockets.identifies == 2


async def test_while_redis_is_away_sessions_go_on_and_none_is_begun(
    bench: ShardBench, server: RedisServer
):
    async with Proxy(int(server.url.rsplit(":", 1)[1].split("/")[0])) as proxy:
        url = f"redis://127.0.0.1:{proxy.port}/0"
        first = await bench.gateway("a", "2", url=url)
        second = await bench.gateway("b", "2", url=url)
        await bench.connected(1, 1)
        await proxy.shut()
        proxy.freeze()
        await asyncio.sleep(2.0)  # longer than the lease
        assert (first.shards, second.shards) == ([0], [1])
        said = await bench.say_everywhere("still there?")
        await bench.heard(*said)
        began = bench.discord.sockets.identifies
        await bench.discord.sockets.invalidate(resumable=False)
        await asyncio.sleep(1.0)
        assert bench.discord.sockets.identifies == began
        proxy.heal()
        await proxy.open()
        await bench.connected(1, 1)
        assert (first.shards, second.shards) == ([0], [1]), "nobody took what was another's"
        assert bench.discord.sockets.identifies == began + 2


async def test_the_number_of_shards_is_what_discord_advises(bench: ShardBench):
    bench.discord.advised_shards = 3
    await bench.gateway("a", "auto")
    await bench.connected(3)
    counts = {session.shard[1] for session in bench.discord.sockets.sessions.values()}
    assert counts == {3}


async def test_another_number_of_shards_comes_without_a_gap(bench: ShardBench):
    """Both numbers stand for a while; what both hear has one message id."""
    old = await bench.gateway("a", "1")
    await bench.connected(1)
    new = await bench.gateway("b", "3")
    await bench.connected(1, 3)
    said = await bench.say_everywhere("twice")
    await bench.heard(*said)
    await old.leave()
    later = await bench.say_everywhere("once")
    async with asyncio.timeout(10):
        while not {*said, *later} <= {prompt.message_id for prompt in new.prompts}:
            await asyncio.sleep(0.02)
    assert not {*later} & {prompt.message_id for prompt in old.prompts}


async def test_shards_that_wait_for_their_start_ask_discord_once_together(bench: ShardBench):
    bench.discord.sockets.starts.max_concurrency = 1
    await bench.gateway("a")
    await bench.connected(4)
    asked = [call for call in bench.discord.calls if call.path.endswith("/gateway/bot")]
    assert len(asked) <= 3, "at the start, and then for all of them"


async def test_a_shard_that_ends_by_nonsense_is_heard_again(bench: ShardBench):
    await bench.gateway("a", "2")
    await bench.connected(2)
    for connection in bench.discord.sockets.connections:
        await connection.send_text("nonsense")
    said = await bench.say_everywhere("still there?")
    await bench.heard(*said)

"""The composition in this process: `serve` over both fronts, and the exit codes of `main`."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from gateway.__main__ import main
from gateway.app import serve
from shared.config import Settings
from shared.configuration.loading import Loaded
from shared.configuration.schema import Configuration, Limits
from shared.edges.local_channel import LocalChannel
from shared.edges.queue import TurnQueue
from shared.edges.redis import connect
from shared.errors import ConfigError
from shared.i18n import load_texts
from shared.keys import Keys
from shared.segments import TurnDone
from shared.turns import Front
from shared.wire import decode_report
from tests.support.discord import running_discord
from tests.support.gateway import segment_of
from tests.support.servers import RedisServer, running_server

KEYS = Keys()
LIMIT_S = 60.0


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as running:
        yield running


async def answer(queue: TurnQueue, count: int) -> None:
    """Answers so many turns with the name of their front."""
    answered = 0
    while answered < count:
        for claimed in await queue.claim("w1", 10):
            token = claimed.token
            await queue.append(token, 1, segment_of(token, 1, f"answer to {token.turn_id}"))
            await queue.finish(token, TurnDone(count=1))
            answered += 1
        await asyncio.sleep(0.01)


async def test_one_gateway_serves_both_fronts_and_stops_in_order(server, tmp_path: Path):
    async with running_discord() as discord, aclosing(connect(server.url)) as client:
        queue, local = TurnQueue(client, KEYS, Settings()), LocalChannel(client, KEYS)
        channel = discord.world.add_channel(discord.world.add_guild().id)
        person = discord.world.add_user("ann")
        settings = Settings(
            redis_url=server.url,
            data_dir=str(tmp_path),
            front=Front.DISCORD,
            discord_token=discord.token,
            discord_rest_url=discord.rest_url,
        )
        stop = asyncio.Event()
        async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
            group.create_task(serve(Loaded(settings=settings), stop))
            said = await discord.say(channel.id, person, discord.mention("hello"))
            local_id = await local.say(7, "hello")
            await answer(queue, 2)
            while not discord.replies(channel.id) or len(await local.messages(7)) < 2:
                await asyncio.sleep(0.01)
            stop.set()
        assert [message.content for message in discord.replies(channel.id)] == [
            f"answer to m{said.id}"
        ]
        assert (await local.messages(7))[-1].text == f"answer to l{local_id}"
        assert not discord.sockets.connections
        assert [key for key in await client.keys("*") if b":lead:" in key] == []


async def test_a_prompt_that_cannot_be_taken_is_reported_and_the_next_is_answered(
    server, tmp_path: Path
):
    async with aclosing(connect(server.url)) as client:
        await client.flushall()
        queue, local = TurnQueue(client, KEYS, Settings()), LocalChannel(client, KEYS)
        await client.set(KEYS.person(1), "no list of turns, whoever wrote it")
        settings = Settings(redis_url=server.url, data_dir=str(tmp_path))
        limited = Configuration(limits=Limits(user_depth=3))
        stop = asyncio.Event()
        async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
            group.create_task(serve(Loaded(settings=settings, configuration=limited), stop))
            await local.say(7, "never to be taken", user_id=1)
            other = await local.say(8, "hello", user_id=2)
            await answer(queue, 1)
            while len(await local.messages(8)) < 2 or len(await local.messages(7)) < 2:
                await asyncio.sleep(0.01)
            while await local.pending_prompts():
                await asyncio.sleep(0.01)
            stop.set()
        assert (await local.messages(8))[-1].text == f"answer to l{other}"
        assert (await local.messages(7))[-1].text == load_texts().text("notice.failed")
        ((_, fields),) = await client.xrange(KEYS.errors)
        report = decode_report(next(iter(fields.values())))
        assert (report.stage, report.channel_id, report.user_id) == ("intake", 7, 1)
        assert "StoreError" in report.message


async def test_replies_for_a_discord_that_is_switched_off_wait(server, tmp_path: Path):
    async with aclosing(connect(server.url)) as client:
        await client.flushall()
        queue, local = TurnQueue(client, KEYS, Settings()), LocalChannel(client, KEYS)
        stop = asyncio.Event()
        settings = Settings(redis_url=server.url, data_dir=str(tmp_path), drain_s=0.1)
        async with running_discord() as discord:
            channel = discord.world.add_channel(discord.world.add_guild().id)
            person = discord.world.add_user("ann")
            both = Settings(
                redis_url=server.url,
                data_dir=str(tmp_path),
                front=Front.DISCORD,
                discord_token=discord.token,
                discord_rest_url=discord.rest_url,
            )
            async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
                group.create_task(serve(Loaded(settings=both), stop))
                await discord.say(channel.id, person, discord.mention("hello"))
                while not (found := await queue.claim("w1", 1)):
                    await asyncio.sleep(0.01)
                stop.set()
            token = found[0].token
            await queue.append(token, 1, segment_of(token, 1, "late"))
            await queue.finish(token, TurnDone(count=1))
            stop.clear()
            async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
                group.create_task(serve(Loaded(settings=settings), stop))
                await local.say(7, "hello")
                await answer(queue, 1)
                while len(await local.messages(7)) < 2:
                    await asyncio.sleep(0.01)
                stop.set()
            stop.clear()
            assert discord.replies(channel.id) == []
            async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
                group.create_task(serve(Loaded(settings=both), stop))
                while not discord.replies(channel.id):
                    await asyncio.sleep(0.01)
                stop.set()
            assert [message.content for message in discord.replies(channel.id)] == ["late"]


async def test_a_gateway_that_comes_back_types_for_who_waits(server, tmp_path: Path):
    async with aclosing(connect(server.url)) as client, running_discord() as discord:
        await client.flushall()
        queue = TurnQueue(client, KEYS, Settings())
        channel = discord.world.add_channel(discord.world.add_guild().id)
        person = discord.world.add_user("ann")
        settings = Settings(
            redis_url=server.url,
            data_dir=str(tmp_path),
            front=Front.DISCORD,
            discord_token=discord.token,
            discord_rest_url=discord.rest_url,
            drain_s=0.1,
        )

        def signs() -> int:
            return sum(call.path.endswith("/typing") for call in discord.calls)

        for life in range(2):
            before, stop = signs(), asyncio.Event()
            async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as group:
                group.create_task(serve(Loaded(settings=settings), stop))
                if life == 0:
                    await discord.say(channel.id, person, discord.mention("hello"))
                while signs() == before:
                    await asyncio.sleep(0.01)
                stop.set()
        assert len(await queue.claim("w1", 10)) == 1


async def test_a_token_that_is_refused_later_ends_the_process(server, tmp_path: Path):
    async with running_discord() as discord:
        discord.world.add_channel(discord.world.add_guild().id)
        settings = Settings(
            redis_url=server.url,
            data_dir=str(tmp_path),
            front=Front.DISCORD,
            discord_token=discord.token,
            discord_rest_url=discord.rest_url,
        )

        async def revoke() -> None:
            while not discord.sockets.sessions:
                await asyncio.sleep(0.01)
            await discord.sockets.close_all(4004)

        async with asyncio.timeout(LIMIT_S):
            revoking = asyncio.ensure_future(revoke())
            with pytest.raises(ConfigError, match="TURNFLEET_DISCORD_TOKEN"):
                await serve(Loaded(settings=settings), asyncio.Event())
            await revoking


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TURNFLEET_FRNT", "local"),
        ("TURNFLEET_LOG_LEVEL", "LOUD"),
        ("TURNFLEET_REDIS_URL", "redis://127.0.0.1:1/0"),
    ],
)
def test_what_keeps_it_from_starting_is_exit_code_two(monkeypatch, tmp_path, capsys, name, value):
    monkeypatch.setenv("TURNFLEET_DATA_DIR", str(tmp_path))
    monkeypatch.setenv(name, value)
    assert main() == 2
    assert capsys.readouterr().err.startswith("turnfleet gateway: ")

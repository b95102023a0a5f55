"""`python -m gateway`: it starts, says what is wrong, drains, and a second one waits."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from shared.config import Settings
from shared.edges.local_channel import LocalChannel, local_turn_id
from shared.edges.queue import Finished, TurnQueue
from shared.edges.records import TurnRecords
from shared.edges.redis import connect
from shared.keys import Keys
from shared.segments import TurnDone, TurnFailed
from shared.turns import Target, TurnState
from tests.support.discord import running_discord
from tests.support.gateway import GatewayProcess, segment_of
from tests.support.servers import RedisServer, running_server

KEYS = Keys()
LIMIT_S = 30.0


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as running:
        yield running


@pytest.fixture
async def queue(server: RedisServer) -> AsyncIterator[TurnQueue]:
    async with aclosing(connect(server.url)) as client:
        await client.flushall()
        yield TurnQueue(client, KEYS, Settings())


@pytest.fixture
def gateway(server: RedisServer, tmp_path: Path) -> Iterator[GatewayProcess]:
    process = GatewayProcess(tmp_path, REDIS_URL=server.url)
    yield process
    process.kill()


async def shown(local: LocalChannel, count: int) -> list[str]:
    """Waits for so many messages of the bot."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            texts = [message.text for message in await local.messages(7) if message.is_bot]
            if len(texts) >= count:
                return texts
            await asyncio.sleep(0.02)


async def answer(queue: TurnQueue, *texts: str) -> str:
    """Claims the next turn and answers it."""
    async with asyncio.timeout(LIMIT_S):
        while not (found := await queue.claim("w1", 1)):
            await asyncio.sleep(0.02)
    token = found[0].token
    for seq, text in enumerate(texts, start=1):
        await queue.append(token, seq, segment_of(token, seq, text))
    assert await queue.finish(token, TurnDone(count=len(texts))) is Finished.OK
    return token.turn_id


async def test_a_prompt_is_answered_and_the_process_ends_in_order(queue, gateway):
    local = LocalChannel(queue.redis, KEYS)
    gateway.start()
    target = Target(provider="rehearsal", model="slow")
    message_id = await local.say(7, "hello", target=target)
    turn_id = await answer(queue, "a", "b")
    assert turn_id == local_turn_id(message_id)
    assert await shown(local, 2) == ["a", "b"]
    (process,) = await TurnRecords(queue.redis, KEYS).processes()
    assert (process.role, process.pid) == ("gateway", gateway.pid)
    assert await asyncio.to_thread(gateway.stop) == 0
    lines = [json.loads(line) for line in gateway.log.read_text().splitlines()]
    assert [line["msg"] for line in lines][-1] == "gateway.stopped"
    assert "hello" not in gateway.log.read_text()


async def test_a_full_guild_is_told_so(queue, server, tmp_path):
    gateway = GatewayProcess(tmp_path, REDIS_URL=server.url, GUILD_DEPTH="1")
    local = LocalChannel(queue.redis, KEYS)
    gateway.start()
    try:
        await local.say(7, "first", guild_id=3)
        await local.say(7, "second", guild_id=3)
        (busy,) = await shown(local, 1)
        assert busy.startswith("Many questions from this server")
    finally:
        gateway.kill()


async def test_a_stopped_turn_is_acknowledged_in_the_channel(queue, gateway):
    local = LocalChannel(queue.redis, KEYS)
    gateway.start()
    message_id = await local.say(7, "hello")
    async with asyncio.timeout(LIMIT_S):
        while await queue.cancel(local_turn_id(message_id)) != "cancelled":
            await asyncio.sleep(0.02)
    assert await shown(local, 1) == ["Stopped."]


async def test_a_failed_turn_says_its_headline_and_nothing_of_the_provider(queue, gateway):
    local = LocalChannel(queue.redis, KEYS)
    gateway.start()
    await local.say(7, "hello")
    async with asyncio.timeout(LIMIT_S):
        while not (found := await queue.claim("w1", 1)):
            await asyncio.sleep(0.02)
    event = TurnFailed(
        cause="invalid_key",
        category="api_error",
        headline="The key is not valid.",
        state=TurnState.FAILED,
    )
    await queue.finish(found[0].token, event)
    (notice,) = await shown(local, 1)
    assert notice.startswith("The key is not valid.")


async def test_a_second_gateway_takes_over_when_the_first_is_killed(
    queue, gateway, server, tmp_path
):
    local = LocalChannel(queue.redis, KEYS)
    heir_home = tmp_path / "heir"
    heir_home.mkdir()
    heir = GatewayProcess(heir_home, REDIS_URL=server.url)
    gateway.start()
    try:
        async with asyncio.timeout(LIMIT_S):
            await gateway.leads(queue)
            heir.start()
            await local.say(7, "hello")
            await asyncio.to_thread(gateway.kill)
            await heir.leads(queue)
            await answer(queue, "a")
        assert await shown(local, 1) == ["a"]
    finally:
        heir.kill()


async def test_a_restarted_server_is_waited_for(tmp_path):
    with running_server("redis") as server:
        gateway = GatewayProcess(tmp_path, REDIS_URL=server.url)
        async with aclosing(connect(server.url)) as client:
            queue, local = TurnQueue(client, KEYS, Settings()), LocalChannel(client, KEYS)
            gateway.start()
            try:
                async with asyncio.timeout(LIMIT_S):
                    await gateway.leads(queue)
                server.kill()
                server.start()
                await local.say(7, "hello")
                await answer(queue, "a")
                assert await shown(local, 1) == ["a"]
                assert await asyncio.to_thread(gateway.stop) == 0
            finally:
                gateway.kill()


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ({"FRONT": "smoke"}, "use local or discord"),
        ({"FRONT": "discord"}, "TURNFLEET_DISCORD_TOKEN"),
        ({"FRNT": "local"}, "did you mean TURNFLEET_FRONT?"),
        ({"REDIS_URL": "redis://127.0.0.1:1/0"}, "does not answer"),
        ({"REDIS_URL": "http://127.0.0.1"}, "no known scheme"),
        ({"LOG_LEVEL": "LOUD"}, "use DEBUG"),
        ({"FRONT": "discord", "DISCORD_TOKEN": "MTIz.x.y"}, "refuses the bot's token"),
    ],
    ids=["front", "no token", "typo", "no server", "no URL", "level", "refused token"],
)
async def test_what_keeps_it_from_starting_is_said_in_one_line(server, tmp_path, settings, advice):
    async with running_discord() as discord:
        given = {"REDIS_URL": server.url, "DISCORD_REST_URL": discord.rest_url, **settings}
        gateway = GatewayProcess(tmp_path, **given)
        gateway.start()
        try:
            code = await asyncio.to_thread(gateway.wait, LIMIT_S)
        finally:
            gateway.kill()
    lines = [line for line in gateway.log.read_text().splitlines() if not line.startswith("{")]
    assert code == 2
    assert len(lines) == 1
    assert advice in lines[0]


async def test_without_a_server_it_says_how_to_get_one(tmp_path):
    gateway = GatewayProcess(tmp_path)
    gateway.start()
    code = await asyncio.to_thread(gateway.wait, LIMIT_S)
    assert code == 2
    assert "turnfleet up" in gateway.log.read_text()

"""The gateway of the fake Discord, as strict as the real one: what it speaks, whom it refuses."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from ops.rehearsal.discord.handshakes import SENDS
from ops.rehearsal.discord.server import SESSION_STARTS, FakeDiscord
from tests.support.discord import running_discord
from tests.support.raw_client import (
    ACK,
    HEARTBEAT,
    HELLO,
    INVALID,
    RECONNECT,
    RawClient,
    raw_client,
)


@pytest.fixture
async def fake() -> AsyncIterator[FakeDiscord]:
    async with running_discord() as running:
        running.world.add_channel(running.world.add_guild().id)
        running.world.add_user("ann", user_id=5)
        yield running


async def say(fake: FakeDiscord, text: str) -> None:
    (channel_id,) = fake.world.channels
    await fake.say(channel_id, fake.world.users[5], fake.mention(text))


@pytest.mark.parametrize("compress", ["", "zlib-stream", "zstd-stream"])
async def test_payloads_are_one_stream_of_the_compression_that_was_asked_for(fake, compress):
    async with raw_client(fake, compress=compress) as client:
        assert (await client.next())["op"] == HELLO
        ready = await client.identify(fake.token)
        assert ready["d"]["user"]["id"] == str(fake.bot.id)
        for number in range(20):
            await say(fake, f"number {number} " + "x" * number * 50)
        for number in range(20):
            said = await client.until("MESSAGE_CREATE")
            assert f"number {number} " in said["d"]["content"]
    assert fake.sockets.compressions == [compress or None]


async def test_a_compression_that_nobody_knows_is_refused(fake):
    async with raw_client(fake, compress="lzma-stream") as client:
        assert await client.next() == {"closed": 4002}


async def unknown_op(client: RawClient, fake: FakeDiscord) -> None:
    await client.identify(fake.token)
    await client.send(99)


async def no_json(client: RawClient, fake: FakeDiscord) -> None:
    await client.send_text("{")


async def too_early(client: RawClient, fake: FakeDiscord) -> None:
    await client.send(3, {})


async def wrong_token(client: RawClient, fake: FakeDiscord) -> None:
    await client.identify("wrong")


async def twice(client: RawClient, fake: FakeDiscord) -> None:
    await client.identify(fake.token)
    await client.identify(fake.token)


async def from_the_future(client: RawClient, fake: FakeDiscord) -> None:
    ready = await client.identify(fake.token)
    await client.close(4000)
    async with raw_client(fake) as other:
        await other.next()
        await other.resume(fake.token, ready["d"]["session_id"], 9_999)


async def talkative(client: RawClient, fake: FakeDiscord) -> None:
    for _ in range(SENDS + 1):
        await client.send(HEARTBEAT, None)


async def silent(client: RawClient, fake: FakeDiscord) -> None:
    await client.identify(fake.token)


async def no_such_shard(client: RawClient, fake: FakeDiscord) -> None:
    await client.identify(fake.token, shard=[4, 4])


async def too_many_guilds(client: RawClient, fake: FakeDiscord) -> None:
    fake.sockets.guilds_per_shard = 1
    fake.world.add_guild()
    await client.identify(fake.token)


async def unknown_intent(client: RawClient, fake: FakeDiscord) -> None:
    await client.identify(fake.token, intents=1 << 30)


async def privileged_intent(client: RawClient, fake: FakeDiscord) -> None:
    await client.identify(fake.token, intents=1 << 15)


MISTAKES: dict[int, Callable[[RawClient, FakeDiscord], Awaitable[None]]] = {
    4001: unknown_op,
    4002: no_json,
    4003: too_early,
    4004: wrong_token,
    4005: twice,
    4007: from_the_future,
    4008: talkative,
    4009: silent,
    4010: no_such_shard,
    4011: too_many_guilds,
    4013: unknown_intent,
    4014: privileged_intent,
}


@pytest.mark.parametrize("code", MISTAKES)
async def test_each_mistake_of_a_client_is_closed_with_its_code(fake, code: int):
    if code == 4009:
        fake.sockets.heartbeat_ms = 100
    async with raw_client(fake) as client:
        await client.next()
        await MISTAKES[code](client, fake)
        while "closed" not in (await client.next()):
            pass
    assert fake.sockets.refused == [code]


async def test_a_version_that_is_gone_is_closed_with_its_code(fake):
    async with raw_client(fake, version=6) as client:
        assert await client.next() == {"closed": 4012}


@pytest.mark.parametrize("code", [4000, 4001, 4002, 4003, 4005, 4007, 4008, 4009])
async def test_the_server_may_close_with_any_code_and_keeps_the_session(fake, code: int):
    async with raw_client(fake) as client:
        await client.next()
        ready = await client.identify(fake.token)
        await fake.sockets.close_all(code)
        assert await client.until("RESUMED") == {"closed": code}
    await say(fake, "meanwhile")
    async with raw_client(fake) as client:
        await client.next()
        first = await client.resume(fake.token, ready["d"]["session_id"], 1)
        assert first["t"] == "GUILD_CREATE", "from the event after the last one that was seen"
        missed = await client.until("MESSAGE_CREATE")
        assert missed["d"]["content"].endswith("meanwhile")
        assert (await client.until("RESUMED"))["s"] == missed["s"] + 1


@pytest.mark.parametrize(("code", "is_kept"), [(1000, False), (1001, False), (4000, True)])
async def test_a_goodbye_ends_the_session_and_every_other_close_keeps_it(fake, code, is_kept):
    async with raw_client(fake) as client:
        await client.next()
        ready = await client.identify(fake.token)
        await client.close(code)
    async with raw_client(fake) as client:
        await client.next()
        answer = await client.resume(fake.token, ready["d"]["session_id"], 2)
        assert (answer["op"] != INVALID) is is_kept


async def test_a_session_waits_some_minutes_and_no_longer(fake):
    fake.sockets.session_keeps_s = -1.0
    async with raw_client(fake) as client:
        await client.next()
        ready = await client.identify(fake.token)
        await client.close(4000)
    async with raw_client(fake) as client:
        await client.next()
        answer = await client.resume(fake.token, ready["d"]["session_id"], 2)
    assert (answer["op"], answer["d"]) == (INVALID, False)


async def test_a_client_is_asked_to_come_back_or_told_that_its_session_is_over(fake):
    async with raw_client(fake) as client:
        await client.next()
        await client.identify(fake.token)
        await fake.sockets.ask_reconnect()
        assert (await client.until(RECONNECT))["op"] == RECONNECT
        for resumable in (True, False):
            await fake.sockets.invalidate(resumable=resumable)
            assert (await client.until(INVALID))["d"] is resumable
    assert fake.sockets.sessions == {}


async def test_a_heartbeat_is_acknowledged_unless_the_socket_is_deaf(fake):
    async with raw_client(fake) as client:
        await client.next()
        await client.send(HEARTBEAT, None)
        assert (await client.next())["op"] == ACK
        fake.sockets.is_deaf = True
        await client.send(HEARTBEAT, None)
        await fake.sockets.ask_reconnect()
        assert (await client.next())["op"] == RECONNECT, "nothing came before"


async def start(fake: FakeDiscord, shard: int, count: int) -> dict[str, Any]:
    async with raw_client(fake) as client:
        await client.next()
        ready = await client.identify(fake.token, shard=[shard, count])
        await client.close(4000)
        return ready


async def test_sessions_of_a_bucket_begin_five_seconds_apart(fake):
    starts = fake.sockets.starts
    starts.window_s, starts.max_concurrency = 5.0, 2
    began = [(await start(fake, shard, 4))["t"] for shard in (0, 1, 2)]
    assert began == ["READY", "READY", None], "0 and 2 are of one bucket"
    assert fake.sockets.identifies == 2


async def test_who_begins_more_sessions_than_a_day_has_loses_the_token(fake):
    fake.sockets.identifies = SESSION_STARTS
    assert (await start(fake, 0, 1))["t"] == "READY"
    assert await start(fake, 0, 1) == {"closed": 4004}


async def test_guilds_go_to_their_shards_and_direct_messages_to_the_first(fake):
    guilds = [*fake.world.guilds, *(fake.world.add_guild().id for _ in range(7))]
    seen: dict[int, int] = {}
    for shard in range(3):
        ready = await start(fake, shard, 3)
        seen |= {int(guild["id"]): shard for guild in ready["d"]["guilds"]}
    assert seen == {guild_id: (guild_id >> 22) % 3 for guild_id in guilds}
    direct = fake.world.direct_channel(5)
    await fake.say(direct.id, fake.world.users[5], "between us")
    heard = [
        session.shard[0]
        for session in fake.sockets.sessions.values()
        if any("between us" in text for _, text in session.buffer)
    ]
    assert heard == [0]

"""The local channel on real servers: it outlives the gateway and keeps Discord's promises."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing

import pytest
from redis.asyncio import Redis

from shared.edges.local_channel import ChangeKind, LocalChannel, LocalMessage, local_turn_id
from shared.edges.redis import connect
from shared.keys import Keys
from shared.turns import Target
from tests.support.servers import RedisServer, flavors, running_server

KEYS = Keys()


@pytest.fixture(scope="module", params=flavors())
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    with running_server(request.param) as running:
        yield running


@pytest.fixture
def channel(redis: Redis) -> LocalChannel:
    return LocalChannel(redis, KEYS)


def reply(text: str, nonce: str, **facts: object) -> LocalMessage:
    given: dict[str, object] = {"channel_id": 7, "user_id": 0, "is_bot": True}
    return LocalMessage(text=text, nonce=nonce, **(given | facts))  # type: ignore[arg-type]  # by name


async def test_a_prompt_is_shown_and_waits_for_the_gateway(channel):
    target = Target(provider="rehearsal", model="slow")
    message_id = await channel.say(7, "hello", guild_id=3, target=target)
    (shown,) = await channel.messages(7)
    assert (shown.id, shown.text, shown.target) == (message_id, "hello", target)
    (prompt,) = await channel.next_prompts()
    assert prompt.message == shown
    assert local_turn_id(message_id) == f"l{message_id}"


async def test_a_prompt_that_is_not_acknowledged_comes_again(channel, redis):
    await channel.next_prompts()
    await channel.say(7, "hello")
    (prompt,) = await channel.next_prompts()
    assert await channel.next_prompts() == []
    again = LocalChannel(redis, KEYS)
    assert await again.pending_prompts() == [prompt]
    await again.ack_prompt(prompt.receipt)
    assert await again.pending_prompts() == []
    assert await redis.xlen(KEYS.local_prompts) == 0


async def test_a_prompt_that_nobody_can_read_is_dropped(channel, redis):
    await channel.next_prompts()
    await redis.xadd(KEYS.local_prompts, {"id": "1", "body": "no JSON"})
    assert await channel.next_prompts() == []
    assert await redis.xlen(KEYS.local_prompts) == 0


async def test_a_prompt_that_was_deleted_while_it_waited_is_passed(channel, redis):
    await channel.next_prompts()
    await channel.say(7, "hello")
    (prompt,) = await channel.next_prompts()
    await redis.xdel(KEYS.local_prompts, prompt.receipt)
    assert await channel.pending_prompts() == []


async def test_a_gateway_that_is_stalled_keeps_no_prompt_from_another(channel, redis):
    """Each reads all of them, in order; admission makes one turn of each."""
    other = LocalChannel(redis, KEYS)
    await channel.say(7, "a")
    assert len(await channel.next_prompts()) == 1
    await channel.say(7, "b")
    assert [prompt.message.text for prompt in await other.next_prompts()] == ["a", "b"]
    assert [prompt.message.text for prompt in await channel.next_prompts()] == ["b"]


async def test_what_is_pending_is_not_read_twice(channel):
    await channel.say(7, "a")
    assert len(await channel.pending_prompts()) == 1
    await channel.say(7, "b")
    assert [prompt.message.text for prompt in await channel.next_prompts()] == ["b"]


async def test_a_nonce_makes_one_message(channel):
    first = await channel.post(reply("a", "n1"))
    second = await channel.post(reply("a", "n1"))
    assert (first.is_new, second.is_new) == (True, False)
    assert first.message_id == second.message_id
    assert len(await channel.messages(7)) == 1


async def test_a_nonce_of_a_deleted_message_makes_none(channel):
    posted = await channel.post(reply("a", "n1"))
    assert await channel.delete(7, posted.message_id)
    assert (await channel.post(reply("a", "n1"))).message_id == 0
    assert await channel.messages(7) == []


async def test_ids_grow_over_all_channels(channel):
    ids = [
        (await channel.post(reply("a", f"n{number}", channel_id=number % 3))).message_id
        for number in range(200)
    ]
    assert ids == sorted(set(ids))


async def test_a_message_is_edited_and_deleted_in_place(channel):
    first = (await channel.post(reply("a", "n1"))).message_id
    await channel.post(reply("b", "n2"))
    assert await channel.edit(7, first, "x")
    assert [(message.text, message.edits) for message in await channel.messages(7)] == [
        ("x", 1),
        ("b", 0),
    ]
    assert await channel.delete(7, first)
    assert not await channel.delete(7, first)
    assert not await channel.edit(7, first, "y")


async def test_an_edit_says_what_the_message_is_from_now_on(channel):
    first = (await channel.post(reply("a", "n1"))).message_id
    await channel.edit(7, first, "It failed.", is_notice=True)
    (message,) = await channel.messages(7)
    assert message.is_notice


async def test_a_watcher_sees_what_happens(channel):
    posted = await channel.post(reply("a", "n1"))
    await channel.typing(7)
    assert await channel.is_typing(7)
    await channel.edit(7, posted.message_id, "b")
    await channel.delete(7, posted.message_id)
    changes = []
    async with asyncio.timeout(5), aclosing(channel.watch(7)) as watching:
        async for change in watching:
            changes.append(change)
            if change.kind is ChangeKind.DELETED:
                break
    assert [change.kind for change in changes] == [
        ChangeKind.POSTED,
        ChangeKind.TYPING,
        ChangeKind.EDITED,
        ChangeKind.DELETED,
    ]
    assert changes[2].message is not None
    assert changes[2].message.text == "b"
    assert changes[3].message is None


async def test_an_answer_ends_the_typing_sign(channel):
    await channel.typing(7)
    await channel.post(reply("a", "n1"))
    assert not await channel.is_typing(7)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (reply("x" * 2001, "n"), "2000 code points"),
        (reply("  ", "n"), "needs text"),
        (LocalMessage(channel_id=7, user_id=0, text="a"), "needs a nonce"),
    ],
    ids=["too long", "blank", "no nonce"],
)
async def test_what_discord_would_refuse_is_refused(channel, message, why):
    with pytest.raises(ValueError, match=why):
        await channel.post(message)
    with pytest.raises(ValueError, match="2000 code points"):
        await channel.edit(7, 1, "x" * 2001)


async def test_a_limit_is_counted_in_code_points(channel):
    assert (await channel.post(reply("🎉" * 2000, "n"))).is_new


async def test_no_key_lives_for_ever(channel, redis):
    await channel.say(7, "hello")
    await channel.next_prompts()
    await channel.post(reply("a", "n1"))
    await channel.typing(7)
    for key in await redis.keys("*"):
        assert await redis.pttl(key) > 0, key


async def test_a_killed_server_forgets_no_message(server):
    async with aclosing(connect(server.url)) as client:
        channel = LocalChannel(client, KEYS)
        await client.flushall()
        await channel.say(7, "hello")
        await channel.post(reply("a", "n1"))
        server.kill()
        server.start()
        assert [message.text for message in await channel.messages(7)] == ["hello", "a"]

"""What was said in a channel is forgotten with whose it is, long after its turns are over."""

from typing import Any

import pytest

from gateway.edges.channel_memory import ChannelMemory
from gateway.front import Prompt
from shared.edges.forgetting import Forgetter, Kind, Subject
from shared.edges.history import ChannelHistory
from shared.edges.queue import TurnQueue
from shared.history import Remembered, owner_of
from shared.keys import Keys
from shared.turns import Front, Route

USER, OTHER = 187_001_234_567_890_123, 187_001_234_567_890_777
GUILD = 287_001_234_567_890_123
CHANNEL = 387_001_234_567_890_123


@pytest.fixture
def forgetter(client: Any, keys: Keys, queue: TurnQueue) -> Forgetter:
    return Forgetter(client, keys, queue)


def route(channel: int, guild: int | None, user: int) -> Route:
    return Route(front=Front.DISCORD, channel_id=channel, user_id=user, guild_id=guild, reply_to=8)


async def talk(redis: Any, keys: Keys, channel: int, guild: int | None, user: int) -> None:
    """A question, our answer, and what it noted; the turn is long over, and its record is gone."""
    memory, history = ChannelMemory(ChannelHistory(redis, keys)), ChannelHistory(redis, keys)
    asked = Prompt(
        front=Front.DISCORD,
        message_id=8,
        channel_id=channel,
        user_id=user,
        guild_id=guild,
        text="private words",
        mentions_bot=True,
        replied=Remembered(id=7, user_id=0, text="what it answers", is_own=True),
    )
    await memory.seen(asked)
    await memory.said(route(channel, guild, user), 9, "private words, repeated")
    owner = owner_of(guild, user)
    await history.note(channel, ["what they want"], hours=24, owner=owner)


async def kept(redis: Any, keys: Keys, channel: int) -> list[str]:
    history = ChannelHistory(redis, keys)
    said = [one.text for one in await history.read(channel, before=1 << 62)]
    return said + await history.notes(channel)


ALL = ["what it answers", "private words", "private words, repeated", "what they want"]


@pytest.mark.parametrize(
    ("subject", "guild", "left"),
    [
        pytest.param(Subject(Kind.GUILD, GUILD), GUILD, [], id="guild"),
        pytest.param(Subject(Kind.GUILD, 7), 7, [], id="local guild"),
        pytest.param(Subject(Kind.USER, USER), None, [], id="direct messages"),
        pytest.param(
            Subject(Kind.USER, USER), GUILD, [ALL[0], *ALL[2:]], id="a guild keeps what is its own"
        ),
    ],
)
async def test_what_was_said_in_a_channel_goes_with_whose_it_is(
    forgetter: Forgetter,
    keys: Keys,
    client: Any,
    subject: Subject,
    guild: int | None,
    left: list[str],
):
    await talk(client, keys, CHANNEL, guild, USER)
    await talk(client, keys, CHANNEL + 1, guild and guild + 1, OTHER)
    # Of an older version, which noted no owner: the channel is known by what came later.
    await ChannelHistory(client, keys).remember(CHANNEL, Remembered(id=6, user_id=0, text="old"))
    await client.rpush(keys.details(CHANNEL), "an old note")
    await forgetter.forget(subject)
    assert await kept(client, keys, CHANNEL) == (left and ["old", *left, "an old note"])
    assert await kept(client, keys, CHANNEL + 1) == ALL
    assert await client.exists(keys.history(CHANNEL), keys.details(CHANNEL)) == (2 if left else 0)


async def test_nobody_owns_a_channel_by_what_they_write(
    forgetter: Forgetter, keys: Keys, client: Any
):
    claims = f'"owner":"user:{USER}"'
    for owner in ("", owner_of(GUILD, OTHER)):
        said = Remembered(id=1, user_id=OTHER, text=claims, owner=owner)
        await ChannelHistory(client, keys).remember(CHANNEL, said)
        other = Remembered(id=2, user_id=OTHER, text="of the guild", owner=owner)
        await ChannelHistory(client, keys).remember(CHANNEL, other)
        await ChannelHistory(client, keys).note(CHANNEL, [claims, "kept"], hours=1, owner=owner)
        await forgetter.forget(Subject(Kind.USER, USER))
    assert await kept(client, keys, CHANNEL) == ["of the guild", "kept", "kept"]

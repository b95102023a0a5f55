"""discord.py, which knows nothing of us, takes the fake for Discord.

hikari does so in `test_discord_front.py`. A fake that two foreign clients accept is held to Discord
by what they demand, not by what we believe.
"""

import asyncio
import warnings
from collections.abc import AsyncIterator

import pytest
import yarl

from ops.rehearsal.discord.faults import Fault, Stage
from ops.rehearsal.discord.limits import Rates
from ops.rehearsal.discord.server import FakeDiscord
from ops.rehearsal.discord.world import Draft
from tests.support.discord import running_discord

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it imports audioop
    import discord


class Client(discord.Client):
    """discord.py's own client, remembering what it saw."""

    def __init__(self) -> None:
        intents = discord.Intents.none()
        intents.guilds = True
        intents.messages = True
        super().__init__(intents=intents)
        self.is_up = asyncio.Event()
        self.seen: list[discord.Message] = []
        self.edited: list[int] = []
        self.resumed = asyncio.Event()

    async def on_ready(self) -> None:
        self.is_up.set()

    async def on_message(self, message: discord.Message) -> None:
        self.seen.append(message)

    async def on_raw_message_edit(self, payload: discord.RawMessageUpdateEvent) -> None:
        self.edited.append(payload.message_id)

    async def on_resumed(self) -> None:
        self.resumed.set()

    async def saw(self, count: int) -> list[str]:
        async with asyncio.timeout(15):
            while len(self.seen) < count:
                await asyncio.sleep(0.01)
        return [message.content for message in self.seen]


RATES = Rates(channel_limit=5, channel_period_s=1.0)


@pytest.fixture
async def fake() -> AsyncIterator[FakeDiscord]:
    async with running_discord(RATES) as running:
        running.world.add_channel(running.world.add_guild().id)
        running.world.add_user("ann", user_id=5)
        yield running


@pytest.fixture
async def client(fake: FakeDiscord, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    # It has no setting for the address; these two attributes are where others point it elsewhere.
    monkeypatch.setattr(discord.http.Route, "BASE", fake.rest_url)
    socket_url = yarl.URL(fake.socket_url)
    monkeypatch.setattr(discord.gateway.DiscordWebSocket, "DEFAULT_GATEWAY", socket_url)
    running = Client()
    async with asyncio.timeout(40), asyncio.TaskGroup() as group:
        group.create_task(running.start(fake.token))
        await running.is_up.wait()
        yield running
        await running.close()


def channel_of(client: Client) -> discord.TextChannel:
    (guild,) = client.guilds
    (channel,) = guild.text_channels
    return channel


async def test_it_connects_receives_answers_edits_and_deletes(fake, client):
    channel = channel_of(client)
    assert client.user is not None
    assert client.user.id == fake.bot.id
    prompt = await fake.say(channel.id, fake.world.users[5], fake.mention("hello"))
    await client.saw(1)
    assert client.user in client.seen[0].mentions
    async with channel.typing():
        answer = await client.seen[0].reply("hi")
    assert [(m.content, m.reply_to) for m in fake.replies(channel.id)] == [("hi", prompt.id)]
    await answer.edit(content="ho")
    assert fake.replies(channel.id)[0].content == "ho"
    history = [message.content async for message in channel.history(limit=5, oldest_first=True)]
    assert history == [fake.mention("hello"), "ho"]
    await answer.delete()
    assert fake.replies(channel.id) == []
    assert client.edited == [answer.id]


async def test_it_resumes_and_hears_what_was_said_meanwhile(fake, client):
    channel = channel_of(client)
    await fake.say(channel.id, fake.world.users[5], fake.mention("before"))
    await client.saw(1)
    await fake.sockets.ask_reconnect()
    await fake.say(channel.id, fake.world.users[5], fake.mention("meanwhile"))
    heard = await client.saw(2)
    assert [text.split()[-1] for text in heard] == ["before", "meanwhile"]
    assert (fake.sockets.resumes, fake.sockets.identifies) == (1, 1)


async def test_it_sees_no_text_that_is_not_meant_for_the_bot(fake, client):
    channel = channel_of(client)
    await fake.say(channel.id, fake.world.users[5], "among people")
    assert await client.saw(1) == [""]


async def test_it_asks_for_the_roles_of_members(fake, client):
    (guild,) = client.guilds
    assert (await guild.fetch_member(5)).get_role(guild.id) is None
    fake.world.roles[guild.id, 5] = (guild.id,)  # the one role that there is: everybody's
    assert (await guild.fetch_member(5)).get_role(guild.id) is not None
    fake.world.left.add((guild.id, 5))
    with pytest.raises(discord.NotFound) as gone:
        await guild.fetch_member(5)
    assert gone.value.code == 10007


async def test_its_own_nonces_make_one_message_when_an_answer_is_lost(fake, client):
    channel = channel_of(client)
    fake.faults.add(Fault(stage=Stage.AFTER, status=502))
    await channel.send("once")
    assert [message.content for message in fake.replies(channel.id)] == ["once"]


async def test_it_understands_refusals(fake, client):
    channel = channel_of(client)
    with pytest.raises(discord.HTTPException) as long:
        await channel.send("x" * 2001)
    assert (long.value.status, long.value.code) == (400, 50035)
    fake.world.channels[channel.id].denied.add("send")
    with pytest.raises(discord.Forbidden) as forbidden:
        await channel.send("hi")
    assert forbidden.value.code == 50013


async def test_it_lives_with_the_rate_limits(fake, client):
    channel = channel_of(client)
    fake.faults.add(Fault(retry_after_s=0.05))
    fake.faults.add(Fault(retry_after_s=0.05, scope="global"))
    for number in range(7):
        await channel.send(str(number))
    assert [m.content for m in fake.replies(channel.id)] == [str(n) for n in range(7)]


async def test_it_gives_up_on_a_wrong_token(fake, monkeypatch):
    monkeypatch.setattr(discord.http.Route, "BASE", fake.rest_url)
    client = Client()
    with pytest.raises(discord.LoginFailure):
        await client.login("wrong")
    await client.close()


def test_a_person_may_write_what_a_bot_may(fake):
    (channel_id,) = fake.world.channels
    message, is_new = fake.world.post(5, channel_id, Draft(content="hello"))
    assert is_new
    assert fake.replies(channel_id) == []
    assert message.author_id == 5


async def test_a_webhook_speaks_under_any_name_and_changes_its_own(fake, client):
    (channel_id,) = fake.world.channels
    channel = await client.fetch_channel(channel_id)
    hook = await channel.create_webhook(name="turnfleet")
    assert [one.id for one in await channel.webhooks()] == [hook.id]
    said = await hook.send("hello", username="Ada", wait=True)
    assert (said.author.name, said.webhook_id) == ("Ada", hook.id)
    await hook.edit_message(said.id, content="hello again")
    (shown,) = fake.world.shown(channel_id)
    assert (shown.content, shown.shown_name) == ("hello again", "Ada")
    await hook.delete_message(said.id)
    assert fake.world.shown(channel_id) == []


async def test_a_webhook_is_refused_as_discord_refuses(fake, client):
    (channel_id,) = fake.world.channels
    channel = await client.fetch_channel(channel_id)
    hook = await channel.create_webhook(name="turnfleet")
    with pytest.raises(discord.HTTPException) as bad_name:
        await hook.send("hello", username="Clyde", wait=True)
    fake.webhooks.forget(hook.id)
    with pytest.raises(discord.NotFound) as gone:
        await hook.send("hello", wait=True)
    fake.world.channels[channel_id].denied.add("webhooks")
    with pytest.raises(discord.Forbidden) as denied:
        await channel.create_webhook(name="turnfleet")
    codes = [one.value.code for one in (bad_name, gone, denied)]
    assert codes == [50035, 10015, 50013]

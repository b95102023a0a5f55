"""The Discord front against the fake: sockets that die, answers that are lost, refusals."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest

from gateway.edges.discord import NOT_CONNECTED_S, DiscordFront
from gateway.edges.discord_connection import (
    DiscordOptions,
)
from gateway.front import (
    Echo,
    FrontEvent,
    OutgoingMessage,
    Prompt,
    Refusal,
    Refused,
    Sent,
    Unavailable,
)
from ops.rehearsal.discord.faults import Fault, Stage
from ops.rehearsal.discord.limits import Rates
from ops.rehearsal.discord.server import FakeDiscord
from shared.errors import ConfigError
from tests.support.discord import WIDE, MemoryMarks, running_discord


class Bot:
    """A front, listening."""

    def __init__(self, front: DiscordFront, discord: FakeDiscord) -> None:
        self.front = front
        self.events: list[FrontEvent] = []
        guild = next(iter(discord.world.guilds.values()))
        self.channel_id = guild.channels[0]

    async def listen(self) -> None:
        async with aclosing(self.front.events()) as events:  # type: ignore[type-var]  # a generator
            async for event in events:
                self.events.append(event)
                if isinstance(event, Prompt):
                    await self.front.handled(event)

    def prompts(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Prompt)]

    async def heard(self, count: int) -> list[str]:
        """Waits for so many different prompts."""
        async with asyncio.timeout(20):
            while (
                len({event.message_id for event in self.events if isinstance(event, Prompt)})
                < count
            ):
                await asyncio.sleep(0.01)
        return self.prompts()

    async def send(self, text: str = "hi", nonce: str = "n1", **facts: object) -> object:
        given: dict[str, object] = {"channel_id": self.channel_id, "text": text, "nonce": nonce}
        return await self.front.send(OutgoingMessage(**(given | facts)))  # type: ignore[arg-type]  # by name


@asynccontextmanager
async def running_bot(discord: FakeDiscord, marks: MemoryMarks | None = None) -> AsyncIterator[Bot]:
    options = DiscordOptions(token=discord.token, rest_url=discord.rest_url)
    front = DiscordFront(options, marks or MemoryMarks())
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        await front.connect()
        bot = Bot(front, discord)
        group.create_task(bot.listen())
        yield bot
        await front.close()


@pytest.fixture
async def discord() -> AsyncIterator[FakeDiscord]:
    async with running_discord() as running:
        guild = running.world.add_guild()
        running.world.add_channel(guild.id)
        running.world.add_user("ann", user_id=5)
        yield running


@pytest.fixture
async def bot(discord: FakeDiscord) -> AsyncIterator[Bot]:
    async with running_bot(discord) as running:
        yield running


async def say(discord: FakeDiscord, channel_id: int, text: str) -> int:
    person = discord.world.users[5]
    return (await discord.say(channel_id, person, discord.mention(text))).id


async def reconnect(discord: FakeDiscord) -> None:
    await discord.sockets.ask_reconnect()


async def cut(discord: FakeDiscord) -> None:
    discord.sockets.cut_all()


async def close_4000(discord: FakeDiscord) -> None:
    await discord.sockets.close_all(4000)


async def invalidate(discord: FakeDiscord) -> None:
    await discord.sockets.invalidate(resumable=True)


@pytest.mark.parametrize("trouble", [reconnect, cut, close_4000, invalidate])
async def test_what_is_said_while_the_socket_is_down_is_heard_by_resuming(discord, bot, trouble):
    await say(discord, bot.channel_id, "before")
    await bot.heard(1)
    await trouble(discord)
    await say(discord, bot.channel_id, "meanwhile")
    heard = await bot.heard(2)
    assert [text.split()[-1] for text in heard] == ["before", "meanwhile"]
    assert (discord.sockets.resumes, discord.sockets.identifies) == (1, 1)


async def test_what_is_said_to_a_session_that_is_gone_is_found_in_the_history(discord, bot):
    await say(discord, bot.channel_id, "before")
    await bot.heard(1)
    discord.sockets.sessions.clear()
    discord.sockets.cut_all()
    await say(discord, bot.channel_id, "meanwhile")
    assert (await bot.heard(2))[-1].endswith("meanwhile")
    assert discord.sockets.identifies == 2


async def test_what_is_said_while_no_gateway_runs_is_found_by_the_next(discord):
    marks = MemoryMarks()
    async with running_bot(discord, marks) as first:
        await say(discord, first.channel_id, "before")
        dm = discord.world.direct_channel(5)
        await discord.say(dm.id, discord.world.users[5], "in private")
        await first.heard(2)
    for number in range(3):
        await say(discord, first.channel_id, f"meanwhile {number}")
    await discord.say(dm.id, discord.world.users[5], "and again")
    async with running_bot(discord, marks) as second:
        await second.heard(6)
        fresh = [event for event in second.events if isinstance(event, Prompt)]
    public = [event for event in fresh if event.guild_id is not None]
    assert [event.text.split(maxsplit=1)[1] for event in public] == [
        "before",
        "meanwhile 0",
        "meanwhile 1",
        "meanwhile 2",
    ]
    assert {event.text for event in fresh if event.guild_id is None} == {"in private", "and again"}
    assert all(event.backfilled for event in fresh)


async def test_a_mark_of_a_clock_that_was_ahead_hides_nothing(discord):
    marks = MemoryMarks()
    marks.alive = time.time_ns() // 1_000_000 + 3_600_000
    await say(discord, next(iter(discord.world.channels)), "meanwhile")
    async with running_bot(discord, marks) as bot:
        assert (await bot.heard(1))[0].endswith("meanwhile")


async def test_a_doubled_event_has_one_message_id(discord, bot):
    message = await discord.say(bot.channel_id, discord.world.users[5], discord.mention("a"))
    await discord.announce(message)
    await say(discord, bot.channel_id, "b")
    await bot.heard(2)
    ids = [event.message_id for event in bot.events if isinstance(event, Prompt)]
    assert ids[0] == ids[1] == message.id


async def test_our_own_message_comes_back_as_an_echo(discord, bot):
    sent = await bot.send(nonce="n7")
    assert isinstance(sent, Sent)
    async with asyncio.timeout(5):
        while not bot.events:
            await asyncio.sleep(0.01)
    echo = Echo(nonce="n7", channel_id=bot.channel_id, message_id=sent.message_id)
    assert bot.events == [echo]


async def test_a_reply_to_the_bot_and_a_private_message_are_heard(discord, bot):
    await bot.send()
    (own,) = discord.replies(bot.channel_id)
    person = discord.world.users[5]
    await discord.say(bot.channel_id, person, "and then?", reply_to=own.id)
    await discord.say(discord.world.direct_channel(5).id, person, "psst")
    await bot.heard(2)
    reply, private = (event for event in bot.events if isinstance(event, Prompt))
    assert reply.replies_to_bot
    assert (private.text, private.guild_id) == ("psst", None)


async def test_nobody_is_pinged_unless_it_is_allowed(discord, bot):
    await bot.send("<@5> and @everyone", "n1")
    await bot.send("<@5>", "n2", may_ping=(5,))
    first, second = discord.replies(bot.channel_id)
    assert (first.mentions, first.pings) == ((5,), ())
    assert second.pings == (5,)
    await bot.front.edit(bot.channel_id, first.id, "<@5> again")
    allowed = [call.body["allowed_mentions"] for call in discord.calls if call.method != "GET"]
    assert allowed == [
        {"parse": [], "users": []},
        {"parse": [], "users": ["5"]},
        {"parse": []},
    ]


@pytest.mark.parametrize(
    "fault",
    [
        Fault(stage=Stage.AFTER, status=502),
        Fault(stage=Stage.AFTER, drop=True),
        Fault(stage=Stage.BEFORE, drop=True),
        Fault(stage=Stage.BEFORE, status=503),
        Fault(status=429, is_html=True),
        Fault(status=400, code=40062),
        Fault(status=418),
    ],
    ids=["502 after", "cut after", "cut before", "503", "cloudflare", "overload", "teapot"],
)
async def test_a_doubtful_answer_is_asked_again_and_makes_one_message(discord, bot, fault):
    discord.faults.add(fault)
    assert isinstance(await bot.send(), Unavailable)
    assert isinstance(await bot.send(), Sent)
    assert [message.content for message in discord.replies(bot.channel_id)] == ["hi"]


@pytest.mark.parametrize(
    ("status", "code", "refusal"),
    [
        (403, 50013, Refusal.CHANNEL),
        (403, 50001, Refusal.CHANNEL),
        (404, 10003, Refusal.CHANNEL),
        (400, 160005, Refusal.CHANNEL),
        (403, 0, Refusal.CHANNEL),
        (403, 50007, Refusal.PERSON),
        (400, 50035, Refusal.CONTENT),
        (400, 200000, Refusal.MODERATED),
        (413, 0, Refusal.FILES),
        (400, 0, Refusal.CONTENT),
        (404, 10008, Refusal.GONE),
        (403, 160002, Refusal.REFERENCE),
        (400, 30046, Refusal.FROZEN),
        (401, 0, Refusal.TOKEN),
    ],
)
async def test_a_refusal_says_what_it_means_for_the_reply(discord, bot, status, code, refusal):
    discord.faults.add(Fault(status=status, code=code))
    outcome = await bot.send()
    assert outcome == Refused(refusal=refusal, status=status, code=code)


async def test_a_short_rate_limit_is_waited_for_and_a_long_one_told(discord, bot):
    discord.faults.add(Fault(retry_after_s=0.05))
    assert isinstance(await bot.send(nonce="n1"), Sent)
    discord.faults.add(Fault(retry_after_s=45.0))
    outcome = await bot.send(nonce="n2")
    assert isinstance(outcome, Unavailable)
    assert outcome.reason == "rate_limited"
    assert outcome.retry_after_s == pytest.approx(45.0, abs=1.0)


async def test_honest_limits_are_kept_without_being_told():
    rates = Rates(channel_limit=5, channel_period_s=1.0, global_per_s=50)
    async with running_discord(rates) as discord:
        discord.world.add_channel(discord.world.add_guild().id)
        async with running_bot(discord) as bot:
            for number in range(12):
                assert isinstance(await bot.send(str(number), f"n{number}"), Sent)
        assert [call.status for call in discord.calls if call.method == "POST"] == [200] * 12
        assert [message.content for message in discord.replies(bot.channel_id)] == [
            str(number) for number in range(12)
        ]


async def test_a_silent_history_or_typing_sign_does_no_harm(discord, bot):
    discord.faults.add(Fault(method="GET", status=500))
    assert isinstance(await bot.front.history(bot.channel_id, after=0, limit=5), Unavailable)
    discord.faults.add(Fault(path="/typing", status=403, code=50013))
    await bot.front.typing(bot.channel_id)


async def test_before_the_connection_everything_is_to_be_asked_again():
    front = DiscordFront(DiscordOptions(token="x", rest_url="http://127.0.0.1:1"), MemoryMarks())
    message = OutgoingMessage(channel_id=1, text="hi", nonce="n1")
    assert await front.send(message) == Unavailable(
        reason="not_connected", retry_after_s=NOT_CONNECTED_S
    )
    assert isinstance(await front.history(1, after=0, limit=1), Unavailable)
    await front.typing(1)
    await front.close()


async def test_a_refused_token_is_an_error_of_the_operator(discord):
    discord.token = "another"
    front = DiscordFront(DiscordOptions(token="MTIz.x.y", rest_url=discord.rest_url), MemoryMarks())
    with pytest.raises(ConfigError, match="TURNFLEET_DISCORD_TOKEN"):
        await front.connect()
    await front.close()


async def test_a_discord_that_is_away_is_waited_for():
    async with running_discord(WIDE) as discord:
        discord.world.add_channel(discord.world.add_guild().id)
        discord.faults.add(Fault(method="GET", path="/gateway/bot", status=503))
        async with running_bot(discord) as bot:
            assert bot.front.bot_id == discord.bot.id


async def test_an_intent_that_was_taken_away_ends_the_connection_for_good(discord):
    front = DiscordFront(
        DiscordOptions(token=discord.token, rest_url=discord.rest_url), MemoryMarks()
    )
    await front.connect()

    async def listen() -> None:
        async for _ in front.events():
            pass

    async with asyncio.timeout(20):
        listening = asyncio.ensure_future(listen())
        await asyncio.sleep(0)
        await discord.sockets.close_all(4014)
        with pytest.raises(ConfigError, match="developer portal"):
            await listening
    await front.close()


async def test_a_session_that_discord_ends_is_begun_anew(discord, bot):
    await say(discord, bot.channel_id, "before")
    await bot.heard(1)
    await discord.sockets.invalidate(resumable=False)
    await say(discord, bot.channel_id, "meanwhile")
    heard = await bot.heard(2)
    assert heard[-1].endswith("meanwhile")
    assert (discord.sockets.resumes, discord.sockets.identifies) == (0, 2)


async def test_a_socket_that_is_dead_without_a_word_is_noticed_and_resumed(discord):
    discord.sockets.heartbeat_ms = 400
    async with running_bot(discord) as bot:
        await say(discord, bot.channel_id, "before")
        await bot.heard(1)
        discord.sockets.is_deaf = True
        async with asyncio.timeout(15):
            while not discord.sockets.resumes:
                await asyncio.sleep(0.05)
        discord.sockets.is_deaf = False
        await say(discord, bot.channel_id, "after")
        assert (await bot.heard(2))[-1].endswith("after")


async def test_the_mark_of_life_waits_for_what_is_not_taken(discord):
    marks = MemoryMarks()
    options = DiscordOptions(token=discord.token, rest_url=discord.rest_url)
    front = DiscordFront(options, marks, alive_every_s=0.02)
    await front.connect()
    channel_id = next(iter(discord.world.channels))

    async def moves() -> bool:
        before = marks.alive
        await asyncio.sleep(0.15)
        return marks.alive != before

    async with asyncio.timeout(20), aclosing(front.events()) as events:  # type: ignore[type-var]  # a generator
        assert await moves()
        await say(discord, channel_id, "hello")
        prompt = await anext(aiter(events))
        assert isinstance(prompt, Prompt)
        assert not await moves()
        await front.handled(prompt)
        assert await moves()
    await front.close()


async def test_a_connection_that_ends_for_a_foreign_reason_is_opened_again(discord, bot):
    """hikari gives up after some closes; what was said meanwhile is found all the same."""
    await say(discord, bot.channel_id, "before")
    await bot.heard(1)
    await discord.sockets.close_all(4003)
    discord.sockets.sessions.clear()
    await say(discord, bot.channel_id, "meanwhile")
    assert (await bot.heard(2))[-1].endswith("meanwhile")
    assert discord.sockets.identifies == 2

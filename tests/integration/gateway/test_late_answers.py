"""Discord took a first answer, and nobody heard of it: what follows goes where it is seen."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from gateway.asks import Answers, Ask, AskKind, Field, Form
from gateway.edges.discord import DiscordFront
from gateway.edges.discord_connection import DiscordOptions
from gateway.front import Sent
from gateway.interactions.desk import Desk, Entry
from ops.rehearsal.discord.asked import Asked
from ops.rehearsal.discord.faults import Fault, Stage
from ops.rehearsal.discord.interaction_rules import DEFER, SAY, SHOW_FORM
from ops.rehearsal.discord.server import FakeDiscord
from ops.rehearsal.discord.world import Draft
from shared.i18n import load_texts
from tests.support.discord import MemoryMarks, running_discord

FIRST = "/callback"
SLOW = Fault(path=FIRST, stage=Stage.AFTER, delay_s=3.5)
LOST = Fault(path=FIRST, stage=Stage.AFTER, drop=True)
BROKEN = Fault(path=FIRST, status=503)
"""This one was not taken."""
FORM = Form(custom_id="x", title="t", fields=(Field(key="k", label="l"),))

Act = Callable[[Ask, Answers], Awaitable[None]]


class Bench:
    """A gateway's front and desk, and what its commands and buttons do."""

    def __init__(self, discord: FakeDiscord) -> None:
        self.discord = discord
        self.front = DiscordFront(
            DiscordOptions(token=discord.token, rest_url=discord.rest_url), MemoryMarks()
        )
        self.channel = discord.world.add_channel(discord.world.add_guild().id).id
        self.person = discord.world.add_user("ann")
        self._taken = asyncio.Event()

    def does(self, act: Act, *, waits: bool = True) -> None:
        entry = Entry(act=act, waits=waits)
        kinds = (AskKind.COMMAND, AskKind.BUTTON)
        desk = Desk({(kind, "stop"): entry for kind in kinds}, load_texts())

        async def take(ask: Ask, answers: Answers) -> None:
            await desk.take(ask, answers)
            self._taken.set()

        self.front.answer(take)

    async def command(self) -> Asked:
        asked = await self.discord.interactions.command(self.channel, self.person, "stop", {})
        return await self._ended(asked)

    async def press(self) -> Asked:
        button = {"type": 2, "style": 2, "custom_id": "stop:m1", "label": "Stop"}
        rows = ({"type": 1, "components": [button]},)
        message = self.discord.world.post(
            self.discord.bot.id, self.channel, Draft(content="the answer", components=rows)
        )[0]
        asked = await self.discord.interactions.press(message, self.person, "stop:m1")
        return await self._ended(asked)

    async def _ended(self, asked: Asked) -> Asked:
        async with asyncio.timeout(10):
            await self._taken.wait()
        return asked


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with running_discord() as discord:
        bench = Bench(discord)
        await bench.front.connect()
        yield bench
        await bench.front.close()


@pytest.mark.parametrize(
    ("fault", "first"),
    [
        pytest.param(SLOW, DEFER, id="a slow answer"),
        pytest.param(LOST, DEFER, id="an answer that is lost"),
        pytest.param(BROKEN, SAY, id="an error"),
    ],
)
async def test_who_waits_hears_what_was_done(bench: Bench, fault: Fault, first: int):
    done: list[str] = []

    async def act(ask: Ask, answers: Answers) -> None:
        done.append(ask.name)
        await answers.whisper("done")
        await answers.whisper("and more")

    bench.does(act)
    bench.discord.faults.add(fault)
    asked = await bench.command()
    assert done == ["stop"]
    assert asked.first == first
    assert asked.texts == ["done", "and more"]


@pytest.mark.parametrize("path", [FIRST, "/webhooks/"], ids=["first", "later"])
async def test_a_rate_limit_is_waited_for(bench: Bench, path: str):
    async def act(_ask: Ask, answers: Answers) -> None:
        await answers.whisper("done")

    bench.does(act)
    bench.discord.faults.add(Fault(method="POST", path=path, retry_after_s=1.2))
    bench.discord.faults.add(Fault(method="PATCH", path=path, retry_after_s=1.2))
    asked = await bench.command()
    assert (asked.first, asked.texts) == (DEFER, ["done"])


@pytest.mark.parametrize("fault", [LOST, BROKEN], ids=["taken", "not taken"])
async def test_a_button_goes_although_nobody_heard_that_its_press_was_held(
    bench: Bench, fault: Fault
):
    async def act(_ask: Ask, answers: Answers) -> None:
        await answers.hold()
        await answers.unbutton()
        await answers.whisper("done")

    bench.does(act, waits=False)
    bench.discord.faults.add(fault)
    asked = await bench.press()
    assert asked.message is not None
    assert asked.message.components == ()
    assert asked.message.content == "the answer"
    assert asked.texts == ["done"]


@pytest.mark.parametrize("fault", [LOST, BROKEN], ids=["taken", "not taken"])
async def test_a_window_that_may_stand_there_is_followed_by_the_text(bench: Bench, fault: Fault):
    async def act(_ask: Ask, answers: Answers) -> None:
        if not await answers.form(FORM):
            await answers.whisper("in words")

    bench.does(act, waits=False)
    bench.discord.faults.add(fault)
    asked = await bench.command()
    assert (asked.form is not None) == (fault is LOST)
    assert asked.first == (SHOW_FORM if fault is LOST else SAY)
    assert asked.texts == ["in words"]


async def test_what_was_said_to_all_is_followed_by_a_whisper(bench: Bench):
    async def act(_ask: Ask, answers: Answers) -> None:
        assert not isinstance(await answers.say("> why?"), Sent)
        await answers.whisper("the store is away")

    bench.does(act, waits=False)
    bench.discord.faults.add(LOST)
    asked = await bench.command()
    assert [one.content for one in bench.discord.replies(bench.channel)] == ["> why?"]
    assert asked.texts == ["the store is away"]

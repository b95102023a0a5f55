"""Lists of roles hold for what was said while no gateway listened: history tells no roles."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from gateway.edges.discord import DiscordFront
from gateway.edges.discord_connection import DiscordOptions
from gateway.front import Prompt, Unavailable
from gateway.intake import Intake
from gateway.notices import Notices
from gateway.typist import Typist
from ops.rehearsal.discord.faults import Fault
from ops.rehearsal.discord.server import FakeDiscord
from shared.configuration.choices import Access, Settled
from shared.turns import Front
from tests.support.channel import ManualClock, MemoryBudget
from tests.support.discord import MemoryMarks, running_discord
from tests.support.intake import TARGET, TEXTS, Admissions, Fixed

ANN = 5
ALLOWED, DENIED = 70, 80
ONLY_ALLOWED = Access(allow_roles=(ALLOWED,))
NO_DENIED = Access(deny_roles=(DENIED,))


@pytest.fixture
async def discord() -> AsyncIterator[FakeDiscord]:
    async with running_discord() as running:
        running.world.add_channel(running.world.add_guild().id)
        running.world.add_user("ann", user_id=ANN)
        yield running


class House:
    """A fake Discord with one channel, and what its gateways have in common."""

    def __init__(self, discord: FakeDiscord, access: Access | None) -> None:
        self.discord = discord
        self.marks = MemoryMarks()
        self.admissions = Admissions()
        self.budget = MemoryBudget(ManualClock())
        lists = () if access is None else (access,)
        self._fixed = Fixed(Settled(target=TARGET, access=lists))
        self.channel_id = next(iter(discord.world.channels))
        self.guild_id = next(iter(discord.world.guilds))

    @asynccontextmanager
    async def gateway(self) -> AsyncIterator[DiscordFront]:
        """A gateway until the block ends."""
        options = DiscordOptions(token=self.discord.token, rest_url=self.discord.rest_url)
        front = DiscordFront(options, self.marks, budget=self.budget, alive_every_s=0.02)
        typist = Typist()
        intake = Intake(
            front,
            self.admissions.admit,
            self.admissions,
            typist,
            Notices(TEXTS),
            self._fixed,
            self._fixed,
            self._fixed,
            absorb=lambda _: None,
            heed=_heed_nothing,
            now_ms=lambda: 1,
            sleep=asyncio.sleep,
        )
        async with asyncio.timeout(30), typist.running(), asyncio.TaskGroup() as group:
            await front.connect()
            group.create_task(intake.run())
            yield front
            await front.close()

    async def say(self, text: str = "hello") -> str:
        """The id of the turn that it becomes."""
        person = self.discord.world.users[ANN]
        said = await self.discord.say(self.channel_id, person, self.discord.mention(text))
        return f"m{said.id}"

    async def settled(self) -> None:
        """Waits until everything that was said is taken: then the mark of life moves again."""
        await asyncio.sleep(0.2)
        async with asyncio.timeout(15):
            before = self.marks.alive
            while self.marks.alive == before:
                await asyncio.sleep(0.01)

    async def said_while_nobody_listened(self, count: int = 1) -> list[str]:
        """Has prompts found in the history."""
        async with self.gateway():
            await self.settled()
        said = [await self.say(f"number {number}") for number in range(count)]
        async with self.gateway():
            await self.settled()
        return said

    @property
    def admitted(self) -> list[str]:
        return [request.turn_id for request in self.admissions.requests]

    @property
    def asked_members(self) -> int:
        return sum("/members/" in call.path for call in self.discord.calls)


async def _heed_nothing(*_: object) -> None:
    return


async def test_who_has_the_role_is_answered_and_asked_for_once(discord):
    house = House(discord, ONLY_ALLOWED)
    discord.world.roles[house.guild_id, ANN] = (ALLOWED,)
    asked = len(house.budget.asked)
    said = await house.said_while_nobody_listened(3)
    assert (house.admitted, house.asked_members) == (said, 1)
    assert len(house.budget.asked) > asked


async def test_who_wrote_in_several_channels_is_asked_for_once(discord):
    house = House(discord, ONLY_ALLOWED)
    discord.world.roles[house.guild_id, ANN] = (ALLOWED,)
    async with house.gateway():
        await house.settled()
    for _ in range(3):
        house.channel_id = discord.world.add_channel(house.guild_id).id
        await house.say()
    async with house.gateway():
        await house.settled()
    assert (len(house.admitted), house.asked_members) == (3, 1)


async def test_who_has_a_denied_role_is_not_answered(discord):
    house = House(discord, NO_DENIED)
    discord.world.roles[house.guild_id, ANN] = (DENIED,)
    await house.said_while_nobody_listened()
    assert (house.admitted, discord.replies(house.channel_id)) == ([], [])


async def test_who_was_refused_live_is_not_answered_by_the_next_session(discord):
    house = House(discord, NO_DENIED)
    discord.world.roles[house.guild_id, ANN] = (DENIED,)
    async with house.gateway():
        await house.say()
        await house.settled()
    assert house.asked_members == 0
    async with house.gateway():
        await house.settled()
    assert (house.admitted, house.asked_members) == ([], 1)


async def test_who_has_left_the_server_is_declined(discord):
    house = House(discord, NO_DENIED)
    discord.world.left.add((house.guild_id, ANN))
    said = await house.said_while_nobody_listened()
    assert (house.admitted, house.admissions.declined) == ([], said)
    assert discord.replies(house.channel_id) == []


async def test_where_the_roles_cannot_be_asked_for_the_prompt_comes_again(discord):
    house = House(discord, ONLY_ALLOWED)
    discord.world.roles[house.guild_id, ANN] = (ALLOWED,)
    # After a server's error the client asks again by itself; after this it does not.
    discord.faults.add(Fault(method="GET", path="/members/", status=409))
    said = await house.said_while_nobody_listened()
    assert (house.admitted, house.admissions.declined) == (said, [])
    assert house.asked_members == 2


async def test_what_came_later_in_a_channel_waits_for_roles_that_cannot_be_asked_for(discord):
    house = House(discord, ONLY_ALLOWED)
    discord.world.roles[house.guild_id, ANN] = (ALLOWED,)
    async with house.gateway():
        await house.settled()
    said = [await house.say(f"number {number}") for number in range(3)]
    discord.faults.add(Fault(method="GET", path="/members/", status=409))
    async with house.gateway():
        async with asyncio.timeout(10):
            while not house.asked_members:
                await asyncio.sleep(0.01)
        said.append(await house.say("live, with its roles"))
        await house.settled()
    assert list(dict.fromkeys(house.admitted)) == said


async def test_a_command_waits_for_nobody_whose_roles_cannot_be_asked_for(discord):
    """Its channel's history does not have it: a gateway that dies meanwhile would lose it."""
    house = House(discord, ONLY_ALLOWED)
    discord.faults.add(Fault(method="GET", path="/members/", status=409))
    unknown = Prompt(
        front=Front.DISCORD,
        message_id=1,
        channel_id=house.channel_id,
        guild_id=house.guild_id,
        user_id=ANN,
        text="hello",
        roles=None,
    )
    command = msgspec.structs.replace(unknown, message_id=2, turn_id="c2", roles=())
    async with house.gateway() as front:
        assert isinstance(await front.with_roles(unknown), Unavailable)
        assert await front.with_roles(command) == command


@pytest.mark.parametrize("access", [None, Access(allow_users=(ANN,))])
async def test_without_lists_of_roles_nobody_is_asked_for(discord, access):
    house = House(discord, access)
    said = await house.said_while_nobody_listened()
    assert (house.admitted, house.asked_members) == (said, 0)

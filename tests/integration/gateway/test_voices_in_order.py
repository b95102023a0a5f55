"""One channel, two voices: the bot's and a persona's messages stand in the order of their texts.

A webhook has a bucket of its own and no nonce; what keeps the order is that a channel has one
request in flight, whoever speaks.
"""

import asyncio
import random
from collections.abc import AsyncIterator

import msgspec
import pytest

from gateway.delivery.courier import Courier, Echoes
from gateway.edges.discord import DiscordFront
from gateway.edges.discord_connection import DiscordOptions
from gateway.edges.discord_voices import Voices
from gateway.front import Echo
from ops.rehearsal.discord.faults import Fault, Stage
from ops.rehearsal.discord.server import FakeDiscord
from shared.segments import Envelope
from shared.turns import Front, Speaker
from tests.support.delivery import Bench
from tests.support.discord import WIDE, MemoryMarks, running_discord
from tests.support.envelopes import done, failed, text

RUNS, TURNS = 20, 5
ADA = Speaker(name="Ada")
HEADLINE = "It failed."
FAULTS = (
    Fault(path="/webhooks/", stage=Stage.BEFORE, delay_s=0.02),
    Fault(path="/webhooks/", stage=Stage.AFTER, delay_s=0.02),
    Fault(path="/webhooks/", stage=Stage.AFTER, drop=True),
    Fault(path="/webhooks/", stage=Stage.BEFORE, retry_after_s=0.01),
    Fault(path="/messages", stage=Stage.BEFORE, delay_s=0.02),
    Fault(path="/messages", stage=Stage.AFTER, drop=True),
    Fault(path="/messages", stage=Stage.BEFORE, retry_after_s=0.01),
)
Shown = list[tuple[str | None, str]]
"""The name of a persona, or None for the bot, and what is said."""


class Gateway(Bench):
    """A gateway whose front is the real one, with the voices of its turns."""

    def __init__(self, discord: FakeDiscord, front: DiscordFront) -> None:
        super().__init__()
        self.fronts = (Front.DISCORD,)
        self.discord = discord
        self.real = front
        self.echoes = Echoes()
        self.guild = discord.world.add_guild()
        self.ann = discord.world.add_user("ann")
        self.prompts: dict[int, int] = {}

    async def open_channel(self) -> int:
        """A channel in which ann has asked something."""
        channel = self.discord.world.add_channel(self.guild.id).id
        self.prompts[channel] = (await self.discord.say(channel, self.ann, "hello")).id
        return channel

    def courier(self) -> Courier:
        return Courier(
            self.real,
            clock=self.clock,
            echoes=self.echoes,
            jitter=lambda: 1.0,
            voice_of=Voices(self.real, self.clock.now_s).of,
        )

    def spoken(self, envelope: Envelope, channel: int, speaker: Speaker | None) -> Envelope:
        route = msgspec.structs.replace(
            envelope.route,
            front=Front.DISCORD,
            channel_id=channel,
            guild_id=self.guild.id,
            reply_to=self.prompts[channel],
            speaker=speaker,
        )
        return msgspec.structs.replace(envelope, route=route)

    def turn(self, name: str, channel: int, chance: random.Random) -> tuple[list[Envelope], Shown]:
        """A turn of one of the voices, and what it is to show."""
        speaker = chance.choice([ADA, None])
        words = [f"{name} says {number}" for number in range(chance.randrange(1, 4))]
        envelopes = [text(seq, one, turn=name) for seq, one in enumerate(words, start=1)]
        shown: Shown = [(None if speaker is None else speaker.name, one) for one in words]
        if chance.random() < 0.4:
            envelopes.append(failed(len(words), HEADLINE, turn=name))
            shown.append((None, HEADLINE))  # a notice is the bot's own, behind the persona's texts
        else:
            envelopes.append(done(len(words), turn=name))
        return [self.spoken(one, channel, speaker) for one in envelopes], shown

    def shown(self, channel: int) -> Shown:
        return [
            (one.shown_name, one.content.splitlines()[0])
            for one in self.discord.world.shown(channel)[1:]
        ]


@pytest.fixture
async def stage() -> AsyncIterator[Gateway]:
    async with running_discord(WIDE) as discord:
        options = DiscordOptions(token=discord.token, rest_url=discord.rest_url)
        front = DiscordFront(options, MemoryMarks())
        await front.connect()
        made = Gateway(discord, front)

        async def listen() -> None:
            async for event in front.events():
                if isinstance(event, Echo):
                    made.echoes.absorb(event)

        async with asyncio.TaskGroup() as group:
            group.create_task(listen())
            yield made
            await front.close()


async def test_whoever_speaks_a_channel_shows_its_texts_in_order(stage: Gateway):
    for seed in range(RUNS):
        chance = random.Random(seed)
        channel = await stage.open_channel()
        envelopes: list[Envelope] = []
        expected: Shown = []
        for number in range(TURNS):
            made, shown = stage.turn(f"m{seed}00{number}", channel, chance)
            envelopes += made
            expected += shown
        for fault in chance.choices(FAULTS, k=chance.randrange(4)):
            stage.discord.faults.add(fault)
        await stage.deliver(*envelopes)
        stage.discord.faults.clear()
        found = [
            (name, said.partition(" The answer above")[0]) for name, said in stage.shown(channel)
        ]
        assert found == expected, f"seed {seed}"

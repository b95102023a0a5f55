"""Replies that read the same: each is there once, and the journal names its own message."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from gateway.delivery.courier import Courier
from gateway.edges.discord_voices import Voices
from ops.rehearsal.discord.faults import Fault, Stage
from shared.segments import Envelope, SegmentKind
from shared.turns import Speaker
from tests.support.discord import running_discord
from tests.support.discord_bench import DiscordBench
from tests.support.envelopes import done, text

ADA = Speaker(name="Ada")
TRIES = {None: 7, ADA: 1}
"""Failures after which it is looked for: a nonce is trusted for a minute and a half."""


class Bench(DiscordBench):
    """A partition whose turns may have a speaker, and what all of them answer to."""

    asked = 0

    def courier(self) -> Courier:
        return Courier(
            self.front,
            clock=self.clock,
            echoes=self._echoes,
            jitter=lambda: 1.0,
            budget=self.budget,
            voice_of=Voices(self.live, self.clock.now_s).of,
        )

    def turn(self, name: str, speaker: Speaker | None, picture: str | None) -> list[Envelope]:
        """A reply of one message: a picture, or a text that is always the same."""
        where = self.channel.id
        kind = SegmentKind.TEXT if picture is None else SegmentKind.FILE
        file = None if picture is None else "picture.png"
        shown = text(1, "Hello!", turn=name, channel=where, kind=kind, picture=picture, name=file)
        found = [self.routed(one, self.asked) for one in (shown, done(1, turn=name, channel=where))]
        return [
            msgspec.structs.replace(one, route=msgspec.structs.replace(one.route, speaker=speaker))
            for one in found
        ]

    def check(self) -> None:
        """Two messages, each of one turn."""
        there = [one.id for one in self.discord.world.shown(self.channel.id)[1:]]
        slots = [self.journal.slots[name] for name in ("m1", "m2")]
        assert [[slot.message_id for slot in found.values()] for found in slots] == [
            [message_id] for message_id in there
        ]


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with running_discord() as discord:
        bench = Bench(discord)
        bench.fleet.pictures = {"p1": b"one", "p2": b"two"}
        await bench.connect()
        bench.asked = (await discord.say(bench.channel.id, bench.ann, "Hello?")).id
        yield bench
        await bench.leave()


speakers = pytest.mark.parametrize("speaker", [None, ADA], ids=["bot", "persona"])
kinds = pytest.mark.parametrize("pictures", [(None, None), ("p1", "p2")], ids=["text", "picture"])
stages = pytest.mark.parametrize("stage", Stage, ids=["did not arrive", "arrived"])


def path_of(speaker: Speaker | None) -> str:
    return "/messages" if speaker is None else "/webhooks/"


@speakers
@kinds
@stages
async def test_a_reply_is_not_taken_for_the_one_before(bench: Bench, speaker, pictures, stage):
    fault = Fault(path=path_of(speaker), status=502)
    passes = Fault(path=path_of(speaker))
    more = [fault] * (TRIES[speaker] - 1)
    bench.fail(passes, msgspec.structs.replace(fault, stage=stage), *more)
    first, second = (
        bench.turn(name, speaker, picture)
        for name, picture in zip(("m1", "m2"), pictures, strict=True)
    )
    await bench.deliver(*first, *second)
    bench.check()


@speakers
@kinds
@stages
async def test_nor_by_who_comes_after_a_gateway_that_died(bench: Bench, speaker, pictures, stage):
    def is_begun(bench: DiscordBench) -> bool:
        is_there = len(bench.discord.world.shown(bench.channel.id)) == 3
        return is_there if stage is Stage.AFTER else 0 in bench.journal.slots.get("m2", {})

    passes = Fault(path=path_of(speaker))
    bench.fail(passes, msgspec.structs.replace(passes, stage=stage, delay_s=60.0))
    first, second = (
        bench.turn(name, speaker, picture)
        for name, picture in zip(("m1", "m2"), pictures, strict=True)
    )
    await bench.killed_when(is_begun, *first, *second)
    bench.clock.time_s += 200.0  # longer than nonces are trusted
    await bench.deliver()
    bench.check()

"""Personas over the fake Discord: their name, one webhook, and nothing twice without a nonce."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator

import msgspec
import pytest

from gateway.delivery.courier import Courier, Echoes, Letter
from gateway.edges.discord import DiscordFront
from gateway.edges.discord_connection import DiscordOptions
from gateway.edges.discord_voices import HOOK_NAME, Voices
from gateway.front import Refused, Sent
from gateway.steps import Erase, Post, Rewrite, Step, nonce_of
from ops.rehearsal.discord.faults import Fault, Stage
from ops.rehearsal.discord.server import FakeDiscord
from ops.rehearsal.discord.world import Draft
from shared.turns import Front, Route, Speaker
from tests.support.channel import ManualClock
from tests.support.discord import MemoryMarks, running_discord

ADA = Speaker(name="Ada", avatar="https://example.org/ada.png")
RUNS = 200


class Bench:
    def __init__(self, discord: FakeDiscord, front: DiscordFront) -> None:
        self.discord, self.front = discord, front
        self.clock = ManualClock()
        self.guild = discord.world.add_guild()
        self.open_channel()

    def open_channel(self, parent: int | None = None) -> None:
        self.channel = self.discord.world.add_channel(self.guild.id).id
        asker = self.discord.world.add_user("ann")
        said, _ = self.discord.world.post(asker.id, self.channel, Draft(content="a question"))
        self.route = Route(
            front=Front.DISCORD,
            channel_id=self.channel,
            user_id=asker.id,
            guild_id=self.guild.id,
            reply_to=said.id,
            parent_id=parent,
            speaker=ADA,
        )
        self.courier = Courier(
            self.front,
            clock=self.clock,
            echoes=Echoes(),
            jitter=lambda: 1.0,
            voice_of=Voices(self.front, self.clock.now_s).of,
        )

    async def carry(self, step: Step, *, is_notice: bool = False) -> Sent | Refused | None:
        letter = Letter(
            step=step,
            route=self.route,
            expires_s=self.clock.now_s() + 900,
            is_notice=is_notice,
        )
        return await self.courier.carry(letter, _still_ours)

    async def post(self, text: str, slot: int = 0, **changes: int | None) -> int:
        plain = Post(slot=slot, nonce=nonce_of("m1", 1, "c", slot, 0), text=text)
        step = msgspec.structs.replace(plain, **changes)
        outcome = await self.carry(step)
        assert isinstance(outcome, Sent)
        return outcome.message_id

    def shown(self) -> list[tuple[str | None, str]]:
        found = self.discord.world.shown(self.channel)[1:]
        return [(message.shown_name, message.content) for message in found]


async def _still_ours() -> None:
    return


@pytest.fixture
async def front() -> AsyncIterator[tuple[FakeDiscord, DiscordFront]]:
    async with running_discord() as discord:
        options = DiscordOptions(token=discord.token, rest_url=discord.rest_url)
        front = DiscordFront(options, MemoryMarks())
        await front.connect()
        yield discord, front
        await front.close()


@pytest.fixture
def bench(front: tuple[FakeDiscord, DiscordFront]) -> Bench:
    return Bench(*front)


async def test_a_persona_speaks_under_its_name_through_one_webhook(bench: Bench):
    await bench.post("hello")
    await bench.post("again", slot=1)
    bench.courier = Courier(  # after a restart: found, not made once more
        bench.front,
        clock=bench.clock,
        echoes=Echoes(),
        jitter=lambda: 1.0,
        voice_of=Voices(bench.front, bench.clock.now_s).of,
    )
    await bench.post("later", slot=2)
    assert bench.shown() == [("Ada", "hello"), ("Ada", "again"), ("Ada", "later")]
    hooks = [
        one for one in bench.discord.webhooks.hooks.values() if one.channel_id == bench.channel
    ]
    assert [hook.name for hook in hooks] == [HOOK_NAME]
    assert all(not message.pings for message in bench.discord.world.shown(bench.channel))


async def test_nobody_is_pinged_by_a_persona_nor_by_its_edits(bench: Bench):
    everybody = f"@everyone <@{bench.route.user_id}>"
    message_id = await bench.post(everybody)
    await bench.carry(Rewrite(slot=0, message_id=message_id, text=f"{everybody}!"))
    calls = [call for call in bench.discord.calls if "/webhooks/" in call.path and call.body]
    assert calls
    for call in calls[-2:]:
        allowed = call.body["allowed_mentions"]
        assert (allowed.get("parse") or [], allowed.get("users") or []) == ([], [])


async def test_a_notice_is_the_bots_own_and_both_are_edited_and_deleted(bench: Bench):
    first = await bench.post("hello")
    notice = await bench.carry(Post(slot=1, nonce="n2", text="it failed"), is_notice=True)
    assert isinstance(notice, Sent)
    assert bench.shown() == [("Ada", "hello"), (None, "it failed")]
    await bench.carry(Rewrite(slot=0, message_id=first, text="hello again"))
    await bench.carry(Rewrite(slot=1, message_id=notice.message_id, text="it works"))
    assert bench.shown() == [("Ada", "hello again"), (None, "it works")]
    for message_id in (notice.message_id, first):
        assert isinstance(await bench.carry(Erase(slot=0, message_id=message_id)), Sent)
    assert bench.shown() == []


async def test_where_no_webhook_may_be_made_the_bot_speaks_itself(bench: Bench):
    bench.discord.world.channels[bench.channel].denied.add("webhooks")
    await bench.post("hello")
    assert bench.shown() == [(None, "hello")]


async def test_a_webhook_that_somebody_deleted_is_made_once_more(bench: Bench):
    await bench.post("hello")
    for hook in list(bench.discord.webhooks.hooks):
        bench.discord.webhooks.forget(hook)
    await bench.post("again", slot=1)
    assert bench.shown() == [("Ada", "hello"), ("Ada", "again")]


async def test_a_message_of_a_webhook_that_is_gone_does_not_close_the_channel(bench: Bench):
    message_id = await bench.post("hello")
    for hook in list(bench.discord.webhooks.hooks):
        bench.discord.webhooks.forget(hook)
    bench.discord.world.channels[bench.channel].denied.add("webhooks")
    outcome = await bench.carry(Erase(slot=0, message_id=message_id))
    assert isinstance(outcome, Refused)
    assert outcome.refusal != "channel"


async def test_a_thread_is_reached_through_its_parents_webhook(bench: Bench):
    parent = bench.channel
    bench.open_channel(parent)
    await bench.post("hello")
    assert bench.shown() == [("Ada", "hello")]
    assert {hook.channel_id for hook in bench.discord.webhooks.hooks.values()} >= {parent}


FAULTS = (
    Fault(path="/webhooks/", stage=Stage.BEFORE, status=502),
    Fault(path="/webhooks/", stage=Stage.BEFORE, drop=True),
    Fault(path="/webhooks/", stage=Stage.AFTER, status=502),
    Fault(path="/webhooks/", stage=Stage.AFTER, drop=True),
    Fault(path="/webhooks/", stage=Stage.BEFORE, retry_after_s=0.01),
)


async def test_in_random_faults_and_restarts_every_text_is_there_once_and_in_order(bench: Bench):
    for seed in range(RUNS):
        chance = random.Random(seed)
        bench.open_channel()
        texts = [chance.choice(["yes", "no", f"text {number}"]) for number in range(4)]
        previous: int | None = None
        for slot, text in enumerate(texts):
            for fault in chance.choices(FAULTS, k=chance.randrange(3)):
                bench.discord.faults.add(fault)
            since_ms = int(bench.clock.now_s() * 1000)
            step = {"previous_id": previous}
            if chance.random() < 0.3:
                # The gateway is killed in the middle: the next one knows only that it began.
                killed = asyncio.create_task(bench.post(text, slot, **step))
                await asyncio.sleep(chance.random() * 0.01)
                killed.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await killed
                await _quiet(bench)
                step["since_ms"] = since_ms
            previous = await bench.post(text, slot, **step)
        assert bench.shown() == [("Ada", text) for text in texts], f"seed {seed}"


async def _quiet(bench: Bench) -> None:
    """Until Discord has done what it was asked before the kill."""
    count = -1
    while count != len(bench.discord.calls):
        count = len(bench.discord.calls)
        await asyncio.sleep(0.005)

"""Replies that came doubled, reordered or not at all elsewhere: what happens to ours.

Each row is a report of another bot, by its number in docs/discord.md, *Seen elsewhere*, and
the end that is right. Real delivery and the real front, over the fake Discord.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest

from gateway.delivery.channels import BLOCK_S
from gateway.front import OutgoingMessage, Sent
from ops.rehearsal.discord.faults import Fault, Stage
from ops.rehearsal.discord.world import THREAD, Draft
from tests.support.channel import ManualClock
from tests.support.discord_bench import DiscordBench, running_bench

Deed = Callable[[DiscordBench], None]

TEXTS = ("one", "two", "three")
LOST = Fault(stage=Stage.AFTER, drop=True)
DONE_502 = Fault(stage=Stage.AFTER, status=502)
PASSES = Fault()
AWAY = Fault(status=503)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What goes wrong, and what is right then.

    Attributes:
        faults: what the posts meet, one after another.
        texts: the reply.
        early: what happens in Discord before the first message.
        deed: what happens there after it.
        killed: when the gateway is killed; another one goes on.
        shown: what the channel shows in the end.
        causes: what an operator is told.
    """

    faults: tuple[Fault, ...] = ()
    texts: tuple[str, ...] = TEXTS
    early: Deed | None = None
    deed: Deed | None = None
    killed: Callable[[DiscordBench], bool] | None = None
    shown: tuple[str, ...] = TEXTS
    causes: tuple[str, ...] = ()


def has(count: int) -> Callable[[DiscordBench], bool]:
    """Discord has so many messages, whether anybody heard of it or not."""
    return lambda bench: len(bench.shown()) == count


def has_begun(bench: DiscordBench) -> bool:
    """The intent is in the journal, nothing is in Discord."""
    return any(slot.message_id is None for slot in bench.journal.slots.get("m1", {}).values())


def _forget_prompt(bench: DiscordBench) -> None:
    messages = bench.discord.world.messages[bench.channel.id]
    del messages[min(messages)]


def _archive(bench: DiscordBench) -> None:
    bench.channel.kind, bench.channel.is_archived = THREAD, True


def _lock(bench: DiscordBench) -> None:
    bench.channel.kind, bench.channel.is_locked = THREAD, True


def _cut_sockets(bench: DiscordBench) -> None:
    bench.discord.sockets.cut_all()


ROWS = {
    "37 a chunk meets a 429": Row(faults=(PASSES, Fault(retry_after_s=0.1))),
    "37 a chunk meets a 503": Row(faults=(PASSES, AWAY, AWAY)),
    "38 the first chunk is slow": Row(faults=(Fault(delay_s=0.3),)),
    "39 an answer is lost and the text asked for again": Row(faults=(PASSES, DONE_502, DONE_502)),
    "40 chunks of the same words": Row(texts=("yes", "yes", "yes"), shown=("yes", "yes", "yes")),
    "41 nobody hears that it was taken": Row(faults=(LOST, LOST, LOST)),
    "42 the gateway dies over a lost answer": Row(
        faults=(PASSES, Fault(stage=Stage.AFTER, delay_s=30.0)), killed=has(2)
    ),
    "42 the gateway dies and the answer of the next is lost": Row(
        faults=(Fault(stage=Stage.AFTER, delay_s=30.0),), killed=has(1)
    ),
    "44 the gateway dies between intent and post": Row(
        faults=(Fault(delay_s=30.0),), killed=has_begun
    ),
    "46 Discord is away for too long": Row(
        faults=(AWAY,) * 60, shown=(), causes=("delivery_expired",)
    ),
    "47 the socket is cut in the middle": Row(deed=_cut_sockets),
    "48 the prompt is deleted before the answer": Row(early=_forget_prompt),
    "48 the prompt is deleted in the middle": Row(deed=_forget_prompt),
    "50 the thread is archived in the middle": Row(deed=_archive),
    "50 the thread is locked in the middle": Row(
        deed=_lock, shown=("one",), causes=("channel_refused",)
    ),
}


@pytest.fixture
async def bench() -> AsyncIterator[DiscordBench]:
    async with running_bench() as running:
        yield running


@pytest.mark.parametrize("name", list(ROWS))
async def test_a_reply_is_whole_in_order_and_once(name: str, bench: DiscordBench):
    row = ROWS[name]
    prompt, _ = bench.discord.world.post(bench.ann.id, bench.channel.id, Draft(content="?"))
    reply = bench.reply(*row.texts, reply_to=prompt.id)
    bench.fail(*row.faults)
    if row.early is not None:
        row.early(bench)
    if row.killed is not None:
        await bench.killed_when(row.killed, *reply)
        reply = []
    if row.deed is not None:
        await bench.deliver(reply.pop(0))
        row.deed(bench)
    await bench.deliver(*reply)
    assert tuple(bench.shown()) == row.shown
    assert tuple(bench.reporter.causes) == row.causes


async def test_each_chunk_has_a_nonce_of_its_own_over_tries_and_restarts(bench: DiscordBench):
    """42: one nonce for all chunks would swallow the second."""
    bench.fail(AWAY, PASSES, Fault(stage=Stage.AFTER, delay_s=30.0))
    await bench.killed_when(has(2), *bench.reply("same", "same", "same"))
    await bench.deliver()
    tries = Counter(call.nonce for call in bench.calls("POST"))
    assert len(tries) == len(bench.shown()) == 3
    assert max(tries.values()) == 2
    nonces = [message.nonce for message in bench.discord.replies(bench.channel.id)]
    assert set(nonces) == set(tries)


async def test_what_waits_at_a_drain_is_kept_for_the_next(bench: DiscordBench):
    """45: deliveries that were pending when the gateway ended."""
    bench.source.add(*bench.reply(*TEXTS))
    bench.fail(PASSES, Fault(delay_s=30.0))
    stop = asyncio.Event()
    running = asyncio.create_task(bench.partition().run(stop, drain_s=0.1))
    async with asyncio.timeout(10):
        while len(bench.discord.calls) < 2 and not bench.shown():
            await asyncio.sleep(0.01)
        stop.set()
        await running
    assert bench.source.entries
    bench.discord.faults.clear()
    await bench.deliver()
    assert tuple(bench.shown()) == TEXTS


class LongWaits(ManualClock):
    """A clock whose long waits last longer than a test."""

    async def sleep(self, seconds: float) -> None:
        if seconds > 10.0:
            await asyncio.Event().wait()
        await super().sleep(seconds)


async def test_a_channel_that_refuses_or_waits_stalls_no_other(bench: DiscordBench):
    """49: a 403 here, half a minute of a rate limit there, and everybody else is answered."""
    bench.clock = LongWaits(bench.clock.now_s())
    world = bench.discord.world
    others = [bench.open_channel().id for _ in range(20)]
    limited = bench.open_channel().id
    bench.channel.denied.add("send")
    bench.fail(Fault(channel_id=limited, retry_after_s=25.0))
    bench.source.add(
        *bench.reply("never"),
        *bench.reply("late", turn="m2", channel=limited),
        *(
            one
            for number, other in enumerate(others, start=3)
            for one in bench.reply(*TEXTS, turn=f"m{number}", channel=other)
        ),
    )
    running = asyncio.create_task(bench.partition().run(asyncio.Event(), drain_s=1.0))
    async with asyncio.timeout(5):
        while any(len(world.messages[other]) < len(TEXTS) for other in others):
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.wait({running})
    assert all(tuple(bench.shown(other)) == TEXTS for other in others)
    assert bench.shown(limited) == bench.shown() == []
    assert bench.channels.is_blocked(bench.channel.id, None, bench.clock.now_s() + BLOCK_S - 60)


@pytest.mark.parametrize(
    ("again", "is_other"), [("one\n\ntwo", False), ("one", True)], ids=["the same", "another"]
)
async def test_a_nonce_that_gives_back_another_message_is_told(
    bench: DiscordBench, again: str, is_other: bool
):
    """43: what comes back is what was said then, whatever is asked now."""
    channel = bench.channel.id
    first, second = [
        await bench.live.send(OutgoingMessage(channel_id=channel, text=text, nonce="n1"))
        for text in ("one\n\ntwo", again)
    ]
    assert isinstance(first, Sent)
    assert second == Sent(message_id=first.message_id, deduplicated=is_other)
    assert bench.shown() == ["one\n\ntwo"]

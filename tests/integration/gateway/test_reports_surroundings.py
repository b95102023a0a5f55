"""What went wrong around replies elsewhere: typing signs, pings, heartbeats, bans, webhooks.

Each test is a report of another bot, by its number in docs/discord.md, *Seen elsewhere*; 61,
thoughts that leak, is in tests/unit/worker/chunks/test_reported_leaks.py.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.edges.discord_errors import CLOUDFLARE_WAIT_S
from gateway.edges.discord_voices import Voices
from gateway.edges.table_image import PoolPainter, find_fonts
from gateway.front import OutgoingMessage, Sent, Unavailable
from gateway.typist import Typist
from ops.rehearsal.discord.faults import Fault
from shared.turns import Front, Route, Speaker
from tests.support.discord_bench import DiscordBench, running_bench

REFRESH_S = 0.05
ADA = Speaker(name="Ada")


@pytest.fixture
async def bench() -> AsyncIterator[DiscordBench]:
    async with running_bench() as running:
        yield running


async def quiet(bench: DiscordBench) -> None:
    bench.discord.calls.clear()
    await asyncio.sleep(6 * REFRESH_S)


TYPING = {
    "56 a sign that is started twice": ("start", "start"),
    "56 a sign whose answer shows": ("start", "stop"),
    "56 a sign whose answer was quicker": ("stop", "start"),
}


@pytest.mark.parametrize("name", list(TYPING))
async def test_a_turn_has_one_typing_sign_and_it_ends(name: str, bench: DiscordBench):
    typist = Typist(refresh_s=REFRESH_S)
    deeds = TYPING[name]
    async with typist.running():
        for deed in deeds:
            if deed == "stop":
                typist.stop("m1")
            else:
                typist.start("m1", bench.live, bench.channel.id)
            await asyncio.sleep(0.02)
        await quiet(bench)
        signs = len(bench.calls("POST", "/typing"))
        assert (3 <= signs <= 6) if "stop" not in deeds else signs == 0
    await quiet(bench)
    assert not bench.calls("POST", "/typing")  # an orphan typed for hours


async def test_nobody_is_pinged_where_the_field_would_be_forgotten(bench: DiscordBench):
    """57: without `allowed_mentions` Discord pings everybody."""
    await bench.deliver(*bench.reply("@everyone <@5>", "@here <@&7>"))
    for call in bench.calls("POST"):
        allowed = call.body["allowed_mentions"]
        assert (allowed["parse"], allowed.get("users") or []) == ([], [])
    assert [message.pings for message in bench.discord.replies(bench.channel.id)] == [(), ()]


async def test_the_heart_beats_while_much_is_delivered_and_drawn(bench: DiscordBench):
    """58: a loop that was blocked for minutes lost its connection."""
    await bench.leave()
    sockets = bench.discord.sockets
    sockets.heartbeat_ms = 500
    await bench.connect()
    begun = sockets.identifies
    table = "| a | b |\n|---|---|\n" + "| some words | and more of them |\n" * 60
    painter = PoolPainter(find_fonts())
    async with painter.running():
        bench.painter = painter  # type: ignore[assignment]  # the real one in place of the stub
        channels = [bench.open_channel().id for _ in range(20)]
        replies = [
            one
            for number, channel in enumerate(channels)
            for one in bench.reply(*["word " * 380] * 4, turn=f"m{number + 10}", channel=channel)
        ]
        drawing = [asyncio.create_task(painter.paint(table)) for _ in range(3)]
        bench.source.add(*replies)
        async with bench.delivering():
            await bench.taken()
        assert all(await asyncio.gather(*drawing))
    assert all(len(bench.shown(channel)) == 4 for channel in channels)
    assert (sockets.identifies - begun, sockets.resumes) == (0, 0)


BANS = {
    "59 a 429 that is no JSON": Fault(is_html=True),
    "59 a 403 that is no JSON": Fault(status=403, is_html=True),
    "59 a 401 that is no JSON": Fault(status=401, is_html=True),
    "59 a request that Cloudflare stops": Fault(status=403, code=40333),
}


@pytest.mark.parametrize("name", list(BANS))
async def test_a_ban_of_cloudflare_is_waited_out(name: str, bench: DiscordBench):
    """It says nothing of token and channel, and asking on prolongs it."""
    bench.fail(BANS[name])
    await bench.deliver(*bench.reply("one", "two"))
    assert bench.clock.waits == [CLOUDFLARE_WAIT_S]
    assert bench.shown() == ["one", "two"]
    assert bench.fleet.blocked == []
    assert bench.reporter.causes == []


async def test_a_webhook_that_must_wait_long_holds_up_no_other(bench: DiscordBench):
    """60: all webhooks report one bucket, and one was told to wait for 519 s."""
    voices = Voices(bench.live, bench.clock.now_s)
    limited, free = (bench.open_channel().id for _ in range(2))

    async def say(channel: int, nonce: str) -> object:
        route = Route(
            front=Front.DISCORD,
            channel_id=channel,
            user_id=5,
            guild_id=bench.guild.id,
            speaker=ADA,
        )
        message = OutgoingMessage(channel_id=channel, text="hello", nonce=nonce)
        return await voices.of(route).send(message)

    for channel in (limited, free):
        assert isinstance(await say(channel, f"first {channel}"), Sent)
    bench.fail(Fault(path="/webhooks/", channel_id=limited, retry_after_s=519.0))
    async with asyncio.timeout(5):
        outcome = await say(limited, "n1")
        assert isinstance(outcome, Unavailable)
        assert outcome.retry_after_s == pytest.approx(519.0, abs=1.0)
        assert isinstance(await say(free, "n2"), Sent)
    shown = [message.content for message in bench.discord.world.shown(free)]
    assert shown == ["hello", "hello"]

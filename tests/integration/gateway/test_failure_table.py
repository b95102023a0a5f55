"""Each refusal and outage of Discord, as people and operators see it: the table of delivery.

Rows are named by what Discord answers. What is not about a message is elsewhere: dead tokens of
interactions in test_interactions.py, webhooks that are gone in test_voices.py, places that go away
in test_changes.py. The real front against the fake Discord, below the real delivery of a partition;
time passes by waiting.
"""

from collections.abc import AsyncIterator, Callable

import msgspec
import pytest

from gateway.delivery.courier import BACKOFF_S, PROBE_S
from gateway.edges.discord import DiscordFront
from gateway.edges.discord_connection import DiscordOptions
from gateway.front import Unavailable
from ops.rehearsal.discord.faults import Fault, Stage
from ops.rehearsal.discord.rest import Call
from ops.rehearsal.discord.server import FakeDiscord
from ops.rehearsal.discord.world import FORUM, THREAD, Channel
from shared.errors import ConfigError
from shared.segments import Envelope, SegmentKind
from tests.support.channel import MemoryFront
from tests.support.delivery import Bench
from tests.support.discord import MemoryMarks, running_discord
from tests.support.envelopes import done, text

PROMPT = 500
"""What the envelopes of tests answer."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What goes wrong, and what comes of it."""

    faults: tuple[Fault, ...] = ()
    arrange: Callable[[FakeDiscord, Channel], None] | None = None
    reply: tuple[str, ...] = ("one", "two")
    kind: SegmentKind = SegmentKind.TEXT
    shown: tuple[str, ...] = ("one", "two")
    files: int = 0
    causes: tuple[str, ...] = ()
    blocks: bool = False
    without_files: bool = False
    waits: tuple[float, ...] = ()


def deny(what: str) -> Callable[[FakeDiscord, Channel], None]:
    return lambda _discord, channel: channel.denied.add(what)


def _locked(_discord: FakeDiscord, channel: Channel) -> None:
    channel.kind, channel.is_locked = THREAD, True


def _archived(_discord: FakeDiscord, channel: Channel) -> None:
    channel.kind, channel.is_archived = THREAD, True


def _locked_archived(discord: FakeDiscord, channel: Channel) -> None:
    _locked(discord, channel)
    _archived(discord, channel)


def _deleted(_discord: FakeDiscord, channel: Channel) -> None:
    channel.is_deleted = True


def _forum(_discord: FakeDiscord, channel: Channel) -> None:
    channel.kind = FORUM


def _unanswerable(discord: FakeDiscord, _channel: Channel) -> None:
    discord.world.unanswerable.add(PROMPT)


def _automod(discord: FakeDiscord, channel: Channel) -> None:
    assert channel.guild_id is not None
    discord.world.guilds[channel.guild_id].blocked_words.add("one")


LOST = Row(shown=(), causes=("channel_refused",), blocks=True)


def lost(**facts: object) -> Row:
    return msgspec.structs.replace(LOST, **facts)


ROWS = {
    "cut before": Row(faults=(Fault(drop=True),), waits=(1.0,)),
    "cut after it was posted": Row(faults=(Fault(drop=True, stage=Stage.AFTER),), waits=(1.0,)),
    "502 before": Row(faults=(Fault(status=502),), waits=(1.0,)),
    "502 after it was posted": Row(faults=(Fault(status=502, stage=Stage.AFTER),), waits=(1.0,)),
    "500 for a while": Row(faults=(Fault(status=500),) * 4, waits=(1.0, 2.0, 4.0, 8.0)),
    "500 for long": Row(faults=(Fault(status=500),) * 7, waits=(*BACKOFF_S, PROBE_S, PROBE_S)),
    "429 of the channel": Row(faults=(Fault(retry_after_s=0.2),)),
    "429 of everything": Row(faults=(Fault(retry_after_s=0.2, scope="global"),)),
    "429 of a shared resource": Row(faults=(Fault(retry_after_s=0.2, scope="shared"),)),
    "429 of five minutes": Row(faults=(Fault(retry_after_s=301.0),), waits=(301.0,)),
    "429 between two outages": Row(
        faults=(Fault(status=503), Fault(retry_after_s=301.0), Fault(status=503)),
        waits=(1.0, 301.0, 2.0),
    ),
    "Cloudflare": Row(faults=(Fault(is_html=True),), waits=(600.0,)),
    "a write limit": Row(faults=(Fault(status=400, code=20028),), waits=(5.0,)),
    "50035 once": Row(faults=(Fault(status=400, code=50035),), reply=("one two",)),
    "50035 twice": Row(
        faults=(Fault(status=400, code=50035),) * 2,
        reply=("one two",),
        shown=("", "two"),
        files=1,
    ),
    "50035 always": Row(
        faults=(Fault(status=400, code=50035),) * 5,
        reply=("one two", "three"),
        shown=("three",),
        causes=("content_refused", "content_refused"),
    ),
    "50006": Row(
        faults=(Fault(status=400, code=50006),), shown=("two",), causes=("content_refused",)
    ),
    "the prompt is gone": Row(reply=("one",), shown=("one",)),
    "50035, no reply to this message": Row(arrange=_unanswerable),
    "no history to answer in": Row(arrange=deny("history")),
    "50013": lost(arrange=deny("send")),
    "50001": lost(arrange=deny("view")),
    "10003": lost(arrange=_deleted),
    "10008, deleted by a moderator": Row(faults=(Fault(status=404, code=10008),), shown=("two",)),
    "50007, no direct messages": lost(faults=(Fault(status=403, code=50007),)),
    "50278, no shared server": lost(faults=(Fault(status=403, code=50278),)),
    "160005, a locked thread": lost(arrange=_locked),
    "50083, locked and archived": lost(arrange=_locked_archived),
    "an archived thread": Row(arrange=_archived),
    "40058, a forum's root": lost(arrange=_forum),
    "220001, a forum's root": lost(faults=(Fault(status=400, code=220001),)),
    "200000, AutoMod": Row(arrange=_automod, shown=("two",), causes=("content_refused",)),
    "240000, a harmful link": Row(
        faults=(Fault(status=400, code=240000),), shown=("two",), causes=("content_refused",)
    ),
    "50013 for a file": Row(
        arrange=deny("files"),
        kind=SegmentKind.FILE,
        reply=("```\none two\n```",),
        shown=("one", "two"),
        without_files=True,
    ),
    "50045, a file too large": Row(
        faults=(Fault(status=400, code=50045),), kind=SegmentKind.FILE, reply=("```\none\n```",)
    ),
    "a file": Row(kind=SegmentKind.FILE, reply=("```\none\n```",), shown=("",), files=1),
}


@pytest.fixture
async def discord() -> AsyncIterator[FakeDiscord]:
    async with running_discord() as running:
        running.world.add_channel(running.world.add_guild().id)
        yield running


@pytest.fixture
async def bench(discord: FakeDiscord) -> AsyncIterator[Bench]:
    front = DiscordFront(
        DiscordOptions(token=discord.token, rest_url=discord.rest_url), MemoryMarks()
    )
    await front.connect()
    made = Bench()
    made.front = front  # type: ignore[assignment]  # the real one in place of the fake
    yield made
    await front.close()


def envelopes(row: Row, channel_id: int) -> list[Envelope]:
    plain = ("one", "two") if row.kind is SegmentKind.FILE else ()
    made = [
        text(seq, words, channel=channel_id, kind=row.kind, fallback=plain)
        for seq, words in enumerate(row.reply, start=1)
    ]
    return [*made, done(len(made), channel=channel_id)]


@pytest.mark.parametrize("name", list(ROWS))
async def test_the_failure_table(name: str, discord: FakeDiscord, bench: Bench):
    row, (channel,) = ROWS[name], list(discord.world.channels.values())
    for fault in row.faults:
        discord.faults.add(fault)
    if row.arrange is not None:
        row.arrange(discord, channel)
    await bench.deliver(*envelopes(row, channel.id))
    replies = discord.replies(channel.id)
    halves = [word for message in replies for word in message.content.split(" ")]
    assert tuple(halves) == row.shown
    assert sum(len(message.files) for message in replies) == row.files
    assert tuple(bench.reporter.causes) == row.causes
    assert bench.fleet.blocked == ([channel.id] if row.blocks else [])
    assert bench.fleet.cancelled == (["l1"] if row.blocks else [])
    assert (channel.id in bench.fleet.without_files) is row.without_files
    assert tuple(bench.clock.waits) == row.waits
    assert {call.body["allowed_mentions"]["parse"] == [] for call in posts(discord)} <= {True}


async def test_a_refused_token_keeps_the_replies(discord: FakeDiscord, bench: Bench):
    (channel,) = discord.world.channels.values()
    discord.faults.add(Fault(status=401), times=9)
    bench.source.add(text(1, "one", channel=channel.id))
    with pytest.raises(ConfigError, match="TURNFLEET_DISCORD_TOKEN"):
        await bench.partition().run(bench.stop, drain_s=1.0)
    assert bench.source.entries


async def test_what_nobody_awaits_any_more_becomes_a_report(discord: FakeDiscord, bench: Bench):
    class Away(MemoryFront):
        async def send(self, message: object) -> Unavailable:
            del message
            return Unavailable(reason="timeout")

    bench.front = Away()
    await bench.deliver(text(1, "one"), done(1))
    assert bench.reporter.causes == ["delivery_expired"]


def posts(discord: FakeDiscord) -> list[Call]:
    return [call for call in discord.calls if call.method == "POST" and "/messages" in call.path]

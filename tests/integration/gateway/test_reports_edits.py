"""Replies that grow in one message, as other bots got it wrong: what ours does.

Each row is a report of another bot, by its number in docs/discord.md, *Seen elsewhere*. Real
delivery and the real front, over the fake Discord.
"""

from collections.abc import AsyncIterator

import msgspec
import pytest

from gateway.delivery.pieces import MAX_PREVIEW_CHARS
from shared.segments import MAX_SEGMENT_CHARS
from tests.support.discord_bench import DiscordBench, running_bench

GROWING = tuple("word " * count for count in range(1, 6))
LONG = "x" * (MAX_SEGMENT_CHARS * 2 + 500)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A reply that grows, and the requests that are right for it.

    Attributes:
        seen: what may be seen of the first segment, one look after another.
        at_once: the looks wait together: delivery is slower than they come.
        reply: the segments that follow.
        shown: what the channel shows in the end; the reply where it is not said.
        posts, edits: how many there are.
    """

    seen: tuple[str, ...]
    reply: tuple[str, ...]
    at_once: bool = False
    shown: tuple[str, ...] = ()
    posts: int
    edits: int


ROWS = {
    "32 an edit that is too long": Row(
        seen=(LONG[:3000],),
        reply=(LONG[:2000], LONG[2000:4000], LONG[4000:]),
        posts=3,
        edits=1,
    ),
    "32 a segment that is too long": Row(
        seen=("x",),
        reply=(LONG,),
        shown=(LONG[:2000], LONG[2000:4000], LONG[4000:]),
        posts=3,
        edits=1,
    ),
    "33 looks that are the same": Row(seen=("one",) * 6, reply=("one.",), posts=1, edits=1),
    "33 looks that are the same where they are cut": Row(
        seen=tuple("x" * (MAX_PREVIEW_CHARS + more) for more in range(6)),
        reply=("x" * MAX_SEGMENT_CHARS, "xxxxx"),
        posts=2,
        edits=1,
    ),
    "34 looks and what goes beyond": Row(
        seen=GROWING, reply=("first.", "second."), posts=2, edits=len(GROWING)
    ),
    "35 looks that mention somebody": Row(
        seen=("<@5> o", "<@5> one @everyone"), reply=("<@5> one @everyone.",), posts=1, edits=2
    ),
    "36 looks that come faster than edits": Row(
        seen=GROWING * 4, at_once=True, reply=("done.",), posts=1, edits=0
    ),
}


@pytest.fixture
async def bench() -> AsyncIterator[DiscordBench]:
    async with running_bench() as running:
        yield running


@pytest.mark.parametrize("name", list(ROWS))
async def test_a_message_grows_in_its_place_and_is_whole_in_the_end(name: str, bench: DiscordBench):
    row = ROWS[name]
    looks = [bench.grown(0, words) for words in row.seen]
    async with bench.delivering():
        if row.at_once:
            bench.source.add(*looks, *bench.reply(*row.reply))
        for look in () if row.at_once else looks:
            bench.source.add(look)
            await bench.taken()
        if not row.at_once:
            bench.source.add(*bench.reply(*row.reply))
        await bench.taken()
    assert tuple(bench.shown()) == (row.shown or row.reply)
    posts, edits = bench.calls("POST"), bench.calls("PATCH")
    assert (len(posts), len(edits)) == (row.posts, row.edits)
    assert all(call.body["allowed_mentions"]["parse"] == [] for call in (*posts, *edits))
    assert all(not message.pings for message in bench.discord.replies(bench.channel.id))
    assert not bench.reporter.reports

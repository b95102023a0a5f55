"""Delivery where limits are felt: what is merged, what it costs, and who does not wait."""

import asyncio

import pytest

from gateway.delivery.choice import MERGE_LOAD, SLOW_S
from gateway.delivery.lanes import Pace
from gateway.delivery.runs import MAX_MESSAGE_UNITS, merged
from gateway.front import Rank, Unavailable
from shared.segments import SegmentKind
from tests.support.delivery import Bench
from tests.support.envelopes import done, failed, superseded, text


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_without_a_limit_each_text_is_a_message_of_its_own(bench):
    await bench.deliver(*(text(seq, str(seq), joint="\n\n") for seq in range(1, 5)), done(4))
    assert bench.front.shown(7) == ["1", "2", "3", "4"]


async def test_what_piles_up_behind_a_slow_message_goes_as_one(bench):
    bench.front.script = [Unavailable(reason="rate_limited", retry_after_s=30.0)]
    await bench.deliver(*(text(seq, str(seq), joint="\n\n") for seq in range(1, 7)), done(6))
    shown = bench.front.shown(7)
    assert shown[0] == "1"
    assert "\n\n".join(shown) == "1\n\n2\n\n3\n\n4\n\n5\n\n6"
    assert len(shown) < 6


async def test_a_permit_that_is_waited_for_counts_as_slow(bench):
    bench.budget.wait_s = SLOW_S
    await bench.deliver(*(text(seq, str(seq), joint=" ") for seq in range(1, 4)), done(3))
    assert " ".join(bench.front.shown(7)) == "1 2 3"
    assert len(bench.front.shown(7)) < 3


async def test_above_the_load_texts_are_merged_and_below_they_are_not(bench):
    bench.budget.load = MERGE_LOAD - 0.01
    await bench.deliver(*(text(seq, str(seq), joint=" ") for seq in range(1, 4)), done(3))
    assert bench.front.shown(7) == ["1", "2", "3"]


async def test_each_request_asks_with_its_rank(bench):
    await bench.deliver(
        text(1, "a"), text(2, "b"), superseded(2), text(1, "x", attempt=2), failed(1, attempt=2)
    )
    assert bench.budget.asked == [
        Rank.FIRST,
        Rank.FURTHER,
        Rank.FIRST,  # the first text of the second attempt
        Rank.EDIT,  # the notice takes the place of the second message
    ]


async def test_a_channel_under_a_long_limit_stalls_no_other(bench):
    bench.clock.sleep = forever  # it never gets out of its wait
    bench.front.script = [Unavailable(reason="rate_limited", retry_after_s=30.0)]
    bench.source.add(text(1, "stuck", channel=8, turn="l8"))
    bench.source.add(*(text(1, "ok", channel=n, turn=f"l{n}") for n in range(20, 40)))
    await bench.until(lambda: len(bench.source.entries) == 1)
    assert [bench.front.shown(n) for n in range(20, 40)] == [["ok"]] * 20
    assert bench.front.shown(8) == []


async def test_replies_that_wait_for_their_ends_do_not_fill_the_house(bench):
    """Each has had its messages and waits for the rest of it, which has no room to be read."""
    bench.max_messages = 2
    bench.pace = Pace(max_held=4, room_s=0.001)
    for part in (range(1, 4), range(4, 5)):
        for n in (8, 9):
            bench.source.add(*(text(seq, str(seq), channel=n, turn=f"l{n}") for seq in part))
    bench.source.add(*(done(4, channel=n, turn=f"l{n}") for n in (8, 9)))
    await bench.until(lambda: not bench.source.entries)
    for channel in (8, 9):
        assert [one for one in "1234" if one in "".join(bench.front.shown(channel))] == list("1234")


async def test_a_house_that_was_full_is_no_reason_to_hurry_later(bench):
    bench.max_messages = 2
    bench.pace = Pace(max_held=3, room_s=0.001)
    bench.source.add(*(text(seq, str(seq), channel=8, turn="l8") for seq in range(1, 5)))
    bench.source.add(text(5, "5", channel=8, turn="l8"), done(5, channel=8, turn="l8"))
    bench.source.add(text(1, "1"), text(2, "2"))
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(bench.partition().run(bench.stop, drain_s=0.1))
        while len(bench.source.entries) > 1:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)
        assert bench.front.shown(7) == ["1"]  # the second waits for the end, as ever
        bench.source.add(text(3, "3"), done(3))
        while bench.source.entries:
            await asyncio.sleep(0.001)
        bench.stop.set()
    assert bench.front.shown(7) == ["1", "The rest of the answer is in the file.[reply.md: 2\n\n3]"]


async def test_a_picture_beyond_the_cap_stays_a_picture(bench):
    bench.max_messages = 2
    bench.fleet.pictures["p1"] = b"png"
    drawn = text(4, "", kind=SegmentKind.FILE, name="a.png", picture="p1", fallback=("a note",))
    await bench.deliver(*(text(n, f"{n}", joint=" ") for n in (1, 2, 3)), drawn, done(4))
    files = [file for message in bench.front.messages(7) for file in message.files]
    assert [(file.name, file.data) for file in files] == [("reply.md", b"2 3"), ("a.png", b"png")]


@pytest.mark.parametrize(
    ("before", "plain", "is_file"),
    [(0, 19, False), (0, 20, True), (17, 2, False), (17, 3, True), (19, 1, False), (19, 2, True)],
)
async def test_a_table_that_cannot_be_drawn_is_a_file_beyond_the_cap(bench, before, plain, is_file):
    fallback = tuple(f"part {number}" for number in range(plain))
    table = text(before + 1, "| t |", kind=SegmentKind.TABLE, fallback=fallback)
    texts = [text(seq, str(seq)) for seq in range(1, before + 1)]
    await bench.deliver(*texts, table, done(before + 1))
    shown = bench.front.shown(7)
    assert shown[before:] == (["[table.md: | t |]"] if is_file else list(fallback))
    assert len(shown) <= bench.max_messages


async def forever(_seconds: float) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("waiting", "shown"),
    [
        ([text(1, "a"), text(2, "b", joint="\n")], "a\nb"),
        ([text(1, "a"), text(2, "b", joint="\n"), text(3, "c")], "a\nb"),
        ([text(1, "a"), text(2, "b")], None),
        ([text(1, "a"), text(3, "c", joint=" ")], None),
        ([text(1, "a"), text(2, "b", joint=" ", attempt=2)], None),
        ([text(1, "a"), text(2, "b", joint=" ", turn="l2")], None),
        ([text(1, "a"), text(2, "```\nb\n```", joint="\n", kind=SegmentKind.CODE)], None),
        ([text(1, "| a |", kind=SegmentKind.TABLE), text(2, "b", joint="\n")], None),
        ([text(1, "a" * 1000), text(2, "b" * 999, joint=" ")], "a" * 1000 + " " + "b" * 999),
        ([text(1, "a" * 1000), text(2, "b" * 1000, joint=" ")], None),
        ([text(1, "🎉" * 500), text(2, "🎉" * 500, joint="")], "🎉" * 1000),
        ([text(1, "🎉" * 500), text(2, "🎉" * 501, joint="")], None),
        ([text(1, "a"), done(1)], None),
        ([done(0)], None),
    ],
    ids=[
        "two",
        "until one stands alone",
        "apart",
        "gap",
        "attempt",
        "turn",
        "code",
        "after a table",
        "just fits",
        "too long",
        "astral",
        "too astral",
        "end",
        "nothing",
    ],
)
def test_what_may_be_one_message(waiting, shown):
    run = merged(waiting)
    assert (None if run is None else run.piece.text) == shown
    if run is not None:
        assert len(run.piece.text) <= MAX_MESSAGE_UNITS
        assert run.count == run.upto

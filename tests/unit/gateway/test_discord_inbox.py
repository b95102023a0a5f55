"""The inbox of Discord's events: a bound, and no prompt lost at it."""

import asyncio
import contextlib
from collections import defaultdict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.edges.discord_backfill import MAX_MESSAGES, Moved
from gateway.edges.discord_inbox import MAX_ALWAYS, Inbox
from gateway.edges.discord_shard import Ledger, Token
from gateway.front import Echo, FrontEvent, PlaceGone, Prompt, PromptEdited, PromptsDeleted
from shared.turns import Front

GUILD = 3


def prompt(number: int, channel: int = 7, *, calls: bool = False, text: str = "hi") -> Prompt:
    return Prompt(
        front=Front.DISCORD,
        message_id=number,
        channel_id=channel,
        user_id=5,
        guild_id=GUILD,
        text=text,
        mentions_bot=calls,
    )


class Shard:
    """What a shard says to an inbox, its ledger, and what becomes of it."""

    def __init__(self, limit: int, *always: int) -> None:
        self.inbox = Inbox(limit)
        self.ledger = Ledger()
        self.said: dict[int, list[int]] = defaultdict(list)
        self.taken: dict[int, list[int]] = defaultdict(list)
        self.events: list[FrontEvent] = []
        self.histories: list[Moved] = []
        self.held: list[Token] = []
        self.seq = 0
        for channel in always:
            self.inbox.note_speak(channel, is_always=True)

    def hear(self, *events: FrontEvent | Moved) -> None:
        for event in events:
            self.seq += 1
            if isinstance(event, Prompt):
                self.said[event.channel_id].append(event.message_id)
            self.inbox.put(event, self.ledger.opened((0, self.seq)))

    async def take(self) -> None:
        item = await self.inbox.get()
        assert item is not None
        event, tokens = item
        self.events.append(event)
        self.held += tokens
        if isinstance(event, Prompt):
            self.taken[event.channel_id].append(event.message_id)

    async def read(self) -> None:
        """Reads a page of a history, with the calls of `Histories`."""
        moved, tokens = await self.inbox.next_history()
        self.histories.append(moved)
        said = [one for one in self.said[moved.channel_id] if one > moved.after]
        page = said[:MAX_MESSAGES]
        until = moved.until
        found = [prompt(one, moved.channel_id) for one in page if until is None or one <= until]
        rest = moved.rest(len(page), max(page, default=0))
        self.held += tokens if rest is None else ()
        self.inbox.found(moved.channel_id, found, rest)

    async def take_some(self, count: int = 1 << 30) -> int:
        """Takes what there is: nothing is waited for."""
        before = len(self.events)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0):
                for _ in range(count):
                    await self.take()
        return len(self.events) - before

    async def take_all(self) -> None:
        """Takes what there is, and reads what is to be read, until there is nothing more."""
        is_quiet = False
        while not is_quiet:
            is_quiet = not await self.take_some()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0):
                    await self.read()
                    is_quiet = False

    def handle(self) -> None:
        """What was taken is done."""
        for token in self.held:
            token.close()


async def test_what_finds_room_comes_in_order():
    shard = Shard(10)
    events: list[FrontEvent | Moved] = [
        prompt(1),
        Echo(nonce="n", channel_id=7, message_id=2),
        prompt(3, calls=True),
    ]
    shard.hear(*events)
    await shard.take_all()
    assert shard.events == events


async def test_talk_gives_way_to_who_calls_and_is_not_looked_up(caplog: pytest.LogCaptureFixture):
    shard = Shard(10)
    shard.hear(*[prompt(number) for number in range(1, 101)])
    shard.hear(prompt(101, 8, calls=True), prompt(102, 9))
    await shard.take_all()
    assert shard.histories == []
    assert shard.taken == {7: [*range(1, 9)], 8: [101]}
    shard.handle()
    assert shard.ledger.is_clear
    full, room = caplog.records
    assert (full.message, room.message) == ("discord.behind", "discord.caught_up")
    assert room.__dict__["dropped"] == 93


async def test_talk_that_is_answered_is_read_later():
    shard = Shard(10, 7)
    shard.hear(*[prompt(number) for number in range(1, 101)])
    shard.hear(prompt(101, 8, calls=True), prompt(102, 9))
    await shard.take_all()
    assert shard.histories == [Moved(7, GUILD, after=8, until=100)]
    assert shard.taken == {7: [*range(1, 101)], 8: [101]}


async def test_talk_in_a_thread_is_answered_as_in_its_channel():
    shard = Shard(1, 7)
    for number in range(1, 4):
        shard.hear(msgspec.structs.replace(prompt(number, 70), parent_id=7))
    await shard.take_all()
    assert shard.taken == shard.said


async def test_talk_that_is_no_longer_answered_is_dropped():
    shard = Shard(1, 7)
    shard.inbox.note_speak(7, is_always=False)
    shard.hear(prompt(1), prompt(2))
    await shard.take_all()
    assert shard.taken == {7: [1]}


async def test_no_more_channels_are_remembered_than_there_is_room_for():
    shard = Shard(1, *range(100, 100 + MAX_ALWAYS))
    shard.inbox.note_speak(100, is_always=True)
    shard.inbox.note_speak(7, is_always=True)
    shard.hear(prompt(1), *[prompt(2, channel) for channel in (7, 100, 101)])
    await shard.take_all()
    assert [moved.channel_id for moved in shard.histories] == [7, 100]


async def test_the_marks_stand_until_what_gave_way_is_read():
    shard = Shard(10)
    shard.hear(*[prompt(number, calls=True) for number in range(1, 1001)])
    assert await shard.take_some() == 10
    assert shard.ledger.until(1000) == 0
    shard.handle()
    assert shard.ledger.until(1000) == 10
    await shard.take_all()
    assert len(shard.held) == 11, "one token for all that gave way"
    assert shard.ledger.until(1000) == 10
    shard.handle()
    assert shard.ledger.until(1000) == 1000
    assert shard.ledger.is_clear
    assert shard.taken == shard.said


async def test_a_history_is_read_with_what_gave_way():
    shard = Shard(10)
    shard.hear(*[prompt(number, calls=True) for number in range(11, 22)])
    shard.hear(Moved(7, GUILD, after=1, tries=2), Moved(8, GUILD, after=2, tries=1))
    assert shard.ledger.until(99) == 0
    await shard.take_all()
    first, second = shard.histories
    assert (first.after, first.tries) == (1, 0)
    assert second == Moved(8, GUILD, after=2, tries=1)
    shard.handle()
    assert shard.ledger.is_clear


async def test_what_was_said_between_two_sessions_is_read_with_what_gave_way():
    shard = Shard(2)
    shard.hear(prompt(1, 1, calls=True), prompt(2, 1, calls=True), prompt(5, calls=True))
    shard.said[7] += range(6, 9 + MAX_MESSAGES)  # in no session
    shard.hear(Moved(7, GUILD, after=3))
    await shard.take_all()
    shard.handle()
    assert shard.taken == shard.said
    assert shard.ledger.is_clear


async def test_who_calls_in_a_channel_that_is_late_comes_after_what_was_said_before():
    shard = Shard(10, 7)
    shard.hear(*[prompt(number) for number in range(1, 11)], prompt(11, calls=True), prompt(12))
    assert await shard.take_some() == 8
    shard.hear(prompt(13, 8))
    assert await shard.take_some() == 1, "no other channel waits"
    await shard.take_all()
    assert shard.histories == [
        Moved(7, GUILD, after=8, until=10),
        Moved(7, GUILD, after=11, until=12),
    ]
    assert shard.taken == shard.said


async def test_what_comes_while_a_history_waits_to_be_read_again_comes_after_it():
    shard = Shard(10)
    shard.said[7].append(1)
    shard.hear(Moved(7, GUILD, after=0, until=1))
    moved, _ = await shard.inbox.next_history()
    shard.inbox.again(moved)
    shard.hear(*[prompt(number, calls=True) for number in range(2, 14)])
    assert await shard.take_some() == 0
    shard.inbox.read(7)
    await shard.take_all()
    assert shard.histories == [moved, Moved(7, GUILD, after=11, until=13)]
    assert shard.taken == shard.said
    shard.handle()
    assert shard.ledger.is_clear


async def test_edits_and_deletions_do_not_overtake_their_prompt_where_a_history_is_read():
    shard = Shard(10)
    shard.hear(Moved(7, GUILD, after=0))
    said: list[FrontEvent | Moved] = [
        prompt(1, calls=True),
        PromptEdited(channel_id=7, turn_id="m1", text="other"),
        PromptsDeleted(channel_id=7, turn_ids=("m1",)),
    ]
    shard.hear(*said)
    await shard.inbox.next_history()
    assert await shard.take_some() == 0
    shard.inbox.found(7, [])
    await shard.take_all()
    assert shard.events == said


async def test_what_is_deleted_while_a_history_is_read_that_was_passed_comes_after_it():
    shard = Shard(4)
    shard.hear(Moved(7, GUILD, after=0, until=9))
    shard.hear(*[prompt(number, calls=True) for number in range(10, 16)])
    moved, _ = await shard.inbox.next_history()
    shard.inbox.again(moved, is_passed=True)
    assert await shard.take_some() == 4
    shard.hear(prompt(17, calls=True))
    assert await shard.take_some() == 1
    assert shard.taken == {7: [10, 11, 12, 13, 17]}
    shard.inbox.read(7)
    assert (await shard.inbox.next_history())[0] == moved
    shard.hear(PromptsDeleted(channel_id=7, turn_ids=("m9",)))
    assert await shard.take_some() == 0
    shard.inbox.found(7, [prompt(9)])
    await shard.take_all()
    assert shard.taken == {7: [10, 11, 12, 13, 17, 9, 14, 15]}
    assert isinstance(shard.events[-1], PromptsDeleted)


async def test_what_waits_behind_a_history_counts_where_there_is_no_room():
    shard = Shard(10)
    shard.hear(Moved(7, GUILD, after=0))
    shard.hear(*[prompt(number) for number in range(1, 100)])
    shard.hear(*[prompt(number, 8, calls=True) for number in range(100, 105)])
    assert await shard.take_some() == 2
    assert [moved.channel_id for moved, _ in [await shard.inbox.next_history() for _ in "ab"]] == [
        7,
        8,
    ]


async def test_a_channel_that_is_held_goes_on_in_order():
    shard = Shard(100)
    first, second, third = (prompt(number, calls=True) for number in (1, 2, 3))
    shard.hear(first, second, third, prompt(9, 8))
    assert await shard.take_some(2) == 2
    assert shard.inbox.hold(first)
    shard.hear(prompt(4, calls=True))
    assert await shard.take_some() == 1, "the other channel"
    assert shard.inbox.is_held(7)
    assert not shard.inbox.hold(second), "it was on its way"
    shard.hear(prompt(5, calls=True))
    shard.inbox.release(7)
    shard.taken.clear()
    await shard.take_all()
    assert shard.taken == {7: [1, 2, 3, 4, 5]}
    assert not shard.inbox.is_held(7)


async def test_no_history_is_read_while_held_channels_fill_the_inbox():
    shard = Shard(10)
    for channel in range(1, 6):
        shard.hear(Moved(channel, GUILD, after=0))
        shard.said[channel] += range(channel * 100, channel * 100 + 20)
    await shard.read()
    assert await shard.take_some(1) == 1
    first = shard.events[0]
    assert isinstance(first, Prompt)
    assert shard.inbox.hold(first)
    assert await shard.take_some() == 0, "all of them are held"
    reading = asyncio.create_task(shard.read())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [moved.channel_id for moved in shard.histories] == [1]
    shard.taken.clear()
    shard.inbox.release(1)
    assert await shard.take_some() >= 20
    await reading
    await shard.take_all()
    assert shard.taken == shard.said


@pytest.mark.parametrize(
    "event",
    [prompt(11, text=" "), Echo(nonce="n", channel_id=7, message_id=9), PlaceGone(guild_id=GUILD)],
    ids=["without a text", "echo", "change"],
)
async def test_what_no_history_has_holds_nothing_back_where_it_is_dropped(event: FrontEvent):
    shard = Shard(10, 7)
    shard.hear(*[prompt(number, calls=True) for number in range(1, 11)], event)
    await shard.take_all()
    shard.handle()
    assert len(shard.events) == 10
    assert shard.ledger.is_clear


async def test_the_end_comes_last():
    inbox = Inbox(1)
    inbox.put(prompt(1, calls=True))
    inbox.end()
    assert await inbox.get() == (prompt(1, calls=True), [])
    assert await inbox.get() is None


MOVES = st.lists(
    st.tuples(st.sampled_from([7, 8, 9]), st.booleans(), st.sampled_from([0, 1, 1, 5, 450])),
    max_size=40,
)
"""Channel, whether the bot is called, how many messages; without any, one event is taken, or one
page is read."""


@given(MOVES, st.integers(1, 12))
def test_whoever_is_answered_comes_once_and_in_order(
    moves: list[tuple[int, bool, int]], limit: int
):
    called: dict[int, list[int]] = defaultdict(list)

    async def play() -> Shard:
        shard = Shard(limit, 7)
        for channel, calls, count in moves:
            if not count and calls:
                await shard.take_some(1)
            elif not count:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0):
                        await shard.read()
            for _ in range(count):
                shard.hear(prompt(shard.seq + 1, channel, calls=calls))
                if calls or channel == 7:
                    called[channel].append(shard.seq)
        await shard.take_all()
        shard.handle()
        return shard

    shard = asyncio.run(play())
    for channel, taken in shard.taken.items():
        assert taken == sorted(set(taken))
        assert set(called[channel]) <= set(taken)
    assert set(called) <= set(shard.taken)
    assert shard.ledger.is_clear

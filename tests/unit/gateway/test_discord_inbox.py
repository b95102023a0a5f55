"""The inbox of Discord's events: a bound, and no prompt lost at it."""

import asyncio
import contextlib
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.edges.discord_backfill import MAX_MESSAGES, Moved
from gateway.edges.discord_inbox import Inbox
from gateway.edges.discord_shard import Ledger, Token
from gateway.front import Echo, FrontEvent, PlaceGone, Prompt
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

    def __init__(self, limit: int) -> None:
        self.inbox = Inbox(limit)
        self.ledger = Ledger()
        self.said: dict[int, list[int]] = defaultdict(list)
        self.taken: dict[int, list[int]] = defaultdict(list)
        self.events: list[FrontEvent | Moved] = []
        self.held: list[Token] = []
        self.seq = 0

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
        elif isinstance(event, Moved):
            self._read(event)

    async def take_all(self, at_most: int = 1 << 30) -> None:
        """Takes what there is: nothing is waited for."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0):
                for _ in range(at_most):
                    await self.take()

    def handle(self) -> None:
        """What was taken is done."""
        for token in self.held:
            token.close()

    def _read(self, moved: Moved) -> None:
        rest: Moved | None = moved
        while rest is not None:
            found = [one for one in self.said[moved.channel_id] if one > rest.after]
            page = found[:MAX_MESSAGES]
            until = moved.until
            self.taken[moved.channel_id] += [one for one in page if until is None or one <= until]
            rest = rest.rest(len(page), max(page, default=0))


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


async def test_talk_gives_way_to_who_calls_and_is_read_later():
    shard = Shard(10)
    shard.hear(*[prompt(number) for number in range(1, 101)])
    shard.hear(prompt(101, 8, calls=True), prompt(102, 9))
    await shard.take_all()
    assert [one for one in shard.events if isinstance(one, Moved)] == [
        Moved(7, GUILD, after=8, until=100),
        Moved(9, GUILD, after=101, until=102),
    ]
    assert shard.taken == shard.said
    assert prompt(101, 8, calls=True) in shard.events


async def test_the_marks_stand_until_what_gave_way_is_read():
    shard = Shard(10)
    shard.hear(*[prompt(number, calls=True) for number in range(1, 1001)])
    for _ in range(10):
        await shard.take()
    assert shard.ledger.until(1000) == 0
    shard.handle()
    assert shard.ledger.until(1000) == 10
    await shard.take()
    assert len(shard.held) == 11, "one token for all that gave way"
    shard.handle()
    assert shard.ledger.until(1000) == 1000
    assert shard.ledger.is_clear
    assert shard.taken == shard.said


async def test_a_history_that_finds_no_room_is_read_with_what_gave_way():
    shard = Shard(10)
    shard.hear(*[prompt(number, calls=True) for number in range(11, 22)])
    shard.hear(Moved(7, GUILD, after=1, tries=2), Moved(8, GUILD, after=2, tries=1))
    assert shard.ledger.until(99) == 0
    await shard.take_all()
    first, second = shard.events[10:]
    assert isinstance(first, Moved)
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


async def test_who_calls_in_a_channel_that_is_behind_comes_after_it():
    shard = Shard(10)
    shard.hear(*[prompt(number) for number in range(1, 11)], prompt(11, calls=True), prompt(12))
    await shard.take_all()
    assert shard.events[8:] == [
        Moved(7, GUILD, after=8, until=10),
        prompt(11, calls=True),
        Moved(7, GUILD, after=11, until=12),
    ]


@pytest.mark.parametrize(
    "event",
    [prompt(11, text=" "), Echo(nonce="n", channel_id=7, message_id=9), PlaceGone(guild_id=GUILD)],
    ids=["without a text", "echo", "change"],
)
async def test_what_no_history_has_holds_nothing_back_where_it_is_dropped(event: FrontEvent):
    shard = Shard(10)
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
"""Channel, whether the bot is called, how many messages; without any, one event is taken."""


@given(MOVES, st.integers(1, 12))
def test_whatever_is_said_and_taken_comes_once_and_in_order(
    moves: list[tuple[int, bool, int]], limit: int
):
    async def play() -> Shard:
        shard = Shard(limit)
        for channel, calls, count in moves:
            if not count:
                await shard.take_all(at_most=1)
            for _ in range(count):
                shard.hear(prompt(shard.seq + 1, channel, calls=calls))
        await shard.take_all()
        shard.handle()
        return shard

    shard = asyncio.run(play())
    assert shard.taken == shard.said
    assert shard.ledger.is_clear

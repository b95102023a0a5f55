"""Histories that cannot be read: each is tried again in its place, and given up in the end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import hikari
import msgspec
import pytest

from gateway.edges.discord import DiscordFront
from gateway.edges.discord_backfill import Moved
from gateway.edges.discord_connection import DiscordOptions
from gateway.edges.discord_histories import READ_AGAIN_S, READS_AT_ONCE, Histories
from gateway.edges.discord_inbox import Inbox
from gateway.edges.discord_shard import Ledger, Token
from gateway.front import Prompt, Unavailable
from shared.turns import Front
from tests.support.discord import MemoryMarks

MOVED = Moved(7, 3, after=1)
AWAY = Unavailable(reason="timeout")

Page = list[hikari.Message] | Unavailable


def prompt(number: int, channel: int = 7) -> Prompt:
    return Prompt(
        front=Front.DISCORD,
        message_id=number,
        channel_id=channel,
        user_id=5,
        guild_id=3,
        text="hi",
        mentions_bot=True,
    )


class Reading:
    """An inbox whose histories are read by `fetch`."""

    def __init__(self, fetch: Callable[[Moved], Awaitable[Page]]) -> None:
        self.inbox = Inbox()
        self.ledger = Ledger()
        self._histories = Histories(
            self.inbox, fetch, lambda moved, _: [prompt(2, moved.channel_id)], taken
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self._histories.begin()
        async with asyncio.timeout(5):
            yield
        await self._histories.end()

    async def next(self) -> int:
        item = await self.inbox.get()
        assert item is not None
        assert isinstance(item[0], Prompt)
        return item[0].message_id


def taken(found: Prompt, tokens: list[Token]) -> None:
    del found
    for token in tokens:
        token.close()


async def away(moved: Moved) -> Page:
    del moved
    return AWAY


async def test_a_history_that_is_given_up_holds_nothing_back(caplog: pytest.LogCaptureFixture):
    reading = Reading(away)
    last = msgspec.structs.replace(MOVED, tries=len(READ_AGAIN_S))
    reading.inbox.put(last, reading.ledger.open())
    reading.inbox.put(prompt(3))
    async with reading.running():
        assert await reading.next() == 3
    assert reading.ledger.is_clear
    assert caplog.messages == ["discord.history_not_read"]


@pytest.mark.parametrize("crashes", [False, True])
async def test_a_history_that_cannot_be_read_is_tried_again_in_its_place(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, crashes: bool
):
    monkeypatch.setattr("gateway.edges.discord_histories.READ_AGAIN_S", (0.0,) * 3)
    asked: list[Moved] = []

    async def fetch(moved: Moved) -> Page:
        asked.append(moved)
        if len(asked) > 2:
            return []
        if crashes:
            raise ValueError("what somebody said")
        return AWAY

    reading = Reading(fetch)
    reading.inbox.put(MOVED, reading.ledger.open())
    reading.inbox.put(prompt(3))
    async with reading.running():
        assert [await reading.next(), await reading.next()] == [2, 3]
    assert asked == [msgspec.structs.replace(MOVED, tries=tries) for tries in range(3)]
    assert reading.ledger.is_clear
    assert "what somebody said" not in caplog.text


@pytest.mark.parametrize("retry_after_s", [None, 60.0], ids=["two tries", "a long wait"])
async def test_nobody_waits_long_for_a_history_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, retry_after_s: float | None
):
    monkeypatch.setattr("gateway.edges.discord_histories.READ_AGAIN_S", (0.0, 60.0))
    asked: list[int] = []

    async def fetch(moved: Moved) -> Page:
        asked.append(moved.tries)
        return Unavailable(reason="server_error", retry_after_s=retry_after_s)

    reading = Reading(fetch)
    reading.inbox.put(MOVED, reading.ledger.open())
    reading.inbox.put(prompt(3))
    reading.inbox.put(prompt(4))
    async with reading.running():
        assert [await reading.next(), await reading.next()] == [3, 4]
        reading.inbox.put(prompt(5))
        assert await reading.next() == 5
    assert asked == ([0, 1] if retry_after_s is None else [0])
    assert not reading.ledger.is_clear, "it is tried again"


async def test_a_few_are_read_at_once_and_what_is_not_read_holds_the_marks():
    asked: list[int] = []

    async def fetch(moved: Moved) -> Page:
        asked.append(moved.channel_id)
        await asyncio.Event().wait()
        return []

    reading = Reading(fetch)
    for channel in range(1, 10):
        reading.inbox.put(Moved(channel, 3, after=1), reading.ledger.open())
    reading.inbox.put(prompt(3, 20))
    async with reading.running():
        assert await reading.next() == 3, "nobody else waits for them"
        while len(asked) < READS_AT_ONCE:
            await asyncio.sleep(0)
    assert asked == [*range(1, READS_AT_ONCE + 1)]
    assert not reading.ledger.is_clear


async def test_who_has_left_reads_no_history():
    front = DiscordFront(DiscordOptions(token="t"), MemoryMarks())
    events = front.events()
    taking = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    assert readers()
    await front.leave()
    assert not readers()
    taking.cancel()
    await asyncio.wait({taking})


def readers() -> list[str]:
    return [
        name for task in asyncio.all_tasks() if (name := task.get_name()).startswith("discord hist")
    ]

"""Histories of channels, read beside what comes live.

Comes in: histories that an inbox gives out. Goes out: to the inbox, the prompts that are found.
`gateway.edges.discord_incoming` has one.

A history that cannot be read keeps its place until the second try: what is said in its channel
meanwhile waits behind it. Between later tries nothing does, and what they find comes late.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import hikari
import msgspec

from gateway.edges.discord_backfill import Moved
from gateway.edges.discord_inbox import Inbox
from gateway.edges.discord_shard import Token, close_all
from gateway.front import Prompt, Unavailable

logger = logging.getLogger(__name__)

READS_AT_ONCE: Final = 4
"""Histories read at once: some 25 requests a second, half of what a bot may make. Each puts a page
into memory, beside what came live."""
READ_AGAIN_S: Final = (1.0, 5.0, 15.0, 60.0, 180.0, 300.0)
"""When a history is asked for again that could not be read; meanwhile the mark of life stands."""

Fetch = Callable[[Moved], Awaitable[list[hikari.Message] | Unavailable]]
"""A channel's history after an id; empty where it may not be read."""
Find = Callable[[Moved, list[hikari.Message]], list[Prompt]]
"""The prompts among the messages of a history."""
Note = Callable[[Prompt, list[Token]], None]
"""Takes a prompt that was found, with the tokens that are open until it is taken."""


class Histories:
    """Reads what an inbox wants read.

    Args:
        inbox: gives histories out.
        fetch: reads a channel's history.
        find: finds prompts in it.
        note: is told of each prompt.
    """

    def __init__(self, inbox: Inbox, fetch: Fetch, find: Find, note: Note) -> None:
        self._inbox = inbox
        self._fetch = fetch
        self._find = find
        self._note = note
        self._readers: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """Reads from now on, until `end`."""
        self._readers += [
            asyncio.create_task(self._read_on(), name=f"discord history {number}")
            for number in range(READS_AT_ONCE)
        ]

    async def end(self) -> None:
        """Reads no more; the marks of what is not read stand. Safe to call twice."""
        readers, self._readers = self._readers, []
        for reader in readers:
            reader.cancel()
        if readers:
            await asyncio.wait(readers)

    async def _read_on(self) -> None:
        while True:
            moved, tokens = await self._inbox.next_history()
            page = await self._page(moved)
            if isinstance(page, Unavailable):
                self._again(moved, tokens, page)
                continue
            prompts, rest = page
            for prompt in prompts:
                self._note(prompt, [token.again() for token in tokens])
            if rest is None:
                close_all(tokens)
            self._inbox.found(moved.channel_id, prompts, rest)

    async def _page(self, moved: Moved) -> tuple[list[Prompt], Moved | None] | Unavailable:
        """The prompts of a page, and what is left to read after it."""
        try:
            found = await self._fetch(moved)
            if isinstance(found, Unavailable):
                return found
            prompts = self._find(moved, found)
        except Exception as exc:  # noqa: BLE001 - one history must not end all others
            # No words of the error: it may quote a message.
            facts = {"channel_id": moved.channel_id, "error": type(exc).__qualname__}
            logger.error("discord.history_crashed", extra=facts)
            return Unavailable(reason="crashed")
        return prompts, moved.rest(len(found), max((int(one.id) for one in found), default=0))

    def _again(self, moved: Moved, tokens: list[Token], why: Unavailable) -> None:
        """Has a history read later; gives it up where that was tried often enough."""
        channel_id, tries = moved.channel_id, moved.tries
        if tries >= len(READ_AGAIN_S):
            facts = {"channel_id": channel_id, "reason": why.reason}
            logger.warning("discord.history_not_read", extra=facts)
            close_all(tokens)
            self._inbox.found(channel_id, [])
            return
        wait_s = max(READ_AGAIN_S[tries], why.retry_after_s or 0.0)
        moved = msgspec.structs.replace(moved, tries=tries + 1)
        self._inbox.again(moved, is_passed=wait_s > READ_AGAIN_S[0])
        asyncio.get_running_loop().call_later(wait_s, self._inbox.read, channel_id)

"""What came from Discord and is not taken yet: within a bound, and without losing a prompt.

Comes in: events, with the tokens that hold their shard's marks back. Goes out: the same, in order;
in the place of messages that found no room, their channel, whose history is read once there is
some. `gateway.edges.discord_incoming` has one.

What piles up while Redis is away is mostly talk that calls nobody. It gives way first, so that
who calls the bot is heard even where it may not read the history of a channel.
"""

import asyncio
import logging
from typing import Final

from gateway.addressing import is_addressed
from gateway.edges.discord_backfill import Moved
from gateway.edges.discord_shard import Token
from gateway.front import FrontEvent, Prompt

logger = logging.getLogger(__name__)

MAX_EVENTS: Final = 10_000
"""Events received and not taken: 12 MB as a rule, 31 MB of the longest messages. Admission refuses
at the same depth."""
OVERHEARD_SHARE: Final = 0.8
"""How full of them it may be for messages that call nobody; the rest is kept for those that do."""

Item = tuple[FrontEvent | Moved, list[Token]]


class Inbox:
    """Events in order, and the channels that are behind.

    Of a channel that is behind a kilobyte is kept, from where to where it must be read: that grows
    with the channels that a gateway hears, not with what is said in them.

    Args:
        limit: how many events it holds.
    """

    def __init__(self, limit: int = MAX_EVENTS) -> None:
        self._limit = limit
        self._overheard = max(1, int(limit * OVERHEARD_SHARE))
        self._queue: asyncio.Queue[Item | None] = asyncio.Queue()
        self._behind: dict[int, tuple[Moved, list[Token]]] = {}

    def put(self, event: FrontEvent | Moved, *tokens: Token) -> bool:
        """Takes an event; False where it does not lie here itself.

        Its tokens are not its own any more then: they, or an earlier one of the channel, are open
        until its history is read.
        """
        channel_id = event.channel_id if isinstance(event, Prompt | Moved) else None
        is_behind = channel_id in self._behind
        is_overheard = isinstance(event, Prompt) and not is_addressed(event)
        limit = self._overheard if is_overheard else self._limit
        if self._queue.qsize() + is_behind < limit:
            if is_behind and channel_id is not None:
                self._bring(channel_id)  # what was said before goes before
            self._queue.put_nowait((event, list(tokens)))
            return True
        match event:
            case Prompt() if is_overheard and not event.text.strip() and not event.attachments:
                _close(tokens)  # without the text it is neither a prompt nor context
            case Prompt(message_id=number):
                moved = Moved(event.channel_id, event.guild_id, number - 1, until=number)
                self._leave(moved, tokens)
            case Moved():
                self._leave(event, tokens)
            case _:
                _close(tokens)
                kind = type(event).__name__
                logger.warning("discord.event_dropped", extra={"limit": limit, "kind": kind})
        return False

    async def get(self) -> Item | None:
        """The next event, with its tokens; None at the end. Cancelled, nothing is taken."""
        item = await self._queue.get()
        while self._behind and self._queue.qsize() < self._overheard:
            self._bring(next(iter(self._behind)))
        return item

    def end(self) -> None:
        """Nothing comes after what came before."""
        self._queue.put_nowait(None)

    def _bring(self, channel_id: int) -> None:
        self._queue.put_nowait(self._behind.pop(channel_id))

    def _leave(self, moved: Moved, tokens: tuple[Token, ...]) -> None:
        """Notes that a channel is behind."""
        if not self._behind:
            logger.warning("discord.behind", extra={"limit": self._limit})
        known, held = self._behind.get(moved.channel_id, (moved, []))
        self._behind[moved.channel_id] = (known.joined(moved), held)
        for token in tokens:
            if any(one.covers(token) for one in held):
                token.close()  # an earlier one holds the marks back already
            else:
                held.append(token)


def _close(tokens: tuple[Token, ...]) -> None:
    for token in tokens:
        token.close()

"""What came from Discord and is not taken yet: within a bound, and without losing a prompt.

Comes in: events, with the tokens that hold their shard's marks back; channels whose history must be
read; what was found there. Goes out: events, those of one channel in order; histories to read, at
their place among what was said in their channel. `gateway.edges.discord_incoming` has one.

What piles up while Redis is away is mostly talk that calls nobody. It gives way first, and is not
looked up afterwards: that would be one request for each channel, and all who called the bot would
wait for these. Who called it and found no room is read in the channel's history, as is every
message of channels where the bot is known to answer all of them.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from typing import Final, cast

from gateway.addressing import is_addressed
from gateway.edges.discord_backfill import Moved
from gateway.edges.discord_shard import Token, close_all
from gateway.front import FrontEvent, Prompt, PromptEdited, PromptsDeleted

logger = logging.getLogger(__name__)

MAX_EVENTS: Final = 10_000
"""Events received and not taken: 12 MB as a rule, 31 MB of the longest messages. Admission refuses
at the same depth."""
OVERHEARD_SHARE: Final = 0.8
"""How full of them it may be for messages that call nobody; the rest is kept for those that do."""
MAX_ALWAYS: Final = 10_000
"""Channels that are remembered as those where every message is a prompt: a megabyte."""

Item = tuple[FrontEvent, list[Token]]
Entry = tuple[FrontEvent | Moved, list[Token]]
Said = Prompt | PromptEdited | PromptsDeleted
"""What keeps its order within a channel: no deletion may come before what it deletes."""


class Inbox:
    """Events in order, and the channels that are late.

    A channel is late from when its history must be read until that is done: what comes there
    meanwhile waits behind it, unless it is passed. Of a history a kilobyte is kept, from where to
    where it must be read: that grows with the channels that a gateway hears, not with what is said
    in them.

    Args:
        limit: how many events it takes from shards. What histories bring comes on top, less than
            as much again: none is given out while so much waits to be taken.
    """

    def __init__(self, limit: int = MAX_EVENTS) -> None:
        self._limit = limit
        self._overheard = max(1, int(limit * OVERHEARD_SHARE))
        self._size = 0
        self._ready: deque[Item] = deque()
        self._late: dict[int, deque[Entry]] = {}
        """By channel; first stands a history."""
        self._due: deque[int] = deque()
        """Late channels whose first history may be read."""
        self._reading: set[int] = set()
        """Those whose first history is read, or waits until it is tried again."""
        self._passed: set[int] = set()
        """Late channels where nothing waits behind a history until it is read again."""
        self._held: dict[int, deque[Item]] = {}
        """Channels whose first prompt waits for a time: nothing of them is given out before."""
        self._held_size = 0
        self._always: OrderedDict[int, None] = OrderedDict()
        self._dropped: int | None = None
        """How many events since it was full; None while there is room."""
        self._is_ended = False
        self._has_events, self._has_reads = asyncio.Event(), asyncio.Event()

    def note_speak(self, channel_id: int, *, is_always: bool) -> None:
        """Notes whether every message of a channel is a prompt, as it held for the last one."""
        self._always.pop(channel_id, None)
        if is_always:
            self._always[channel_id] = None
            if len(self._always) > MAX_ALWAYS:
                self._always.popitem(last=False)

    def put(self, event: FrontEvent | Moved, *tokens: Token) -> bool:
        """Takes an event; False where it does not lie here itself.

        Its tokens are not its own any more then: they, or an earlier one of the channel, are open
        until its history is read; of what is dropped they are closed.
        """
        if isinstance(event, Moved):
            self._leave(event, tokens)
            return False
        is_talk = isinstance(event, Prompt) and not is_addressed(event)
        if self._size < (self._overheard if is_talk else self._limit):
            late = self._late.get(event.channel_id) if isinstance(event, Said) else None
            self._size += 1
            if late is None or event.channel_id in self._passed:
                self._ready.append((event, list(tokens)))
                self._has_events.set()
            else:
                late.append((event, list(tokens)))
            return True
        self._find_full()
        if isinstance(event, Prompt) and not (is_talk and self._is_context(event)):
            number = event.message_id
            self._leave(Moved(event.channel_id, event.guild_id, number - 1, until=number), tokens)
            return False
        close_all(tokens)
        self._dropped = (self._dropped or 0) + 1
        if not is_talk:
            kind = type(event).__name__
            logger.warning("discord.event_dropped", extra={"limit": self._limit, "kind": kind})
        return False

    async def get(self) -> Item | None:
        """The next event, with its tokens; None at the end. Cancelled, nothing is taken."""
        while (item := self._next()) is None and not self._is_ended:
            self._has_events.clear()
            await self._has_events.wait()
        return item

    async def next_history(self) -> tuple[Moved, list[Token]]:
        """A history to read, once there is room for what is found: `found` or `again` follows.

        Cancelled, nothing is taken.
        """
        while not self._due or not self._has_room_to_read:
            self._has_reads.clear()
            await self._has_reads.wait()
        channel_id = self._due.popleft()
        self._reading.add(channel_id)
        self._passed.discard(channel_id)  # what is deleted now may be among what is found
        moved, tokens = self._late[channel_id][0]
        return cast("Moved", moved), tokens  # a history stands first in what is late

    def found(self, channel_id: int, prompts: list[Prompt], rest: Moved | None = None) -> None:
        """Takes a page of the history that was given out, and what is left to read after it."""
        self._size += len(prompts)
        self._ready += [(prompt, []) for prompt in prompts]
        late = self._late[channel_id]
        _, tokens = late.popleft()
        if rest is not None:
            late.appendleft((rest, tokens))
        while late and (item := _event_of(late[0])) is not None:
            self._ready.append(item)
            late.popleft()
        self._has_events.set()
        if late:
            self.read(channel_id)
        else:
            self._reading.discard(channel_id)
            del self._late[channel_id]

    def again(self, moved: Moved, *, is_passed: bool = False) -> None:
        """The history that was given out is read later: `read` says when.

        Passed, what waits behind it is given out, and so is what comes until it is read again.
        """
        late = self._late[moved.channel_id]
        late[0] = (moved, late[0][1])
        if is_passed:
            self._passed.add(moved.channel_id)
            self._ready += [item for entry in late if (item := _event_of(entry)) is not None]
            self._late[moved.channel_id] = deque(
                entry for entry in late if isinstance(entry[0], Moved)
            )
            self._has_events.set()

    def read(self, channel_id: int) -> None:
        """The first history of a channel may be read now."""
        self._reading.discard(channel_id)
        self._due.append(channel_id)
        self._has_reads.set()

    def hold(self, prompt: Prompt) -> bool:
        """Takes a prompt back, and holds its channel until `release`; False if it was held."""
        is_held = prompt.channel_id in self._held
        held = self._held.setdefault(prompt.channel_id, deque())
        later = (at for at, (other, _) in enumerate(held) if _is_said_after(other, prompt))
        held.insert(next(later, len(held)), (prompt, []))
        self._size += 1
        self._held_size += 1
        return not is_held

    def is_held(self, channel_id: int) -> bool:
        """Whether a prompt of the channel was taken back, and waits."""
        return channel_id in self._held

    def release(self, channel_id: int) -> None:
        """Gives a channel out again: what was held comes before what came since."""
        held = self._held.pop(channel_id, deque())
        self._held_size -= len(held)
        self._ready.extendleft(reversed(held))
        self._has_events.set()

    def end(self) -> None:
        """Nothing comes after what lies here now; histories are read no more."""
        self._is_ended = True
        self._has_events.set()

    @property
    def _has_room_to_read(self) -> bool:
        return len(self._ready) + self._held_size < self._overheard

    def _next(self) -> Item | None:
        while self._ready:
            item = self._ready.popleft()
            event = item[0]
            if isinstance(event, Said):
                held = self._held.get(event.channel_id)
                if held is not None:
                    held.append(item)
                    self._held_size += 1
                    continue
            self._size -= 1
            if self._due and self._has_room_to_read:
                self._has_reads.set()
            self._find_room()
            return item
        return None

    def _is_context(self, prompt: Prompt) -> bool:
        """Whether nobody is answered for what calls nobody, as far as is known here."""
        if not prompt.text.strip() and not prompt.attachments:
            return True  # without the text it is no prompt either
        return prompt.channel_id not in self._always and prompt.parent_id not in self._always

    def _leave(self, moved: Moved, tokens: tuple[Token, ...]) -> None:
        """Notes that the history of a channel must be read, after what is known of it."""
        channel_id = moved.channel_id
        late = self._late.get(channel_id)
        if late is None:
            late = self._late[channel_id] = deque([(moved, [])])
            self.read(channel_id)
        else:
            last, held = late[-1]
            is_out = len(late) == 1 and channel_id in self._reading
            if isinstance(last, Moved) and not is_out:
                late[-1] = (last.joined(moved), held)
            else:
                late.append((moved, []))
        held = late[-1][1]
        for token in tokens:
            if any(one.covers(token) for one in held):
                token.close()  # an earlier one holds the marks back already
            else:
                held.append(token)

    def _find_full(self) -> None:
        if self._dropped is None:
            self._dropped = 0
            logger.warning("discord.behind", extra={"limit": self._limit})

    def _find_room(self) -> None:
        """Says what was dropped, once half of the room is free: one line for a time of trouble."""
        if self._dropped is not None and self._size <= self._limit // 2:
            facts = {"dropped": self._dropped, "late_channels": len(self._late)}
            logger.warning("discord.caught_up", extra=facts)
            self._dropped = None


def _event_of(entry: Entry) -> Item | None:
    """What lies behind a history, if it is an event."""
    event, tokens = entry
    return None if isinstance(event, Moved) else (event, tokens)


def _is_said_after(event: FrontEvent, prompt: Prompt) -> bool:
    return isinstance(event, Prompt) and event.message_id > prompt.message_id

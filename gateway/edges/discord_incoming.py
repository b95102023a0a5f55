"""What comes from Discord: events of shards, in order, and what was missed.

Comes in: hikari's events. Goes out: the front's. `gateway.edges.discord` gives them on.

Each event is open in its shard's ledger until it is taken: the mark of life waits for it, and a
session that another process goes on with is resumed before it.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final

import hikari
import msgspec

from gateway.addressing import named
from gateway.edges.discord_backfill import Backfill, Marks, Moved
from gateway.edges.discord_changes import change_of
from gateway.edges.discord_histories import READ_AGAIN_S, Fetch, Histories
from gateway.edges.discord_inbox import MAX_EVENTS, Inbox
from gateway.edges.discord_places import Places
from gateway.edges.discord_prompts import echo_of, prompt_of
from gateway.edges.discord_shard import Ledger, Token, close_all
from gateway.edges.shard_leases import KnownPlaces, Session
from gateway.front import FrontEvent, Prompt, Unavailable
from shared.errors import ConfigError, StoreFull, StoreUnavailable

logger = logging.getLogger(__name__)

RETRY_STORE_S: Final = 0.5
"""How often a server that is away is asked again."""
MAX_HANDED_PLACES: Final = 20_000
"""Threads and marked channels that go with a session: half a megabyte. With more of them the next
gateway begins a new session, which tells it all of them."""
LARGE_PLACES: Final = 2_000
KEEP_LARGE_S: Final = 10.0
"""How often so many are written anew, while they change; their session stands still meanwhile."""


class _Sight:
    """What is known of one shard."""

    def __init__(self, backfill: Backfill, places: Places) -> None:
        self.ledger = Ledger()
        self.backfill = backfill
        self.places = places
        self.kept, self.offered = -1, -1
        """The versions of the places that are kept with the session, and that were offered last."""
        self.offered_s = -KEEP_LARGE_S


class Incoming:
    """The events of a bot's shards, as far as this gateway has them.

    Args:
        marks: what outlives the process.
        names: what calls the bot at the beginning of a message.
        bot_id: our own user.
        fetch: reads a channel's history.
        max_events: how many events wait here to be taken.
    """

    def __init__(
        self,
        marks: Marks,
        names: tuple[str, ...],
        *,
        bot_id: Callable[[], int],
        fetch: Fetch,
        max_events: int = MAX_EVENTS,
    ) -> None:
        self._marks = marks
        self._names = names
        self._bot_id = bot_id
        self._count = 1
        self._sights: dict[int, _Sight] = {}
        self._inbox = Inbox(max_events)
        self._histories = Histories(self._inbox, fetch, self._missed, self._note)
        self._untaken: dict[int, list[Token]] = {}
        self._tries: dict[int, int] = {}
        self._refused: ConfigError | None = None

    async def begin_shard(self, shard: int, count: int, session: Session | None) -> None:
        """A shard is ours, or begins again. Raises `StoreUnavailable`, `StoreFull`."""
        backfill = Backfill(self._marks, shard, count)
        await backfill.begin(_now_ms())
        self._count = count
        known = self._sights.get(shard)
        if known is not None:
            known.backfill = backfill
            return
        places = Places()
        if session is not None:
            known_places = session.places or KnownPlaces(parents={})
            places.adopt(known_places.parents, known_places.restricted)
        self._sights[shard] = _Sight(backfill, places)

    def end_shard(self, shard: int, left: Session | None) -> Session | None:
        """A shard is ours no more: its session, up to where everything was taken."""
        sight = self._sights.pop(shard, None)
        if left is None or sight is None:
            return None
        return _as_taken(sight, left)

    def session(self, shard: int, left: Session) -> Session | None:
        """A session as another could resume it now; None leaves the one that is kept.

        Places go along when they are others than those that are kept; large ones now and then.
        """
        sight = self._sights.get(shard)
        if sight is None:
            return None
        sight.offered = sight.kept
        if sight.places.version == sight.kept:
            seq = sight.ledger.until(left.seq)
            return None if seq < 1 else msgspec.structs.replace(left, seq=seq)
        now_s = time.monotonic()
        if sight.places.size > LARGE_PLACES and now_s - sight.offered_s < KEEP_LARGE_S:
            return None
        found = _as_taken(sight, left)
        if found is not None:
            sight.offered, sight.offered_s = sight.places.version, now_s
        return found

    def kept(self, shards: Iterable[int]) -> None:
        """The sessions of these that were asked for last are kept now."""
        for shard in shards:
            if (sight := self._sights.get(shard)) is not None:
                sight.kept = sight.offered

    async def note_alive(self, connected: frozenset[int]) -> None:
        """Moves the marks of life of shards that missed nothing."""
        for shard, sight in list(self._sights.items()):
            if shard in connected and sight.ledger.is_clear:
                try:
                    await sight.backfill.note_alive(_now_ms())
                except (StoreUnavailable, StoreFull):
                    logger.debug("discord.mark_failed")

    async def events(self) -> AsyncIterator[FrontEvent]:
        """What came, and what was missed, until `end`.

        Raises:
            ConfigError: Discord ended the connection for good.
        """
        self._histories.begin()
        while (item := await self._inbox.get()) is not None:
            event, tokens = item
            yield event
            if not isinstance(event, Prompt):
                close_all(tokens)
        if self._refused is not None:
            raise self._refused

    async def handled(self, prompt: Prompt) -> None:
        """A prompt was taken."""
        if prompt.guild_id is None:
            with contextlib.suppress(StoreFull):  # a mark for the next start; the prompt was taken
                await self._marks.note_direct_channel(prompt.channel_id)
        self._tries.pop(prompt.message_id, None)
        close_all(self._untaken.pop(prompt.message_id, []))

    def note_speak(self, channel_id: int, *, is_always: bool) -> None:
        """Notes whether every message of a channel is a prompt."""
        self._inbox.note_speak(channel_id, is_always=is_always)

    def later(self, prompt: Prompt, why: Unavailable) -> None:
        """Gives a prompt again after a while; the mark of life waits for it, as its channel does.

        Where it was tried often enough, the channel goes on without it.
        """
        loop, tries = asyncio.get_running_loop(), self._tries.get(prompt.message_id, 0)
        self._tries[prompt.message_id] = tries + 1
        wait_s = max(READ_AGAIN_S[min(tries, len(READ_AGAIN_S) - 1)], why.retry_after_s or 0.0)
        if tries >= len(READ_AGAIN_S):
            tokens = self._untaken.pop(prompt.message_id, [])
            loop.call_later(wait_s, self._put, prompt, tokens)
        elif self._inbox.hold(prompt):
            loop.call_later(wait_s, self._inbox.release, prompt.channel_id)

    def keeps(self, prompt: Prompt) -> bool:
        """Whether it takes a prompt back, since an earlier one of the channel comes again first.

        Only one that came from here: a command is in no history, and must not wait unadmitted.
        """
        is_kept = prompt.message_id in self._untaken and self._inbox.is_held(prompt.channel_id)
        if is_kept:
            self._inbox.hold(prompt)
        return is_kept

    def is_restricted(self, channel_id: int, parent_id: int | None, guild_id: int | None) -> bool:
        """Whether a channel is marked as age-restricted."""
        places = self._places(guild_id)
        return places is not None and places.is_restricted(channel_id, parent_id)

    async def leave(self) -> None:
        """Reads no history any more: whoever has our shards next reads it. Safe to call twice."""
        await self._histories.end()

    async def end(self, refused: ConfigError | None = None) -> None:
        """Ends `events`, after what came before; with an error, when it shall say why."""
        self._refused = self._refused or refused
        self._inbox.end()
        await self._histories.end()

    async def on_ready(self, event: hikari.ShardReadyEvent) -> None:
        """A session began. Direct messages go to the first shard, and no event lists them."""
        sight = self._sights.get(event.shard.id)
        if sight is None:
            return
        sight.ledger.begin()
        if event.shard.id != 0:
            return
        token = sight.ledger.open()
        direct: list[Moved] | None = None
        while direct is None:
            try:
                direct = await sight.backfill.direct()
            except (StoreUnavailable, StoreFull):
                await asyncio.sleep(RETRY_STORE_S)
        for moved in direct:
            self._inbox.put(moved, token.again())
        token.close()

    async def on_message(self, event: hikari.MessageCreateEvent) -> None:
        """Somebody said something, or we did."""
        sight = self._sights.get(event.shard.id)
        if sight is None:
            return  # whoever has the shard now hears it as well
        token = sight.ledger.open()
        echo = echo_of(event.message, self._bot_id())
        if echo is not None:
            self._inbox.put(echo, token)
            return
        guild_id = (
            int(event.guild_id) if isinstance(event, hikari.GuildMessageCreateEvent) else None
        )
        plain = prompt_of(event.message, self._bot_id(), guild_id)
        prompt = self._placed(plain)
        if prompt.from_bot:
            token.close()
        else:
            self._put(prompt, [token])

    async def on_change(self, event: hikari.Event) -> None:
        """Something is other than it was."""
        sight = self._sights.get(event.shard.id) if isinstance(event, hikari.ShardEvent) else None
        if sight is None:
            return
        sight.places.heed(event)
        change = change_of(event)
        if change is not None:
            self._inbox.put(change, sight.ledger.open())

    async def on_guild(self, event: hikari.GuildAvailableEvent) -> None:
        """A guild came into sight."""
        sight = self._sights.get(event.shard.id)
        if sight is None:
            return
        sight.places.of_guild(event)
        for moved in sight.backfill.of_guild(event):
            self._inbox.put(moved, sight.ledger.open())

    def _put(self, prompt: Prompt, tokens: list[Token]) -> None:
        if self._inbox.put(prompt, *tokens):
            self._note(prompt, tokens)

    def _note(self, prompt: Prompt, tokens: list[Token]) -> None:
        self._untaken.setdefault(prompt.message_id, []).extend(tokens)

    def _missed(self, moved: Moved, found: list[hikari.Message]) -> list[Prompt]:
        plain = [
            prompt_of(message, self._bot_id(), moved.guild_id, backfilled=True) for message in found
        ]
        prompts = [self._placed(prompt) for prompt in plain]
        until = moved.until
        return [
            prompt
            for prompt in prompts
            if not prompt.from_bot and (until is None or prompt.message_id <= until)
        ]

    def _placed(self, prompt: Prompt) -> Prompt:
        places = self._places(prompt.guild_id)
        return named(prompt if places is None else places.placed(prompt), self._names)

    def _places(self, guild_id: int | None) -> Places | None:
        sight = self._sights.get(shard_of(guild_id, self._count))
        return None if sight is None else sight.places


def _as_taken(sight: _Sight, left: Session) -> Session | None:
    """A session up to where everything was taken, with its places; None if it is of no use."""
    seq, places = sight.ledger.until(left.seq), sight.places
    if seq < 1 or places.size > MAX_HANDED_PLACES:
        return None
    known = KnownPlaces(parents=places.parents, restricted=places.restricted)
    return msgspec.structs.replace(left, seq=seq, places=known)


def shard_of(guild_id: int | None, count: int) -> int:
    """The shard that a guild's events come from; direct messages come from the first.

    >>> shard_of(3 << 22, 2), shard_of(None, 2)
    (1, 0)
    """
    return 0 if guild_id is None else (guild_id >> 22) % count


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

"""The one owner of signs of life: typing, and a place in the queue.

Comes in: turns that were admitted, turns that begin to show. Goes out: a typing sign in the turn's
channel, renewed while nothing shows; after ten seconds of waiting a notice of what it waits for,
kept up to date, and taken away when the turn is started. Intake starts signs and delivery stops
them. A notice that a killed gateway has left is looked after by the next one.

A sign lives no longer than `TYPING_TTL_S`, whatever else is lost: bots in the wild were seen typing
for hours. Failures are ignored.
"""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Coroutine
from typing import Final, Protocol

import msgspec

from gateway.front import Button, ChannelFront, OutgoingMessage, Sent, Unavailable

REFRESH_S: Final = 8.0
"""Discord's sign lasts ten seconds."""
TYPING_TTL_S: Final = 330.0
"""The turn's deadline of 300 s, and half a minute in the queue."""
SILENCE_S: Final = 10.0
"""Who waits longer is told for what."""
TAKE_AWAY_S: Final = 5.0
"""What taking a notice away gets, while the gateway may be ending."""
LOOK_AT_MESSAGES: Final = 50
"""One request: so much is said in a channel while somebody waits."""
MAX_ENDED: Final = 1_000
"""Turns remembered as shown: what a gateway answers within some seconds."""

logger = logging.getLogger(__name__)


class WaitingPort(Protocol):
    """What is known of turns that wait. It never raises."""

    async def words(self, turn_id: str, locale: str) -> str | None:
        """What a person is told of a waiting turn; None once it does not wait any more.

        The empty text leaves things as they are: nobody knows, or there is nothing to say.
        """
        ...

    async def is_answered(self, turn_id: str) -> bool:
        """Whether something of the answer is there, whichever gateway shows it."""
        ...

    def nonce(self, turn_id: str, nth: int) -> str:
        """The nonce of a turn's first notice, or of a further one after it was taken away."""
        ...

    def buttons(self, turn_id: str, locale: str) -> tuple[Button, ...]:
        """What may be pressed below the notice."""
        ...

    async def remember(self, left: "Left") -> None:
        """Keeps where a notice stands, for whoever comes after a gateway that died."""
        ...

    async def forget(self, turn_id: str) -> None:
        """The turn has no notice any more."""
        ...


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """A notice as it stands in a channel, or, while it has no `message_id` yet, may stand there.

    `nth` is the number in its nonce; by `text` and `reply_to` it is found without its id.
    """

    turn_id: str
    channel_id: int
    message_id: int = 0
    locale: str = "en"
    nth: int = 0
    text: str = ""
    reply_to: int | None = None


class _Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt that waits for its reply."""

    turn_id: str
    channel_id: int
    reply_to: int | None
    locale: str


class Typist:
    """Signs by turn.

    Args:
        waiting: what is known of turns that wait; None says nothing of a place in the queue.
        refresh_s: how often a sign is renewed.
        silence_s: after how long a person is told what the turn waits for.
    """

    def __init__(
        self,
        waiting: WaitingPort | None = None,
        *,
        refresh_s: float = REFRESH_S,
        silence_s: float = SILENCE_S,
    ) -> None:
        self._waiting = waiting
        self._refresh_s = refresh_s
        self._silence_s = silence_s
        self._signs: dict[str, asyncio.Task[None]] = {}
        self._clearing: set[asyncio.Task[None]] = set()
        self._group: asyncio.TaskGroup | None = None
        self._ended: OrderedDict[str, None] = OrderedDict()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keeps the signs while the block runs, and ends them with it."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                yield
            finally:
                self._group = None
                for task in (*self._signs.values(), *self._clearing):
                    task.cancel()

    def start(
        self,
        turn_id: str,
        front: ChannelFront,
        channel_id: int,
        *,
        reply_to: int | None = None,
        locale: str = "en",
    ) -> None:
        """Shows the sign for a turn, unless it shows already."""
        if self._group is None or turn_id in self._signs or turn_id in self._ended:
            return
        prompt = _Prompt(turn_id=turn_id, channel_id=channel_id, reply_to=reply_to, locale=locale)
        self._watch(turn_id, self._show(front, prompt))

    def adopt(self, front: ChannelFront, left: Left) -> None:
        """Looks after the notice of a gateway that died, without a typing sign."""
        if self._group is None or self._waiting is None or left.turn_id in self._signs:
            return
        prompt = _Prompt(
            turn_id=left.turn_id,
            channel_id=left.channel_id,
            reply_to=left.reply_to,
            locale=left.locale,
        )
        notice = _Notice(front, prompt, self._waiting, left=left)
        self._watch(left.turn_id, self._keep(notice))

    def stop(self, turn_id: str) -> None:
        """Ends the signs of a turn; harmless for one that has none."""
        self._ended[turn_id] = None  # a quick answer may come before its sign was started
        while len(self._ended) > MAX_ENDED:
            self._ended.popitem(last=False)
        if (task := self._signs.get(turn_id)) is not None:
            task.cancel()

    def _watch(self, turn_id: str, work: Coroutine[None, None, None]) -> None:
        assert self._group is not None  # noqa: S101 - the callers have looked
        task = self._group.create_task(work, name=f"typing {turn_id}")
        self._signs[turn_id] = task
        task.add_done_callback(lambda _: self._signs.pop(turn_id, None))

    async def _keep(self, notice: "_Notice") -> None:
        try:
            for _ in range(int(TYPING_TTL_S / REFRESH_S)):
                await notice.refresh()
                if not notice.is_left:
                    return
                await asyncio.sleep(self._refresh_s)
        finally:
            await notice.take_away()
            self._clear(notice)

    def _clear(self, notice: "_Notice") -> None:
        """Goes on taking a notice away after its sign has ended; else it would stay for ever."""
        if self._group is None or not notice.is_left:
            return  # the next gateway finds it
        task = self._group.create_task(self._take_away(notice), name="clear a notice")
        self._clearing.add(task)
        task.add_done_callback(self._clearing.discard)

    async def _take_away(self, notice: "_Notice") -> None:
        for _ in range(int(TYPING_TTL_S / REFRESH_S)):
            await asyncio.sleep(self._refresh_s)
            await notice.take_away()
            if not notice.is_left:
                return
        logger.warning("place.left", extra={"turn_id": notice.turn_id})

    async def _show(self, front: ChannelFront, prompt: _Prompt) -> None:
        notice = None if self._waiting is None else _Notice(front, prompt, self._waiting)
        try:
            for n in range(int(TYPING_TTL_S / REFRESH_S)):
                if n and await self._is_answered(prompt.turn_id):
                    return  # by another gateway, whose delivery knows nothing of this sign
                await front.typing(prompt.channel_id)
                left_s = self._silence_s - n * self._refresh_s
                if notice is not None and left_s < self._refresh_s:
                    await asyncio.sleep(max(0.0, left_s))
                    await notice.refresh()
                    await asyncio.sleep(min(self._refresh_s, self._refresh_s - left_s))
                else:
                    await asyncio.sleep(self._refresh_s)
        finally:
            if notice is not None:
                await notice.take_away()
                self._clear(notice)

    async def _is_answered(self, turn_id: str) -> bool:
        return self._waiting is not None and await self._waiting.is_answered(turn_id)


class _Notice:
    """The notice of one waiting turn: none, perhaps there, shown, or taken away."""

    def __init__(
        self,
        front: ChannelFront,
        prompt: _Prompt,
        waiting: WaitingPort,
        *,
        left: Left | None = None,
    ) -> None:
        self._front = front
        self._prompt = prompt
        self._waiting = waiting
        self._said: str | None = None
        self._message_id = left.message_id or None if left else None
        self._posted = 0 if left is None else left.nth + (self._message_id is not None)
        self._posting: asyncio.Task[None] | None = None
        self._is_remembered = left is not None
        self._doubtful = left.text if left and self._message_id is None else None
        """The text of a post whose receipt was lost."""

    @property
    def turn_id(self) -> str:
        """Whose it is."""
        return self._prompt.turn_id

    @property
    def _buttons(self) -> tuple[Button, ...]:
        return self._waiting.buttons(self._prompt.turn_id, self._prompt.locale)

    @property
    def is_shown(self) -> bool:
        """Whether the channel shows it."""
        return self._message_id is not None

    @property
    def is_left(self) -> bool:
        """Whether the channel shows it, or may."""
        return self.is_shown or self._doubtful is not None

    async def refresh(self) -> None:
        """Shows what the turn waits for now; takes the notice away once it waits no more.

        Cancelled, a post goes on, so that what it has posted is known.
        """
        words = await self._waiting.words(self._prompt.turn_id, self._prompt.locale)
        if words is None:
            await self.take_away()
        elif not words:
            return
        elif self._message_id is None:
            self._posting = asyncio.create_task(self._post(words), name="place in the queue")
            await asyncio.shield(self._posting)
        elif words != self._said:
            self._said = words
            await self._front.edit(
                self._prompt.channel_id,
                self._message_id,
                words,
                is_notice=True,
                buttons=self._buttons,
            )

    async def take_away(self) -> None:
        """Deletes the notice, if there is one."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TAKE_AWAY_S):
                if self._posting is not None:
                    await asyncio.wait({self._posting})
                if self._message_id is None and self._doubtful is not None:
                    await self._find(self._doubtful)
                if self._message_id is not None:
                    outcome = await self._front.delete(self._prompt.channel_id, self._message_id)
                    if isinstance(outcome, Unavailable):
                        return  # it is tried again, if need be by the next gateway
                    self._message_id = None
                if self._is_remembered and not self.is_left:
                    self._is_remembered = False
                    await self._waiting.forget(self._prompt.turn_id)
        self._posting = None

    async def _find(self, words: str) -> None:
        """Looks whether a post without a receipt has arrived."""
        prompt = self._prompt
        if prompt.reply_to is None:
            self._doubtful = None  # there is no place from which to look
            return
        nonce = self._waiting.nonce(prompt.turn_id, self._posted)
        shown = await self._front.history(
            prompt.channel_id, after=prompt.reply_to, limit=LOOK_AT_MESSAGES
        )
        if isinstance(shown, Unavailable):
            return
        self._doubtful = None
        for message in shown or ():
            if message.is_own and (message.nonce == nonce or message.text == words):
                self._message_id = message.message_id

    async def _post(self, words: str) -> None:
        prompt = self._prompt
        message = OutgoingMessage(
            channel_id=prompt.channel_id,
            text=words,
            nonce=self._waiting.nonce(prompt.turn_id, self._posted),
            reply_to=prompt.reply_to,
            is_notice=True,
            buttons=self._buttons,
        )
        # Before it is sent: whoever comes after a gateway that dies now has to look for it.
        await self._remember(words)
        outcome = await self._front.send(message)
        self._doubtful = words if isinstance(outcome, Unavailable) else None
        if isinstance(outcome, Sent):
            self._message_id, self._said = outcome.message_id, words
            await self._remember(words)
            self._posted += 1
        else:
            logger.debug("place.not_said", extra={"outcome": type(outcome).__name__})

    async def _remember(self, words: str) -> None:
        prompt, self._is_remembered = self._prompt, True
        await self._waiting.remember(
            Left(
                turn_id=prompt.turn_id,
                channel_id=prompt.channel_id,
                message_id=self._message_id or 0,
                locale=prompt.locale,
                nth=self._posted,
                text=words,
                reply_to=prompt.reply_to,
            )
        )

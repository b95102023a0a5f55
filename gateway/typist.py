"""The one owner of signs of life: typing, and a place in the queue.

Comes in: turns that were admitted, turns that begin to show. Goes out: a typing sign in the turn's
channel, renewed while nothing shows; after ten seconds of waiting a notice of what it waits for,
kept up to date, and taken away when the turn is started. Intake starts signs and delivery stops
them. A notice is its gateway's alone; one whose gateway is gone is looked after by the next one,
while the turn has a sign of its own there.

A sign lives no longer than `TYPING_TTL_S`, whatever else is lost: bots in the wild were seen typing
for hours. Failures are ignored.
"""

import asyncio
import contextlib
import enum
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Coroutine
from typing import Final, Protocol

import msgspec

from gateway.front import (
    Button,
    ChannelFront,
    Outcome,
    OutgoingMessage,
    Refusal,
    Refused,
    Sent,
    Unavailable,
)

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


class Elsewhere(enum.StrEnum):
    """Whose notice of a turn there is, where it is nobody's to take over."""

    NONE = "none"
    """Nobody's."""
    KEPT = "kept"
    """A living gateway's, or nobody knows."""


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

    async def elsewhere(self, turn_id: str) -> "Left | Elsewhere":
        """The notice of a turn as it is kept, if its gateway is gone."""
        ...


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """A notice as it stands in a channel, or, while it has no `message_id` yet, may stand there.

    `nth` is the number in its nonce; by `text` and `reply_to` it is found without its id. Without
    either, nothing was said yet.
    """

    turn_id: str
    channel_id: int
    message_id: int = 0
    locale: str = "en"
    nth: int = 0
    text: str = ""
    reply_to: int | None = None
    gateway: str = ""
    """The process that looks after it; the port fills it in, and knows whether it lives."""


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
        self._kept: dict[str, asyncio.Task[None]] = {}
        self._others: set[asyncio.Task[None]] = set()
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
                for task in (*self._signs.values(), *self._others):
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
        prompt = Left(turn_id=turn_id, channel_id=channel_id, reply_to=reply_to, locale=locale)
        task = self._group.create_task(self._show(front, prompt), name=f"typing {turn_id}")
        self._signs[turn_id] = task
        task.add_done_callback(lambda _: self._signs.pop(turn_id, None))

    def adopt(self, front: ChannelFront, left: Left) -> None:
        """Looks after the notice of another gateway once that one is gone; it types no sign."""
        if self._group is not None and self._waiting is not None:
            self._beside(self._adopt(front, left.turn_id, self._waiting), "keep a notice")

    def stop(self, turn_id: str) -> None:
        """Ends the signs of a turn; harmless for one that has none."""
        self._ended[turn_id] = None  # a quick answer may come before its sign was started
        while len(self._ended) > MAX_ENDED:
            self._ended.popitem(last=False)
        for tasks in (self._signs, self._kept):
            if (task := tasks.get(turn_id)) is not None:
                task.cancel()

    def _beside(self, work: Coroutine[None, None, None], name: str) -> None:
        assert self._group is not None  # noqa: S101 - the callers have looked
        task = self._group.create_task(work, name=name)
        self._others.add(task)
        task.add_done_callback(self._others.discard)

    async def _adopt(self, front: ChannelFront, turn_id: str, waiting: WaitingPort) -> None:
        """Waits for the end of the gateway that has posted a notice; an orderly one deletes it."""
        for _ in range(int(TYPING_TTL_S / REFRESH_S)):
            left = await waiting.elsewhere(turn_id)
            if isinstance(left, Left):
                await waiting.remember(left)  # from here on it is ours
                await self._keep(_Notice(front, left, waiting, is_remembered=True))
                return
            if left is Elsewhere.NONE:
                return
            await asyncio.sleep(self._refresh_s)

    async def _keep(self, notice: "_Notice") -> None:
        task, turn_id = asyncio.current_task(), notice.turn_id
        assert task is not None  # noqa: S101 - a coroutine of a task
        self._kept[turn_id] = task
        try:
            for _ in range(int(TYPING_TTL_S / REFRESH_S)):
                if turn_id in self._ended:
                    return
                await notice.refresh()
                if not notice.is_left:
                    return
                await asyncio.sleep(self._refresh_s)
        finally:
            self._kept.pop(turn_id, None)
            await notice.take_away()
            self._clear(notice)

    def _clear(self, notice: "_Notice") -> None:
        """Goes on taking a notice away after its sign has ended; else it would stay for ever."""
        if self._group is None or not notice.is_left:
            return  # the next gateway finds it
        self._beside(self._take_away(notice), "clear a notice")

    async def _take_away(self, notice: "_Notice") -> None:
        for _ in range(int(TYPING_TTL_S / REFRESH_S)):
            await asyncio.sleep(self._refresh_s)
            await notice.take_away()
            if not notice.is_left:
                return
        logger.warning("place.left", extra={"turn_id": notice.turn_id})

    async def _show(self, front: ChannelFront, prompt: Left) -> None:
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
        prompt: Left,
        waiting: WaitingPort,
        *,
        is_remembered: bool = False,
    ) -> None:
        self._front = front
        self._prompt = prompt
        self._waiting = waiting
        self._said: str | None = None
        self._message_id = prompt.message_id or None
        self._posted = prompt.nth + (self._message_id is not None)
        self._posting: asyncio.Task[None] | None = None
        self._is_remembered = is_remembered
        self._doubtful = prompt.text or None if self._message_id is None else None
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
            await self._say(words)
        elif words != self._said:
            self._said = words
            outcome = await self._front.edit(
                self._prompt.channel_id,
                self._message_id,
                words,
                is_notice=True,
                buttons=self._buttons,
            )
            if _is_gone(outcome):  # somebody has deleted it
                self._message_id = None
                await self._say(words)

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

    async def _say(self, words: str) -> None:
        """Posts, unless the turn has a notice of another gateway, or of one that is gone."""
        if not self._is_remembered:
            turn_id = self._prompt.turn_id
            if await self._waiting.elsewhere(turn_id) is not Elsewhere.NONE:
                return
        self._posting = asyncio.create_task(self._post(words), name="place in the queue")
        await asyncio.shield(self._posting)

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
            # An earlier gateway used the nonce for a notice that it took away.
            self._posted += _is_gone(outcome)
            logger.debug("place.not_said", extra={"outcome": type(outcome).__name__})

    async def _remember(self, words: str) -> None:
        prompt, self._is_remembered = self._prompt, True
        await self._waiting.remember(
            msgspec.structs.replace(
                prompt, message_id=self._message_id or 0, nth=self._posted, text=words
            )
        )


def _is_gone(outcome: Outcome) -> bool:
    return isinstance(outcome, Refused) and outcome.refusal is Refusal.GONE

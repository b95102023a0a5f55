"""One step, carried to a front through outages, rate limits and refusals.

Comes in: a step of the sequencer and where it goes. Goes out: its final outcome, or None when it
came too late. `gateway.delivery.partition` drives it. Waiting here stalls one channel only.
"""

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, assert_never

import msgspec

from gateway.delivery.ports import Clock
from gateway.front import (
    Boundless,
    Budget,
    ChannelFront,
    Echo,
    Outcome,
    OutgoingMessage,
    Rank,
    Refusal,
    Refused,
    Sent,
    ShownMessage,
    Unavailable,
    Voice,
)
from gateway.snowflakes import snowflake_at
from gateway.steps import Erase, Post, Rewrite, Step
from shared.turns import Front, Route

logger = logging.getLogger(__name__)

BACKOFF_S: Final = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Waits after failures: short for a hiccup, and half a minute in all before probing begins."""
PROBE_S: Final = 40.0
"""How often a front that stays away is asked again: each half to one minute, jitter included."""
NONCE_TRUST_S: Final = 90.0
"""A repeated nonce is surely recognized for this long; Discord says only "a few minutes"."""
CLOCKS_DIFFER_S: Final = 30.0
"""So much Discord's clock may be behind ours: what is older was said before the first try."""
HISTORY_LIMIT: Final = 50
"""Messages looked at for a post whose fate is unknown: one request, and more than a reply has."""
MAX_LASTS: Final = 2_000
"""Channels whose last message of ours is remembered: more than get one in half a minute, and what
was said before that is no question (`CLOCKS_DIFFER_S`)."""
MAX_ECHOES: Final = 1_000
"""Own messages remembered from the socket: what a gateway sends in some 20 s at most."""


class Echoes:
    """Own messages as seen on the socket, by nonce: receipts for posts whose answers were lost."""

    def __init__(self) -> None:
        self._by_nonce: OrderedDict[str, int] = OrderedDict()

    def absorb(self, echo: Echo) -> None:
        """Takes an echo; the oldest goes when there are too many."""
        self._by_nonce[echo.nonce] = echo.message_id
        while len(self._by_nonce) > MAX_ECHOES:
            self._by_nonce.popitem(last=False)

    def find(self, nonce: str) -> int | None:
        """The message that came with a nonce."""
        return self._by_nonce.get(nonce)


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A step with all that its delivery needs. `expires_s`: later than this nobody waits for it.

    `has_permit`: the right to its first request was had already. `refers`: it is shown as an answer
    to the prompt, where it is the first message.
    """

    step: Step
    route: Route
    expires_s: float
    is_notice: bool = False
    has_permit: bool = False
    refers: bool = True


class Courier:
    """Carries steps to one front.

    Args:
        front: where to.
        clock: the time.
        echoes: receipts that arrived by the socket.
        jitter: a factor for each wait, around 1, so that channels do not ask in step.
        budget: how many requests the front takes.
        voice_of: who speaks in a turn; None is the front itself.
    """

    def __init__(
        self,
        front: ChannelFront,
        *,
        clock: Clock,
        echoes: Echoes,
        jitter: Callable[[], float],
        budget: Budget | None = None,
        voice_of: Callable[[Route], Voice] | None = None,
    ) -> None:
        self._voice_of = voice_of or (lambda _: front)
        self._clock = clock
        self._echoes = echoes
        self._jitter = jitter
        self._budget = budget or Boundless()
        self._lasts: OrderedDict[int, int] = OrderedDict()

    def last_in(self, channel_id: int) -> int | None:
        """The last message that was carried into a channel, as far as it is remembered."""
        return self._lasts.get(channel_id)

    @property
    def load(self) -> float:
        """How much is asked of the front, as a part of what it allows."""
        return self._budget.load

    async def permit(self, rank: Rank) -> None:
        """Waits for the right to one request, before it is decided what the request says."""
        await self._budget.permit(rank)

    async def may(self, rank: Rank) -> bool:
        """Whether one request may be made now; it is counted if so."""
        return await self._budget.may(rank)

    async def disarm(self, route: Route, message_id: int) -> Outcome:
        """Takes the buttons of a message away, by one request, whose right was had before."""
        return await self._voice_of(route).disarm(route.channel_id, message_id)

    async def carry(
        self, letter: Letter, confirm: Callable[[], Awaitable[None]]
    ) -> Sent | Refused | None:
        """Tries until the front says yes or never; None when the letter expired first.

        Args:
            letter: the step.
            confirm: asked before each try whether it is still ours; raises when it is not. Nonces
                forbid a second post, but nothing else keeps a gateway that was stalled from
                putting an old text into a message that its successor has rewritten since.

        Cancelled, the step may or may not have happened; the journal's slot tells to ask again.
        """
        failures = 0
        started_s = self._clock.now_s()
        is_doubtful = isinstance(letter.step, Post) and letter.step.since_ms is not None
        has_permit = letter.has_permit
        while self._clock.now_s() < letter.expires_s:
            found = await self._find(letter, started_s) if is_doubtful else None
            if isinstance(found, Sent):
                return self._noted(letter, found)
            if found is None or failures >= len(BACKOFF_S):
                if not has_permit:
                    await self._budget.permit(rank_of(letter))
                has_permit = False
                await confirm()
                outcome = await self._attempt(letter)
                if letter.refers and _is_of_reference(outcome):
                    # To answer needs the right to read history; to say something does not.
                    letter = msgspec.structs.replace(letter, refers=False)
                    continue
                if not isinstance(outcome, Unavailable):
                    return self._noted(letter, outcome)
                found, has_permit = outcome, outcome.is_limited
                is_doubtful = is_doubtful or not outcome.is_limited
            if found.retry_after_s is None:
                failures += 1
            wait_s = self._wait_s(found, failures)
            logger.debug(
                "delivery.waiting",
                extra={"reason": found.reason, "status": found.status, "wait_s": wait_s},
            )
            await self._clock.sleep(min(wait_s, letter.expires_s - self._clock.now_s()))
        return None

    def _noted(self, letter: Letter, outcome: Sent | Refused) -> Sent | Refused:
        if isinstance(letter.step, Post) and isinstance(outcome, Sent):
            channel_id = letter.route.channel_id
            last = max(outcome.message_id, self._lasts.pop(channel_id, 0))
            self._lasts[channel_id] = last
            while len(self._lasts) > MAX_LASTS:
                self._lasts.popitem(last=False)
        return outcome

    def _wait_s(self, outcome: Unavailable, failures: int) -> float:
        if outcome.retry_after_s is not None:
            return outcome.retry_after_s
        base = BACKOFF_S[failures - 1] if failures <= len(BACKOFF_S) else PROBE_S
        return base * self._jitter()

    async def _attempt(self, letter: Letter) -> Outcome:
        step, channel_id = letter.step, letter.route.channel_id
        voice = self._voice_of(letter.route)
        match step:
            case Post():
                return await self._post(step, letter)
            case Rewrite():
                return await voice.edit(
                    channel_id,
                    step.message_id,
                    step.text,
                    is_notice=letter.is_notice,
                    files=step.files,
                    buttons=step.buttons,
                )
            case Erase():
                if step.message_id is None:
                    return Sent(message_id=0)
                return await voice.delete(channel_id, step.message_id)
            case _:
                assert_never(step)

    async def _post(self, step: Post, letter: Letter) -> Outcome:
        message = OutgoingMessage(
            channel_id=letter.route.channel_id,
            text=step.text,
            nonce=step.nonce,
            files=step.files,
            buttons=step.buttons,
            reply_to=letter.route.reply_to if letter.refers and step.slot == 0 else None,
            is_notice=letter.is_notice,
        )
        return await self._voice_of(letter.route).send(message)

    async def _find(self, letter: Letter, started_s: float) -> Sent | Unavailable | None:
        """Looks for a post that may have arrived: by its echo, and when old in the history.

        A history that cannot be read now is asked again for a while: it is what tells.
        """
        step = letter.step
        if not isinstance(step, Post):
            return None
        if (message_id := self._echoes.find(step.nonce)) is not None:
            return Sent(message_id=message_id, deduplicated=True)
        since_s = started_s if step.since_ms is None else step.since_ms / 1000
        has_nonce = letter.route.speaker is None or letter.is_notice
        if has_nonce and self._clock.now_s() - since_s < NONCE_TRUST_S:
            return None
        # What was ours before it was begun is another message, however much it looks like this one.
        known = (step.previous_id, step.after_id, letter.route.reply_to)
        if not (places := [place for place in known if place is not None]):
            return None
        after = max(places)
        if letter.route.front is Front.DISCORD:
            # A prompt may be old: what others said since then fills pages, and may read the same.
            after = max(after, snowflake_at(int((since_s - CLOCKS_DIFFER_S) * 1000)))
        voice = self._voice_of(letter.route)
        shown = await voice.history(letter.route.channel_id, after=after, limit=HISTORY_LIMIT)
        if isinstance(shown, Unavailable):
            return shown
        for message in shown or ():
            if message.is_own and (message.nonce == step.nonce or _looks_like(message, step)):
                return Sent(message_id=message.message_id, deduplicated=True)
        # Unknown after all. A reply that is missing is worse than one that may be there twice.
        logger.warning("delivery.redelivered", extra={"channel_id": letter.route.channel_id})
        return None


def _looks_like(message: ShownMessage, step: Post) -> bool:
    """Whether a message may be what a step posted: its text, and as many files of those names."""
    if message.text.strip() != step.text.strip():  # Discord takes white space from both ends
        return False
    names = [file.name for file in step.files]
    return len(names) == len(message.files) and all(map(_is_name_of, message.files, names))


def _is_name_of(shown: str, name: str) -> bool:
    """Whether a file has a name; Discord leaves out of it what is not for every system."""
    return not name.isascii() or _plain(shown) == _plain(name)


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name))


def _is_of_reference(outcome: Outcome) -> bool:
    return isinstance(outcome, Refused) and outcome.refusal is Refusal.REFERENCE


def rank_of(letter: Letter) -> Rank:
    """What the requests of a letter are worth."""
    if not isinstance(letter.step, Post):
        return Rank.EDIT
    if letter.is_notice:
        return Rank.NOTICE
    return Rank.FURTHER if letter.step.slot else Rank.FIRST

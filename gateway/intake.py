"""From a prompt to a turn in the queue.

Comes in: events of a front. Goes out: turn requests, to admission; typing signs; a notice where a
prompt cannot be taken; echoes, to delivery. `gateway.app` runs one per front.

A prompt is noted as handled only when admission has answered: until then it comes again after a
crash, and the turn's id, made of the message's, makes one turn of both. One that trips over a bug
would come again for ever and take all others with it: it is reported, answered and noted as
handled.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Protocol, TypeVar

from gateway.addressing import is_addressed, text_without_call, turn_id_of
from gateway.context import PACE_NOTICES, Paced, PacePort, may_speak, place_of, request_of
from gateway.front import (
    Boundless,
    Budget,
    ChannelFront,
    Echo,
    FrontEvent,
    OutgoingMessage,
    Prompt,
    Refused,
    Unavailable,
)
from gateway.notices import (
    AGE_RESTRICTED,
    BUSY,
    EMPTY_PROMPT,
    FAILED,
    NOT_ALLOWED,
    TOO_LARGE,
    NoticeRates,
    Notices,
)
from gateway.ports import Admit, Heed, Marks
from gateway.prompt_lanes import PromptLanes
from gateway.steps import nonce_of
from gateway.telling import INTAKE_CLAIM, NOTICES, Teller
from gateway.typist import Typist
from shared.configuration.choices import (
    ChoicesPort,
    Denial,
    Settled,
    Speak,
    denial,
    needs_roles,
)
from shared.errors import ConfigError, RequestTooLarge, StoreError, StoreFull, StoreUnavailable
from shared.turns import Admission

logger = logging.getLogger(__name__)

RETRY_STORE_S: Final = 0.5
"""How often admission is asked again while Redis is away: the prompt waits, it is not lost."""
REFUSED_TRIES: Final = 10
"""How often a command is asked again that a server refuses although it is well: it may be a moment
of its own, such as a change of servers, or this one prompt, which must not stop its channel."""
BUSY_LOAD: Final = 0.95
"""Above this part of the front's request budget no further turn is taken."""

T = TypeVar("T")
Tell = Callable[[Exception, FrontEvent], Awaitable[None]]
"""Reports what an event tripped over; never raises."""


async def to_nobody(error: Exception, event: FrontEvent) -> None:
    """Where nobody reads reports: the line in the log is what is left."""
    del error, event


class Records(Marks, Protocol):
    """What is known of prompts and channels. Every call may raise `StoreUnavailable`."""

    async def is_blocked(self, channel_id: int) -> bool:
        """Whether the channel refused us not long ago."""
        ...

    async def is_known(self, turn_id: str) -> bool:
        """Whether a prompt became a turn or was declined."""
        ...


class MemoryPort(Protocol):
    """What keeps what is said. It never raises."""

    async def seen(self, prompt: Prompt) -> None:
        """Keeps a person's message, whether it is answered or not."""
        ...


class Intake:
    """Takes the prompts of one front.

    Args:
        front: whose events these are.
        admit: takes turns.
        records: what is known of prompts and channels.
        typist: owner of the typing signs.
        notices: what is said instead of an answer.
        choices: what holds for a prompt: model, manners, who may talk.
        pace: how much one person may ask at once.
        memory: keeps what is said, for the models to read.
        absorb: takes echoes of our own messages.
        heed: takes edits, deletions, and places that go away.
        budget: how many requests the front takes.
        tell: takes reports of events that trip over a bug.
        now_ms: the time in milliseconds.
        sleep: waits.
    """

    def __init__(
        self,
        front: ChannelFront,
        admit: Admit,
        records: Records,
        typist: Typist,
        notices: Notices,
        choices: ChoicesPort,
        pace: PacePort,
        memory: MemoryPort,
        *,
        absorb: Callable[[Echo], None],
        heed: Heed,
        budget: Budget | None = None,
        tell: Tell = to_nobody,
        now_ms: Callable[[], int],
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._front = front
        self._admit = admit
        self._records = records
        self._typist = typist
        self._notices = notices
        self._choices = choices
        self._pace = pace
        self._memory = memory
        self._absorb = absorb
        self._heed = heed
        self._budget = budget or Boundless()
        self._tell = tell
        self._now_ms = now_ms
        self._sleep = sleep
        self._teller = Teller(front, self._budget, sleep)
        self._rates = NoticeRates()

    async def run(self) -> None:
        """Takes events until the front closes.

        Cancelled, it leaves the prompts in hand unhandled; they come again.

        Raises:
            ConfigError: the front or the store refuses us, whatever was asked.
        """
        async with asyncio.TaskGroup() as answering:

            async def take(prompt: Prompt) -> None:
                notice = await self.take(prompt)
                if notice is not None:
                    # A channel under a rate limit must not stop the prompts of others.
                    answering.create_task(self._say_why(prompt, notice), name="decline")

            lanes = PromptLanes(answering, take)
            async for event in self._front.events():
                if isinstance(event, Prompt):
                    await lanes.put(event)
                    continue
                try:
                    if isinstance(event, Echo):
                        self._absorb(event)
                    else:
                        await lanes.empty(event.channel_id)  # what it changes was taken by then
                        await self._heed(event, self._front.bot_id)
                except ConfigError:
                    raise
                except Exception as exc:  # noqa: BLE001 - one event must not end the gateway
                    await self._tripped(exc, event)

    async def take(self, prompt: Prompt) -> str | None:
        """Takes one prompt, however long Redis is away.

        Returns:
            The key of what must be said instead of an answer; the prompt is handled when it was.
        """
        is_meant = False
        try:
            await self._remember(prompt)
            settled = await self._stored(partial(self._settled, prompt))
            is_meant = settled is not None
            notice = None
            if settled is not None:
                known = await self._with_roles(prompt, settled)
                if known is None:
                    return None
                notice = await self._stored(partial(self._notice_or_turn, known, settled))
            if notice is None:
                await self._stored(partial(self._front.handled, prompt))
        except ConfigError:
            raise
        except Exception as exc:  # noqa: BLE001 - one prompt must not end the gateway
            await self._tripped(exc, prompt)
            return await self._given_up(prompt, is_meant=is_meant or _is_called(prompt))
        return notice

    async def _stored(self, call: Callable[[], Awaitable[T]]) -> T:
        """Asks Redis until it answers. Only for calls that may be repeated, as all here are.

        Raises:
            StoreError: the server is well and goes on refusing this.
        """
        refused = 0
        while True:
            try:
                return await call()
            except (StoreUnavailable, StoreFull) as exc:
                logger.debug("intake.store_waits", extra={"error": str(exc)})
            except StoreError as exc:
                refused += 1
                if refused >= REFUSED_TRIES:
                    raise
                logger.debug("intake.store_waits", extra={"error": str(exc)})
            await self._sleep(RETRY_STORE_S)

    async def _remember(self, prompt: Prompt) -> None:
        try:
            await self._memory.seen(prompt)
        except ConfigError:
            raise
        except Exception as exc:  # noqa: BLE001 - the prompt is answered without
            await self._tripped(exc, prompt)

    async def _given_up(self, prompt: Prompt, *, is_meant: bool) -> str | None:
        """The notice for who meant the bot, unless a turn was made; without one it is handled.

        Where the store goes on refusing, the prompt stays pending: it comes again, and is not lost.
        One by a command never does: who gave it hears of it now.
        """
        try:
            notice = await self._stored(partial(self._once, prompt, FAILED)) if is_meant else None
            if notice is None:
                await self._stored(partial(self._front.handled, prompt))
        except ConfigError:
            raise
        except Exception as exc:  # noqa: BLE001 - one prompt must not end the gateway
            _log_left(prompt, exc)
            if not isinstance(exc, StoreError):
                with contextlib.suppress(Exception):  # the bug is reported; here is its last chance
                    await self._front.handled(prompt)
            return FAILED if prompt.turn_id is not None else None
        return notice

    async def _tripped(self, error: Exception, event: FrontEvent) -> None:
        """Logs and reports a bug. The line has no words of the error: it may quote the prompt."""
        facts = {"event": type(event).__name__, "error": type(error).__qualname__}
        logger.error("intake.crashed", extra={**facts, "channel_id": event.channel_id})
        await self._tell(error, event)

    async def _settled(self, prompt: Prompt) -> Settled | None:
        """What holds for a prompt; None for what was not said to the bot."""
        is_called = is_addressed(prompt)
        if prompt.from_bot or not (is_called or prompt.text.strip() or prompt.attachments):
            return None
        settled = await self._choices.settle(place_of(prompt), turn_id_of(prompt))
        return settled if is_called or settled.speak is Speak.ALWAYS else None

    async def _with_roles(self, prompt: Prompt, settled: Settled) -> Prompt | None:
        """The prompt with its person's roles, where lists ask for them.

        None: they left, and it is declined without a word; or the front gives it again later.
        """
        if not needs_roles(settled.access):
            return prompt
        match await self._front.with_roles(prompt):
            case Prompt() as known:
                return known
            case Refused():
                await self._declined(prompt)
            case Unavailable(reason=reason):
                facts = {"channel_id": prompt.channel_id, "reason": reason}
                logger.debug("intake.roles_unknown", extra=facts)
        return None

    async def _notice_or_turn(self, prompt: Prompt, settled: Settled) -> str | None:
        if await self._records.is_blocked(prompt.channel_id):
            return None
        refused = denial(settled.access, place_of(prompt))
        if refused is not None:
            return await self._refused(prompt, refused, is_called=is_addressed(prompt))
        if not may_speak(settled, prompt):
            return await self._once(prompt, AGE_RESTRICTED)
        text = text_without_call(prompt.text, self._front.bot_id)
        if not text and not prompt.attachments:
            return await self._once(prompt, EMPTY_PROMPT)
        paced = await self._pace.ask(prompt.user_id, turn_id_of(prompt), is_late=prompt.backfilled)
        if paced is not Paced.TAKEN:
            return await self._once(prompt, PACE_NOTICES[paced])
        return await self._turn(prompt, text, settled)

    async def _refused(self, prompt: Prompt, refused: Denial, *, is_called: bool) -> str | None:
        """Says once that the bot is not for everybody; to who was denied it says nothing."""
        logger.info(
            "intake.refused",
            extra={
                "denial": refused.value,
                "guild_id": prompt.guild_id,
                "channel_id": prompt.channel_id,
                "user_id": prompt.user_id,
            },
        )
        if refused is Denial.DENIED or not is_called:
            return None
        return await self._once(prompt, NOT_ALLOWED)

    async def _turn(self, prompt: Prompt, text: str, settled: Settled) -> str | None:
        turn_id = turn_id_of(prompt)
        if self._budget.load >= BUSY_LOAD:
            # Replies would come too late: who asks now hears it now.
            return await self._once(prompt, BUSY)
        request = request_of(prompt, text, settled, now_ms=self._now_ms())
        try:
            answer = await self._admit(request)
        except RequestTooLarge:
            return await self._once(prompt, TOO_LARGE)
        logger.info(
            "intake.answered",
            extra={
                "turn_id": turn_id,
                "answer": answer.value,
                "guild_id": prompt.guild_id,
                "channel_id": prompt.channel_id,
                "backfilled": prompt.backfilled,
            },
        )
        if answer is Admission.ACCEPTED:
            self._typist.start(
                turn_id,
                self._front,
                prompt.channel_id,
                reply_to=prompt.message_id,
                locale=prompt.locale,
            )
        return NOTICES.get(answer)

    async def _once(self, prompt: Prompt, key: str) -> str | None:
        """The notice, unless the prompt has had it and was found again."""
        return None if await self._records.is_known(turn_id_of(prompt)) else key

    async def _say_why(self, prompt: Prompt, key: str) -> None:
        """Declines a prompt; where that trips over a bug, it is handled without a word."""
        try:
            await self._decline(prompt, key)
        except ConfigError:
            raise
        except Exception as exc:  # noqa: BLE001 - one notice must not end the gateway
            await self._tripped(exc, prompt)
            await self._declined(prompt)

    async def _decline(self, prompt: Prompt, key: str) -> None:
        """Says why a prompt becomes no turn, unless it was said here a moment ago."""
        if not self._rates.may(prompt.channel_id, prompt.user_id, self._now_ms()):
            await self._declined(prompt)
            return
        message = OutgoingMessage(
            channel_id=prompt.channel_id,
            text=self._notices.say(key, prompt.locale),
            nonce=nonce_of(turn_id_of(prompt), 0, INTAKE_CLAIM, 0, 0),
            reply_to=prompt.message_id,
            is_notice=True,
        )
        if isinstance(await self._teller.tell(message), Unavailable):
            return  # not handled: it comes again with the next start or look at what is pending
        await self._declined(prompt)

    async def _declined(self, prompt: Prompt) -> None:
        """Notes that a prompt becomes no turn."""
        try:
            # Nonces are forgotten in minutes, and a backfill may find the prompt hours later.
            await self._records.decline(turn_id_of(prompt))
            await self._front.handled(prompt)
        except ConfigError:
            raise
        except Exception as exc:  # noqa: BLE001 - one prompt must not end the gateway
            _log_left(prompt, exc)


def _is_called(prompt: Prompt) -> bool:
    return is_addressed(prompt) and not prompt.from_bot


def _log_left(prompt: Prompt, error: Exception) -> None:
    """It comes again with the next start or look at what is pending."""
    is_away = isinstance(error, StoreUnavailable | StoreFull)
    facts = {"channel_id": prompt.channel_id, "error": type(error).__qualname__}
    logger.log(logging.DEBUG if is_away else logging.ERROR, "intake.left_pending", extra=facts)

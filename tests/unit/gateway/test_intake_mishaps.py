"""One prompt that trips over a bug: it is reported and answered, and those behind it go on."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gateway.context import Paced
from gateway.front import (
    Change,
    Echo,
    FrontEvent,
    Outcome,
    OutgoingMessage,
    Prompt,
    PromptsDeleted,
)
from gateway.intake import REFUSED_TRIES, Intake
from gateway.notices import Notices
from gateway.typist import Typist
from shared.configuration.choices import Place, Settled, Speak
from shared.errors import ConfigError, StoreError, StoreUnavailable
from shared.i18n import load_texts
from shared.turns import Admission, Front, Target, TurnRequest
from tests.support.channel import MemoryFront

TEXTS = load_texts()
FAILED = TEXTS.text("notice.failed")
BUG = ValueError("'foo' is not a valid DeliveryMode")


class House:
    """Everything around an intake. `troubles` has errors by call, each raised once, in order."""

    def __init__(self, front: MemoryFront | None = None, *, speak: Speak = Speak.MENTION) -> None:
        self.front = front or MemoryFront()
        self.troubles: dict[str, list[BaseException]] = {}
        self.settled = Settled(target=Target(provider="rehearsal", model="plain"), speak=speak)
        self.turns: list[str] = []
        self.declined: list[str] = []
        self.remembered: list[int] = []
        self.mishaps: list[tuple[BaseException, FrontEvent]] = []
        self.heeded: list[Change] = []
        self.echoes: list[Echo] = []
        self.slept_s = 0.0

    def trip(self, call: str) -> None:
        if self.troubles.get(call):
            raise self.troubles[call].pop(0)

    async def admit(self, request: TurnRequest) -> Admission:
        self.trip("admit")
        self.turns.append(request.turn_id)
        self.trip("admitted")
        return Admission.ACCEPTED

    async def is_blocked(self, channel_id: int) -> bool:
        self.trip("is_blocked")
        return False

    async def decline(self, turn_id: str) -> None:
        self.trip("decline")
        self.declined.append(turn_id)

    async def is_known(self, turn_id: str) -> bool:
        self.trip("is_known")
        return turn_id in {*self.declined, *self.turns}

    async def settle(self, place: Place, turn_id: str = "") -> Settled:
        self.trip("settle")
        return self.settled

    async def ask(self, user_id: int, turn_id: str, *, is_late: bool) -> Paced:
        self.trip("ask")
        return Paced.TAKEN

    async def seen(self, prompt: Prompt) -> None:
        self.trip("seen")
        self.remembered.append(prompt.message_id)

    async def heed(self, change: Change, bot_id: int) -> None:
        self.trip("heed")
        self.heeded.append(change)

    def absorb(self, echo: Echo) -> None:
        self.trip("absorb")
        self.echoes.append(echo)

    async def tell(self, error: Exception, event: FrontEvent) -> None:
        self.mishaps.append((error, event))

    async def sleep(self, seconds: float) -> None:
        self.slept_s += seconds
        await asyncio.sleep(0)

    def intake(self) -> Intake:
        return Intake(
            self.front,
            self.admit,
            self,
            Typist(),
            Notices(TEXTS),
            self,
            self,
            self,
            absorb=self.absorb,
            heed=self.heed,
            tell=self.tell,
            now_ms=lambda: 1,
            sleep=self.sleep,
        )

    async def take(self, *events: FrontEvent) -> None:
        """Runs intake over the events until each is dealt with."""
        for event in events:
            self.front.put(event)
        await self.front.close()
        async with asyncio.timeout(5):
            await self.intake().run()

    @property
    def handled(self) -> list[int]:
        return sorted(prompt.message_id for prompt in self.front.taken)


def said(number: int, channel: int = 7, **facts: object) -> Prompt:
    given: dict[str, object] = {
        "front": Front.LOCAL,
        "message_id": number,
        "channel_id": channel,
        "user_id": number,
        "text": "hello",
    }
    return Prompt(**(given | facts))  # type: ignore[arg-type]  # facts by name


@pytest.fixture
def house() -> House:
    return House()


@pytest.mark.parametrize("call", ["settle", "is_blocked", "ask", "admit"])
async def test_a_prompt_that_trips_is_reported_and_answered_and_those_behind_it_go_on(
    house: House, call: str
):
    house.troubles[call] = [BUG]
    await house.take(said(1), said(2), said(3, channel=8))
    assert [(error, event) for error, event in house.mishaps] == [(BUG, said(1))]
    assert sorted(house.turns) == ["l2", "l3"]
    assert house.front.shown(7) == [FAILED]
    assert house.declined == ["l1"]
    assert house.handled == [1, 2, 3]


async def test_found_again_it_hears_nothing_more(house: House):
    house.troubles["settle"] = [BUG, BUG]
    await house.take(said(1))
    await house.take(said(1))
    assert house.front.shown(7) == [FAILED]
    assert len(house.front.taken) == 2


async def test_a_turn_that_was_made_is_no_failure(house: House):
    """What tripped came after: the answer is on its way, and a second word would be wrong."""
    house.troubles["admitted"] = [BUG]
    await house.take(said(1))
    assert house.turns == ["l1"]
    assert house.front.shown(7) == []
    assert house.declined == []
    assert house.handled == [1]
    assert len(house.mishaps) == 1


async def test_a_message_that_was_for_nobody_trips_without_a_word(house: House):
    house.troubles["settle"] = [BUG, BUG]
    chatter = said(1, front=Front.DISCORD, guild_id=5)
    bot = said(2, from_bot=True)
    await house.take(chatter, bot)
    assert house.front.shown(7) == []
    assert house.handled == [1, 2]
    assert [event for _, event in house.mishaps] == [chatter]


async def test_where_the_bot_always_speaks_a_message_without_a_call_is_answered():
    house = House(speak=Speak.ALWAYS)
    house.troubles["ask"] = [BUG]
    await house.take(said(1, front=Front.DISCORD, guild_id=5))
    assert house.front.shown(7) == [FAILED]


async def test_a_prompt_that_cannot_be_remembered_is_answered_all_the_same(house: House):
    house.troubles["seen"] = [BUG]
    await house.take(said(1))
    assert house.turns == ["l1"]
    assert len(house.mishaps) == 1


@pytest.mark.parametrize("call", ["is_known", "decline"])
async def test_a_store_that_is_away_meanwhile_is_waited_for_or_leaves_it_pending(
    house: House, call: str
):
    house.troubles["settle"] = [BUG]
    house.troubles[call] = [StoreUnavailable()]
    await house.take(said(1))
    assert house.front.shown(7) == [FAILED]
    assert house.handled == ([1] if call == "is_known" else [])


async def test_a_command_that_the_store_refuses_for_a_moment_is_asked_again(house: House):
    house.troubles["admit"] = [StoreError()] * (REFUSED_TRIES - 1)
    await house.take(said(1))
    assert house.turns == ["l1"]
    assert house.mishaps == []


async def test_one_that_it_goes_on_refusing_is_given_up_and_keeps_nobody_waiting(house: House):
    house.troubles["admit"] = [StoreError()] * REFUSED_TRIES
    await house.take(said(1), said(2))
    assert house.front.shown(7) == [FAILED]
    assert house.turns == ["l2"]
    assert [type(error) for error, _ in house.mishaps] == [StoreError]


async def test_a_store_that_refuses_everything_loses_no_prompt(house: House):
    house.troubles["admit"] = [StoreError()] * REFUSED_TRIES
    house.troubles["is_known"] = [StoreError()] * REFUSED_TRIES
    await house.take(said(1), said(2))
    assert house.handled == [2]
    assert house.declined == []
    assert house.turns == ["l2"]


@pytest.mark.parametrize("call", ["settle", "heed", "absorb", "seen"])
async def test_what_is_wrong_for_everybody_still_ends_it(house: House, call: str):
    house.troubles[call] = [ConfigError("the account is refused")]
    events = (
        PromptsDeleted(channel_id=9, turn_ids=("l9",)),
        Echo(nonce="n", channel_id=7, message_id=1),
    )
    with pytest.raises(ExceptionGroup) as caught:
        await house.take(said(1), *events)
    assert caught.group_contains(ConfigError, match="the account is refused")
    assert house.mishaps == []
    assert house.front.taken == []


async def test_a_bug_that_meets_it_again_while_it_is_given_up_brings_it_back_no_more(house: House):
    house.troubles["settle"] = [BUG]
    house.troubles["is_known"] = [BUG]
    await house.take(said(1), said(2))
    assert house.handled == [1, 2]
    assert house.turns == ["l2"]


class Broken(MemoryFront):
    """A front with a bug in what it says."""

    async def send(self, message: OutgoingMessage) -> Outcome:
        raise BUG


async def test_a_notice_that_trips_is_reported_and_its_prompt_does_not_come_again():
    house = House(Broken())
    await house.take(said(1, text=""), said(2))
    assert house.turns == ["l2"]
    assert house.handled == [1, 2]
    assert house.declined == ["l1"]
    assert [event for _, event in house.mishaps] == [said(1, text="")]


@pytest.mark.parametrize(
    ("call", "event"),
    [
        ("heed", PromptsDeleted(channel_id=7, turn_ids=("l9",))),
        ("absorb", Echo(nonce="n", channel_id=7, message_id=1)),
    ],
)
async def test_another_event_that_trips_is_reported_and_the_next_go_on(
    house: House, call: str, event: FrontEvent
):
    house.troubles[call] = [BUG]
    await house.take(event, event, said(1))
    assert house.mishaps == [(BUG, event)]
    assert len([*house.heeded, *house.echoes]) == 1
    assert house.turns == ["l1"]


@pytest.mark.parametrize("call", ["seen", "settle", "ask", "admit", "is_known"])
async def test_a_cancelled_prompt_stays_unhandled_and_is_no_mishap(house: House, call: str):
    reached = asyncio.Event()

    async def never(*_: object, **__: object) -> None:
        reached.set()
        await asyncio.Event().wait()

    if call == "is_known":
        house.troubles["settle"] = [BUG]
    hung: Callable[..., Awaitable[object]] = never
    setattr(house, call, hung)
    house.front.put(said(1))
    running = asyncio.create_task(house.intake().run())
    async with asyncio.timeout(5):
        await reached.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert house.front.taken == []
    assert house.declined == []
    assert len(house.mishaps) == (1 if call == "is_known" else 0)


@pytest.mark.parametrize("error", [StoreError(), BUG], ids=["refused", "bug"])
async def test_who_asks_by_command_hears_of_it_whatever_is_refused(house: House, error: Exception):
    """A command comes once: nothing is pending that could come again."""
    house.troubles["settle"] = [error] * REFUSED_TRIES
    house.troubles["is_known"] = [error] * REFUSED_TRIES
    command = said(1, turn_id="i9")
    assert await house.intake().take(command) == "notice.failed"

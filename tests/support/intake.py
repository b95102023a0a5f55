"""An intake and its surroundings in memory: who admits, what holds at a place, a run of it."""

import asyncio

from gateway.context import Paced
from gateway.front import Change, Echo, FrontEvent, Prompt
from gateway.intake import Intake
from gateway.notices import Notices
from gateway.typist import Typist
from shared.configuration.choices import Place, Settled
from shared.i18n import load_texts
from shared.turns import Admission, Front, Target, TurnRequest
from tests.support.channel import ManualClock, MemoryBudget, MemoryFront

TEXTS = load_texts()
TARGET = Target(provider="rehearsal", model="plain")


class Admissions:
    """The port `Records`, and what takes turns; answers in order, then `accepted`."""

    def __init__(self, *answers: Admission | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[TurnRequest] = []
        self.declined: list[str] = []
        self.blocked: set[int] = set()

    async def admit(self, request: TurnRequest) -> Admission:
        answer = self.answers.pop(0) if self.answers else Admission.ACCEPTED
        if isinstance(answer, Exception):
            raise answer
        self.requests.append(request)
        return answer

    async def is_blocked(self, channel_id: int) -> bool:
        return channel_id in self.blocked

    async def decline(self, turn_id: str) -> None:
        self.declined.append(turn_id)

    async def is_known(self, turn_id: str) -> bool:
        return turn_id in self.declined


def prompt(text: str = "hello", **facts: object) -> Prompt:
    given: dict[str, object] = {
        "front": Front.LOCAL,
        "message_id": 10,
        "channel_id": 7,
        "user_id": 5,
        "text": text,
    }
    return Prompt(**(given | facts))  # type: ignore[arg-type]  # facts by name


class Fixed:
    """Choices and pace that never change, and a memory."""

    def __init__(self, settled: Settled, paced: Paced = Paced.TAKEN) -> None:
        self.settled = settled
        self.paced = paced
        self.places: list[Place] = []
        self.remembered: list[int] = []

    async def settle(self, place: Place, turn_id: str = "") -> Settled:
        self.places.append(place)
        return self.settled

    async def ask(self, user_id: int, turn_id: str, *, is_late: bool) -> Paced:
        return self.paced

    async def seen(self, prompt: Prompt) -> None:
        self.remembered.append(prompt.message_id)


async def take(
    admissions: Admissions,
    *events: FrontEvent,
    front: MemoryFront,
    fixed: Fixed | None = None,
    load: float = 0.0,
    heeded: list[Change] | None = None,
) -> list[Echo]:
    """Runs intake over the events until each is dealt with."""
    fixed = fixed or Fixed(Settled(target=TARGET))
    echoes: list[Echo] = []

    async def sleep(seconds: float) -> None:
        del seconds
        await asyncio.sleep(0)

    async def heed(change: Change, bot_id: int) -> None:
        assert bot_id == front.bot_id
        if heeded is not None:
            heeded.append(change)

    budget = MemoryBudget(ManualClock())
    budget.load = load
    typist = Typist()
    intake = Intake(
        front,
        admissions.admit,
        admissions,
        typist,
        Notices(TEXTS),
        fixed,
        fixed,
        fixed,
        absorb=echoes.append,
        heed=heed,
        budget=budget,
        now_ms=lambda: 1,
        sleep=sleep,
    )
    for event in events:
        front.put(event)
    await front.close()
    async with asyncio.timeout(5), typist.running():
        await intake.run()
        await asyncio.sleep(0)
    return echoes

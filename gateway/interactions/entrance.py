"""Whether somebody may have one more turn: what intake asks of a prompt, asked of a button.

Comes in: who asks, and the turn that it would become. Goes out: a notice's key instead of it, or
nothing. A retry is a request like any other: it costs as much.
"""

from gateway.asks import Caller
from gateway.context import PACE_NOTICES, PacePort
from gateway.notices import NOT_ALLOWED
from shared.configuration.choices import ChoicesPort, denial


class Entrance:
    """Asks the lists of who may talk, and the bounds of one person's turns.

    Args:
        choices: what holds in a place.
        pace: how much one person may ask at once.
    """

    def __init__(self, choices: ChoicesPort, pace: PacePort) -> None:
        self._choices = choices
        self._pace = pace

    async def refusal(self, caller: Caller, turn_id: str) -> str | None:
        """Why a turn is not begun for somebody. Asked twice, the answer is the same."""
        settled = await self._choices.settle(caller.place)
        if denial(settled.access, caller.place) is not None:
            return NOT_ALLOWED
        return PACE_NOTICES.get(await self._pace.ask(caller.user_id, turn_id, is_late=False))

"""What the fleet lets a turn ask, and what it hears of the answers.

Comes in: the target that is about to be asked, and how an attempt ended. Goes out: whether it may
be asked, or the failure that stands for the question that was not sent.
"""

from shared.causes import Cause
from shared.turns import Target
from worker.failures.classify import error_of
from worker.failures.traffic import Traffic, speaks_against
from worker.turn.attempt import AttemptResult, Completed, Failed
from worker.turn.ports import TrafficPort

SHUT = "the model failed for the whole fleet, lately with this; it is not asked for some seconds"


class Gate:
    """The breaker and the retry budget, as one turn meets them.

    Args:
        traffic: those of the fleet.
    """

    __slots__ = ("_traffic",)

    def __init__(self, traffic: TrafficPort) -> None:
        self._traffic = traffic

    async def first(self, target: Target) -> Failed | None:
        """Asks for a turn's first request; what stands for it where the model is shut."""
        signal = await self._traffic.ask(target, again=False)
        if signal.word is Traffic.GO:
            return None
        return Failed(error=error_of(signal.cause or Cause.OVERLOADED, message=SHUT))

    async def may_go_on(self, target: Target, *, again: bool) -> bool:
        """Asks for a further request; `again` for one at the same model, as the last one was."""
        return (await self._traffic.ask(target, again=again)).word is Traffic.GO

    async def tell(self, target: Target, result: AttemptResult) -> None:
        """Tells the fleet how an attempt ended, as far as that says something of the model."""
        match result:
            case Completed():
                await self._traffic.heard(target, None)
            case Failed(error=error) if speaks_against(error.cause):
                await self._traffic.heard(target, error.cause)
            case _:
                pass

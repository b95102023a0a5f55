"""What one turn costs, attempt by attempt.

Comes in: attempts, as they end. Goes out: whether a provider may be asked at all, and the attempts
with their costs. `worker.turn.runner` has one per turn.
"""

from shared.turns import AttemptUsage, TurnRequest
from worker.failures.classify import error_of
from worker.turn.attempt import Attempt, Failed
from worker.turn.ports import AccountsPort, OutboxPort

RUNS_LOW = "budget_low"
"""A note of `TurnDone`: a budget passed its notice's share with this turn."""


class Costs:
    """The costs of one turn.

    Args:
        request: the turn.
        accounts: prices and budgets.
        outbox: for the token that names an attempt.
    """

    __slots__ = ("_accounts", "_outbox", "_request", "notes", "spent")

    def __init__(self, request: TurnRequest, accounts: AccountsPort, outbox: OutboxPort) -> None:
        self._request = request
        self._accounts = accounts
        self._outbox = outbox
        self.spent: list[AttemptUsage] = []
        self.notes: tuple[str, ...] = ()

    async def refusal(self, attempt: Attempt) -> Failed | None:
        """Why the provider is not asked: a budget that is spent, a subscription that is missing."""
        stop = await self._accounts.stop_of(self._request, attempt.target)
        return None if stop is None else Failed(error=error_of(stop.cause, message=stop.why))

    async def enter(self, attempt: Attempt) -> None:
        """Adds an attempt that has ended, whether its text stands or is superseded."""
        token = self._outbox.token
        one = attempt.spent(token.attempt)
        entered = await self._accounts.enter(self._request, token, one)
        self.spent.append(entered.usage)
        if entered.runs_low:
            self.notes = (RUNS_LOW,)

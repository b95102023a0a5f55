"""Budgets and prices for a turn: whether it may ask, and what an attempt has cost.

Comes in: turns, targets, usage. Goes out: a cause for which nothing is asked; usage with its cost;
whether the channel must hear that a budget runs low. It is the real `AccountsPort` of
`worker.turn`; only `worker.app` constructs it.

A budget is a promise: while Redis is away nobody knows what was spent, so the turn waits, as all of
a turn does. What attempts cost that run at this moment is not known either: a budget is passed by
them at most.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from shared.alerts import Alert, AlertKind
from shared.causes import Cause
from shared.configuration.loading import Loaded
from shared.configuration.schema import BudgetScope
from shared.configuration.settling import entry_of
from shared.configuration.spending import (
    NANOS,
    Account,
    accounts_of,
    cost_of,
    describe,
    first_over,
    is_crossed,
    is_ours,
    payer_of,
    tokens_of,
)
from shared.edges.spending import Spending
from shared.errors import StoreError, StoreUnavailable
from shared.logs import fields
from shared.turns import (
    AttemptToken,
    AttemptUsage,
    CostSource,
    CredentialSource,
    Target,
    TurnRequest,
)
from worker.failures.accounts import Entered, Stop

AWAY_S: Final = 0.2
"""Between tries while Redis is away: soon after it is back."""

log = logging.getLogger(__name__)

Subscribed = Callable[[TurnRequest], Awaitable[bool]]
"""Whether a turn's guild, channel or user has a subscription. May raise `StoreUnavailable`."""


class Accounts:
    """The accounts of a deployment.

    Args:
        spending: what was spent.
        loaded: gives the configuration of this process.
        subscribed: who has a subscription.
        now_ms: the time.
        alert: raises an alert, unless it was raised lately; None tells nobody.
    """

    def __init__(
        self,
        spending: Spending,
        loaded: Callable[[], Loaded],
        subscribed: Subscribed,
        now_ms: Callable[[], int],
        alert: Callable[[Alert], Awaitable[bool]] | None = None,
    ) -> None:
        self._spending = spending
        self._loaded = loaded
        self._subscribed = subscribed
        self._now_ms = now_ms
        self._alert = alert

    async def stop_of(self, request: TurnRequest, target: Target) -> Stop | None:
        """Why a provider is not asked; None where nothing speaks against it."""
        accounts = self._accounts(request, target)
        entry = entry_of(self._loaded().configuration, target)
        needs = (
            entry is not None and entry.needs_subscription and is_ours(self._payer(request, target))
        )
        while accounts or needs:
            try:
                if needs and not await self._subscribed(request):
                    return Stop(cause=Cause.SUBSCRIPTION_REQUIRED, why="nobody here is subscribed")
                spent = await self._spending.read(accounts)
            except StoreUnavailable as exc:
                log.debug("accounts.wait", extra=fields(reason=str(exc)))
                await asyncio.sleep(AWAY_S)
                continue
            over = first_over(zip(accounts, spent, strict=True))
            if over is None:
                return None
            await self._tell(over)
            return Stop(cause=Cause.QUOTA_EXHAUSTED, why=f"the budget is spent: {describe(over)}")
        return None

    async def enter(self, request: TurnRequest, token: AttemptToken, one: AttemptUsage) -> Entered:
        """Prices an attempt and adds it to its accounts, once. It never raises."""
        priced = self._priced(one)
        accounts = self._accounts(request, one.target)
        tokens, cost = tokens_of(priced.usage), priced.usage.cost or 0.0
        if not accounts or not (tokens or cost):
            return Entered(usage=priced)
        try:
            pairs = await self._spending.add(
                accounts,
                token,
                nanos=round(cost * NANOS),
                tokens=tokens,
                is_own=not is_ours(self._payer(request, one.target)),
            )
        except StoreError as exc:
            # The ledger has it; a budget that missed an attempt stops one attempt later.
            log.warning("accounts.not_entered", extra=fields(reason=str(exc), cost=cost))
            return Entered(usage=priced)
        crossed = [
            account
            for account, (before, after) in zip(accounts, pairs, strict=True)
            if is_crossed(account.budget, before, after)
        ]
        for account in crossed:
            log.warning(
                "budget.runs_low",
                extra=fields(account=describe(account), notice_at=account.budget.notice_at),
            )
        return Entered(usage=priced, runs_low=bool(crossed))

    async def _tell(self, over: Account) -> None:
        """Operators hear of a spent budget; of those of single users there are too many."""
        if self._alert is None or over.budget.scope is BudgetScope.USER:
            return
        try:
            await self._alert(Alert(kind=AlertKind.BUDGET, subject=describe(over)))
        except StoreError:
            log.debug("accounts.alert_lost")

    def _accounts(self, request: TurnRequest, target: Target) -> list[Account]:
        configuration = self._loaded().configuration
        if not configuration.budgets:
            return []
        return accounts_of(
            configuration,
            guild_id=request.route.guild_id,
            user_id=request.route.user_id,
            target=target,
            source=self._payer(request, target),
            now_ms=self._now_ms(),
        )

    def _payer(self, request: TurnRequest, target: Target) -> CredentialSource:
        addresses = self._loaded().settings.endpoints
        return payer_of(request.credential_source, target.provider, addresses)

    def _priced(self, one: AttemptUsage) -> AttemptUsage:
        """The attempt with its cost: the provider's word, else the table's, else unknown."""
        if one.usage.cost is not None:
            return msgspec.structs.replace(one, cost_source=CostSource.REPORTED)
        entry = entry_of(self._loaded().configuration, one.target)
        cost = cost_of(one.usage, None if entry is None else entry.price)
        if cost is None:
            return one
        usage = msgspec.structs.replace(one.usage, cost=cost)
        return msgspec.structs.replace(one, usage=usage, cost_source=CostSource.PRICED)

"""Prices and budgets: what an attempt costs, which budgets it counts for, and when one is spent.

Comes in: usage, a price, the budgets of the file, whose turn it is. Goes out: a cost, names of
accounts, verdicts. Pure; the worker's accounts, the gateway's commands, the mirror and
`turnfleet usage --budgets` import it.
"""

from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec

from shared.configuration.schema import Budget, BudgetScope, Configuration, Period, Price
from shared.turns import CredentialSource, Target, Usage

MILLION: Final = 1_000_000
NANOS: Final = 1_000_000_000
"""Money is added up in billionths: a cheap token costs some of them, and floats do not add up."""


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """Where a budget is added up: what, whose, and in which day or month (UTC)."""

    budget: Budget
    owner: str
    span: str


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What an account has: whole numbers, those on people's own keys apart."""

    nanos: int = 0
    tokens: int = 0
    own_nanos: int = 0
    own_tokens: int = 0


def cost_of(usage: Usage, price: Price | None) -> float | None:
    """What usage costs by a price; None where the price, or a count that it needs, is unknown.

    >>> cost_of(Usage(input=1_000_000, output=100_000), Price(input=1.0, output=10.0))
    2.0
    """
    if price is None or usage.input is None or usage.output is None:
        return None
    read, written = usage.cache_read or 0, usage.cache_write or 0
    plain = max(0, usage.input - read - written)
    whole = plain * price.input + usage.output * price.output
    whole += read * (price.input if price.cache_read is None else price.cache_read)
    whole += written * (price.input if price.cache_write is None else price.cache_write)
    return whole / MILLION


def tokens_of(usage: Usage) -> int:
    """What counts against a bound of tokens: those that are known."""
    if usage.input is None and usage.output is None:
        return usage.total or 0
    return (usage.input or 0) + (usage.output or 0)


def accounts_of(
    configuration: Configuration,
    *,
    guild_id: int | None,
    user_id: int,
    target: Target,
    source: CredentialSource,
    now_ms: int,
) -> list[Account]:
    """The accounts that a turn at a target is added to, and stopped by."""
    owners = {
        BudgetScope.ALL: "*",
        BudgetScope.GUILD: None if guild_id is None else str(guild_id),
        BudgetScope.USER: str(user_id),
        BudgetScope.MODEL: name_of(configuration, target),
    }
    found = []
    for budget in configuration.budgets:
        owner = owners[budget.scope]
        is_meant = owner is not None and budget.id in {"*", owner}
        if owner is not None and is_meant and (budget.own_keys or is_ours(source)):
            found.append(Account(budget=budget, owner=owner, span=span_of(budget.period, now_ms)))
    return found


def is_ours(source: CredentialSource) -> bool:
    """Whether the deployment pays."""
    return source is CredentialSource.SERVER


def payer_of(
    source: CredentialSource, provider: str, addresses: Collection[str]
) -> CredentialSource:
    """Whose account a turn is on: at an address of the operator's own, always the deployment's.

    Such an endpoint may ask for no key, or pass any on: a key that somebody brought there proves
    nothing about who pays.

    Args:
        source: whose key the turn names.
        provider: where it asks.
        addresses: providers that the operator gave an address (`Settings.endpoints`).

    >>> payer_of(CredentialSource.PERSONAL, "our-box", {"our-box": "http://10.0.0.7/v1"}).value
    'server'
    """
    return CredentialSource.SERVER if provider in addresses else source


def name_of(configuration: Configuration, target: Target) -> str:
    """How budgets name a model: as the file does, else `provider/model`."""
    for name, entry in configuration.models.items():
        if (entry.provider, entry.model) == (target.provider, target.model):
            return name
    return f"{target.provider}/{target.model}"


def span_of(period: Period, now_ms: int) -> str:
    """The day or month of a moment.

    >>> span_of(Period.MONTH, 0), span_of(Period.DAY, 0)
    ('1970-01', '1970-01-01')
    """
    moment = datetime.fromtimestamp(now_ms / 1000, UTC)
    return moment.strftime("%Y-%m" if period is Period.MONTH else "%Y-%m-%d")


def share_of(budget: Budget, spent: Spent) -> float:
    """How much of a budget is spent, 1 and above when it is over; a bound of 0 is always over."""
    nanos = spent.nanos + (spent.own_nanos if budget.own_keys else 0)
    tokens = spent.tokens + (spent.own_tokens if budget.own_keys else 0)
    shares = [
        used / bound if bound else 1.0
        for used, bound in ((nanos / NANOS, budget.cost), (tokens, budget.tokens))
        if bound is not None
    ]
    return max(shares, default=0.0)


def first_over(accounts: Iterable[tuple[Account, Spent]]) -> Account | None:
    """The first account that is spent."""
    return next((one for one, spent in accounts if share_of(one.budget, spent) >= 1), None)


def is_crossed(budget: Budget, before: Spent, after: Spent) -> bool:
    """Whether the channel is to be told: the notice's share was reached just now."""
    return share_of(budget, before) < budget.notice_at <= share_of(budget, after)


def describe(account: Account) -> str:
    """An account in words for logs and reports.

    >>> describe(Account(budget=Budget(scope="guild", period=Period.DAY), owner="7", span="2026-1"))
    'guild 7, 2026-1'
    """
    whose = "" if account.budget.scope is BudgetScope.ALL else f" {account.owner}"
    return f"{account.budget.scope}{whose}, {account.span}"

"""Costs and budgets, without any store."""

from itertools import pairwise

import msgspec
import pytest

from shared.configuration.schema import Budget, BudgetScope, Configuration, Period, Price
from shared.configuration.spending import (
    NANOS,
    Spent,
    accounts_of,
    cost_of,
    describe,
    first_over,
    is_crossed,
    payer_of,
    share_of,
    tokens_of,
)
from shared.turns import CredentialSource, Target, Usage

PRICE = Price(input=2.0, output=10.0)
CACHED = Price(input=2.0, output=10.0, cache_read=0.2, cache_write=2.5)
COSTS: dict[str, tuple[Usage, Price | None, float | None]] = {
    "input and output": (Usage(input=1_000, output=100), PRICE, 0.003),
    "cache at the full price": (Usage(input=1_000, output=0, cache_read=500), PRICE, 0.002),
    "cache at its own": (
        Usage(input=1_000, output=0, cache_read=500, cache_write=100),
        CACHED,
        (400 * 2 + 500 * 0.2 + 100 * 2.5) / 1e6,
    ),
    "more cache than input": (Usage(input=1, output=0, cache_read=10), CACHED, 2e-6),
    "nothing is a cost": (Usage(input=0, output=0), PRICE, 0.0),
    "no price": (Usage(input=1, output=1), None, None),
    "no input": (Usage(output=1), PRICE, None),
    "no output": (Usage(input=1), PRICE, None),
}


@pytest.mark.parametrize(("usage", "price", "cost"), COSTS.values(), ids=COSTS.keys())
def test_what_usage_costs(usage: Usage, price: Price | None, cost: float | None):
    assert cost_of(usage, price) == (None if cost is None else pytest.approx(cost))


def test_tokens_that_count():
    assert tokens_of(Usage(input=3, output=4, reasoning=2)) == 7
    assert tokens_of(Usage(total=9)) == 9
    assert tokens_of(Usage()) == 0


def budget(scope: BudgetScope, **more: object) -> Budget:
    values = {"scope": scope, "period": Period.DAY, "tokens": 100, **more}
    return msgspec.convert(values, Budget)


def found(*budgets: Budget, guild: int | None = 1, source: str = "server") -> list[str]:
    accounts = accounts_of(
        Configuration(budgets=budgets),
        guild_id=guild,
        user_id=9,
        target=Target(provider="openai", model="gpt"),
        source=CredentialSource(source),
        now_ms=0,
    )
    return [describe(one) for one in accounts]


def test_which_budgets_a_turn_counts_for():
    assert found(
        budget(BudgetScope.ALL),
        budget(BudgetScope.GUILD),
        budget(BudgetScope.GUILD, id="1", period="month"),
        budget(BudgetScope.GUILD, id="2"),
        budget(BudgetScope.USER, id="9"),
        budget(BudgetScope.MODEL, id="openai/gpt"),
    ) == [
        "all, 1970-01-01",
        "guild 1, 1970-01-01",
        "guild 1, 1970-01",
        "user 9, 1970-01-01",
        "model openai/gpt, 1970-01-01",
    ]
    assert found(budget(BudgetScope.GUILD), guild=None) == []


def test_peoples_own_keys_count_where_a_budget_says_so():
    both = (budget(BudgetScope.USER), budget(BudgetScope.USER, own_keys=True, period="month"))
    assert found(*both, source="personal") == ["user 9, 1970-01"]
    assert len(found(*both)) == 2


def test_how_much_is_spent():
    both = budget(BudgetScope.ALL, cost=2.0)
    assert share_of(both, Spent(nanos=NANOS, tokens=10)) == 0.5
    assert share_of(both, Spent(nanos=NANOS, tokens=150)) == 1.5
    assert share_of(both, Spent(own_nanos=9 * NANOS)) == 0
    assert share_of(budget(BudgetScope.ALL, cost=0.0), Spent()) == 1.0


def test_the_notice_comes_once():
    one = budget(BudgetScope.ALL, notice_at=0.8)
    steps = [Spent(tokens=count) for count in (0, 79, 80, 90, 120)]
    crossed = [is_crossed(one, *pair) for pair in pairwise(steps)]
    assert crossed == [False, True, False, False]


def test_the_first_that_is_spent_stops():
    accounts = accounts_of(
        Configuration(budgets=(budget(BudgetScope.ALL), budget(BudgetScope.USER))),
        guild_id=None,
        user_id=9,
        target=Target(provider="a", model="b"),
        source=CredentialSource.SERVER,
        now_ms=0,
    )
    pairs = list(zip(accounts, [Spent(tokens=99), Spent(tokens=100)], strict=True))
    assert first_over(pairs) is accounts[1]
    assert first_over(pairs[:1]) is None


@pytest.mark.parametrize("source", list(CredentialSource))
def test_at_an_address_of_the_operators_the_deployment_pays(source: CredentialSource):
    addresses = {"our-box": "http://10.0.0.7/v1"}
    assert payer_of(source, "our-box", addresses) is CredentialSource.SERVER
    assert payer_of(source, "openai", addresses) is source

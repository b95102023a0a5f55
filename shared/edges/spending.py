"""What was spent, added up in Redis for budgets.

Comes in: accounts and amounts. Goes out: what they have. The worker's accounts and `turnfleet
usage budgets` use it. The ledger in the database is the record; these sums are quick and forget
after a month, and a budget reads nothing else.
"""

from operator import lt
from typing import Final

from redis.asyncio import Redis

from shared.configuration.schema import Budget, BudgetScope
from shared.configuration.spending import Account, Spent
from shared.edges.redis import translated, within
from shared.edges.scripting import Script
from shared.keys import Keys
from shared.lifetimes import SPEND_TTL_MS, SPENT_MARK_TTL_MS
from shared.turns import AttemptToken

_FIELDS: Final = ["n", "t", "on", "ot"]
BATCH: Final = 500
"""Accounts of one call: a millisecond of the server."""


class Spending:
    """The accounts of one cell. All methods raise `StoreUnavailable` when nobody answers."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys
        self._spend = Script(redis, "add_spent")
        self._raise = Script(redis, "raise_spent")

    async def read(self, accounts: list[Account]) -> list[Spent]:
        """What each account has."""
        if not accounts:
            return []
        async with self._redis.pipeline(transaction=False) as pipe:
            for account in accounts:
                pipe.hmget(self._key(account), _FIELDS)
            found: list[list[bytes | None]] = await within(pipe.execute())
        return [_spent(row) for row in found]

    async def add(
        self, accounts: list[Account], token: AttemptToken, *, nanos: int, tokens: int, is_own: bool
    ) -> list[tuple[Spent, Spent]]:
        """Adds an attempt once.

        Returns:
            Before and after of each account; the same twice where it was added before.
        """
        if not accounts:
            return []
        mark = self._keys.spent_mark(token.turn_id, token.attempt, token.claim)
        # Two budgets may read one account: it is added to once.
        names = list(dict.fromkeys(self._key(account) for account in accounts))
        fields = ("on", "ot") if is_own else ("n", "t")
        args: list[str | bytes | int] = [SPENT_MARK_TTL_MS, SPEND_TTL_MS, *fields, nanos, tokens]
        answer = await within(self._spend([mark, *names], args))
        after = {
            name: (bool(answer[5 * at]), _spent(answer[5 * at + 1 : 5 * at + 5]))
            for at, name in enumerate(names)
        }
        grown = Spent(nanos=nanos, tokens=tokens)
        if is_own:
            grown = Spent(own_nanos=nanos, own_tokens=tokens)
        pairs = [after[self._key(account)] for account in accounts]
        return [(_less(now, grown) if is_new else now, now) for is_new, now in pairs]

    async def raise_to(self, due: list[tuple[Account, Spent]]) -> int:
        """Raises accounts to what they have spent at least. Returns how many had less."""
        raised = 0
        for start in range(0, len(due), BATCH):
            part = due[start : start + BATCH]
            args: list[str | bytes | int] = [SPEND_TTL_MS]
            for _, least in part:
                args += _numbers(least)
            raised += int(await within(self._raise([self._key(one) for one, _ in part], args)))
        return raised

    async def lack(self, due: list[tuple[Account, Spent]]) -> int:
        """How many accounts have less than they have spent at least."""
        lacking = 0
        for start in range(0, len(due), BATCH):
            part = due[start : start + BATCH]
            have = await self.read([account for account, _ in part])
            pairs = zip(have, (spent for _, spent in part), strict=True)
            lacking += sum(any(map(lt, _numbers(one), _numbers(least))) for one, least in pairs)
        return lacking

    async def owners(self, budget: Budget, span: str) -> list[Account]:
        """The accounts of a budget that have spent anything; a look at every key, for operators."""
        if budget.id != "*" or budget.scope is BudgetScope.ALL:
            return [Account(budget=budget, owner=budget.id, span=span)]
        pattern = self._keys.spend(budget.scope, "*", span)
        head, _, tail = self._keys.spend(budget.scope, "\0", span).partition("\0")
        found = []
        with translated():
            async for key in self._redis.scan_iter(match=pattern, count=500):
                owner = key.decode().removeprefix(head).removesuffix(tail)
                found.append(Account(budget=budget, owner=owner, span=span))
        return sorted(found, key=lambda one: one.owner)

    def _key(self, account: Account) -> str:
        return self._keys.spend(account.budget.scope, account.owner, account.span)


def _numbers(spent: Spent) -> list[int]:
    """In the order of the fields."""
    return [spent.nanos, spent.tokens, spent.own_nanos, spent.own_tokens]


def _less(spent: Spent, grown: Spent) -> Spent:
    return Spent(
        nanos=spent.nanos - grown.nanos,
        tokens=spent.tokens - grown.tokens,
        own_nanos=spent.own_nanos - grown.own_nanos,
        own_tokens=spent.own_tokens - grown.own_tokens,
    )


def _spent(row: list[bytes | None]) -> Spent:
    nanos, tokens, own_nanos, own_tokens = (int(one or 0) for one in row)
    return Spent(nanos=nanos, tokens=tokens, own_nanos=own_nanos, own_tokens=own_tokens)

"""What budgets have spent, added up anew from the ledger: for a Redis that lost its sums.

Comes in: the ledger and the budgets of the file. Goes out: what each account has spent in the month
of a moment, and in each of its days. `turnfleet db restore-redis` writes it back.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import func, select

from ops.store.engine import Database
from ops.store.forgetting import NOBODY
from ops.store.ledger import day_of
from ops.store.tables import usage_ledger
from shared.configuration.schema import BudgetScope, Configuration
from shared.configuration.spending import NANOS, Account, Spent, accounts_of, is_ours, payer_of
from shared.turns import CredentialSource, Target


async def spent_in_month(
    database: Database,
    configuration: Configuration,
    now: datetime,
    addresses: Collection[str] = (),
) -> list[tuple[Account, Spent]]:
    """What was spent in the month of `now` (UTC), by account. Raises `StoreError`.

    `addresses` are the providers that the operator gave an address: all there is the deployment's.
    """
    if not configuration.budgets:
        return []
    ledger = usage_ledger.c
    first = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    day = day_of(ledger.created_at, is_sqlite=database.is_sqlite).label("day")
    whose = (ledger.guild_id, ledger.user_id, ledger.provider, ledger.model)
    tokens = func.coalesce(ledger.input_tokens, 0) + func.coalesce(ledger.output_tokens, 0)
    statement = (
        select(day, *whose, ledger.credential_source)
        .add_columns(func.sum(ledger.cost).label("cost"), func.sum(tokens).label("tokens"))
        .where(ledger.created_at >= first)
        .group_by(day, *whose, ledger.credential_source)
    )
    async with database.begin() as connection:
        rows = list(await connection.execute(statement))
    sums: dict[tuple[str, str, str], tuple[Account, Spent]] = {}
    for row in rows:
        payer = payer_of(CredentialSource(row.credential_source), row.provider, addresses)
        for account in _accounts(configuration, row, payer):
            name = (account.budget.scope, account.owner, account.span)
            before = sums[name][1] if name in sums else Spent()
            sums[name] = (account, _more(before, row, is_own=not is_ours(payer)))
    return list(sums.values())


def _accounts(configuration: Configuration, row: Any, payer: CredentialSource) -> list[Account]:
    """The accounts of a row, each once, though several budgets may look at it."""
    midnight = datetime.fromisoformat(f"{row.day}T00:00:00+00:00")
    found = accounts_of(
        configuration,
        guild_id=row.guild_id,
        user_id=row.user_id,
        target=Target(provider=row.provider, model=row.model),
        source=payer,
        now_ms=int(midnight.timestamp() * 1000),
    )
    named = {(one.budget.scope, one.owner, one.span): one for one in found}
    # Who was forgotten has no account any more.
    named = {name: one for name, one in named.items() if name[:2] != _FORGOTTEN}
    return list(named.values())


_FORGOTTEN = (BudgetScope.USER, str(NOBODY))


def _more(before: Spent, row: Any, *, is_own: bool) -> Spent:
    nanos, tokens = round(float(row.cost or 0.0) * NANOS), int(row.tokens or 0)
    return Spent(
        nanos=before.nanos + (0 if is_own else nanos),
        tokens=before.tokens + (0 if is_own else tokens),
        own_nanos=before.own_nanos + (nanos if is_own else 0),
        own_tokens=before.own_tokens + (tokens if is_own else 0),
    )

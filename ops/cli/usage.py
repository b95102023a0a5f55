"""`turnfleet usage`: tokens and cost of ended turns, by guild, user, model, ...

Comes in: a span of time. Goes out: sums of the usage ledger.
"""

import asyncio
import os
import time
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
import typer

from ops.cli.output import Output, OutputFormat, print_records
from ops.cli.session import database, fleet, span
from ops.store.ledger import MAX_ROWS, Used, UsedBy, used
from shared.configuration.loading import load
from shared.configuration.spending import NANOS, share_of, span_of
from shared.edges.spending import Spending

COLUMNS: Final = (
    *("turns", "attempts", "counted", "input_tokens", "output_tokens", "cache_read_tokens"),
    *("cost", "superseded_cost"),
)
BUDGET_COLUMNS: Final = ("budget", "owner", "span", "spent", "cost", "tokens")


def usage(
    by: Annotated[UsedBy, typer.Option(help="What is told apart.")] = UsedBy.MODEL,
    since: Annotated[str, typer.Option(metavar="SPAN", help="How far back: 24h, 30d.")] = "30d",
    limit: Annotated[int, typer.Option(min=1, max=MAX_ROWS, help="How many at most.")] = 50,
    budgets: Annotated[
        bool, typer.Option("--budgets", help="What the budgets of the file have spent instead.")
    ] = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Sums tokens and cost of ended turns; a count that a provider did not give is in no sum.

    Every attempt is paid for; what was superseded, and nobody read, is part of the sums.
    """
    if budgets:
        found = asyncio.run(_budgets())
        print_records(found, BUDGET_COLUMNS, output, empty="No budget has been spent from.")
        return

    async def ask() -> list[Used]:
        async with database() as opened:
            return await used(opened, by, since=datetime.now(UTC) - span(since), limit=limit)

    rows = [msgspec.structs.asdict(one) for one in asyncio.run(ask())]
    records = [{by.value: row.pop("value"), **row} for row in rows]
    print_records(records, (by.value, *COLUMNS), output, empty="No turns have ended.")


async def _budgets() -> list[dict[str, object]]:
    """What each budget has spent in its period so far, the most spent first."""
    rows = []
    now_ms = time.time_ns() // 1_000_000
    async with fleet() as opened:
        spending = Spending(opened.redis, opened.keys)
        for budget in load(os.environ).configuration.budgets:
            accounts = await spending.owners(budget, span_of(budget.period, now_ms))
            spent = await spending.read(accounts)
            for account, have in zip(accounts, spent, strict=True):
                own = budget.own_keys
                nanos = have.nanos + (have.own_nanos if own else 0)
                share = share_of(budget, have)
                row: dict[str, object] = {
                    "budget": f"{budget.scope} per {budget.period}",
                    "owner": account.owner,
                    "span": account.span,
                    "spent": f"{share:.0%}",
                    "cost": round(nanos / NANOS, 6),
                    "tokens": have.tokens + (have.own_tokens if own else 0),
                    "share": share,
                }
                rows.append((share, row))
    return [row for _, row in sorted(rows, key=lambda pair: -pair[0])]

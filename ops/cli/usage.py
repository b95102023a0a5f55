"""`turnfleet usage`: tokens and cost of ended turns, by guild, user, model, ...

Comes in: a span of time. Goes out: sums of the usage ledger.
"""

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
import typer

from ops.cli.output import Output, OutputFormat, print_records
from ops.cli.session import database, span
from ops.store.ledger import MAX_ROWS, Used, UsedBy, used

COLUMNS: Final = (
    *("turns", "attempts", "counted", "input_tokens", "output_tokens", "cache_read_tokens"),
    *("cost", "superseded_cost"),
)


def usage(
    by: Annotated[UsedBy, typer.Option(help="What is told apart.")] = UsedBy.MODEL,
    since: Annotated[str, typer.Option(metavar="SPAN", help="How far back: 24h, 30d.")] = "30d",
    limit: Annotated[int, typer.Option(min=1, max=MAX_ROWS, help="How many at most.")] = 50,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Sums tokens and cost of ended turns; a count that a provider did not give is in no sum.

    Every attempt is paid for; what was superseded, and nobody read, is part of the sums.
    """

    async def ask() -> list[Used]:
        async with database() as opened:
            return await used(opened, by, since=datetime.now(UTC) - span(since), limit=limit)

    rows = [msgspec.structs.asdict(one) for one in asyncio.run(ask())]
    records = [{by.value: row.pop("value"), **row} for row in rows]
    print_records(records, (by.value, *COLUMNS), output, empty="No turns have ended.")

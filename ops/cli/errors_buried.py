"""`errors buried`: entries of streams that nobody could read or store, with the reason.

Comes in: the stream of the buried. Goes out: what lies there; with `--drop`, nothing lies there any
more. What an entry holds may be a person's words: it is counted, and shown by `redis-cli` alone.
"""

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from ops.cli.output import Output, OutputFormat, print_records, say
from ops.cli.session import fleet
from shared.edges.backlog import Backlog, Buried

COLUMNS: Final = ("at", "stream", "entry", "bytes", "reason")
MAX_ENTRIES: Final = 1_000
"""As many as are kept."""


def buried(
    drop: Annotated[
        bool, typer.Option("--drop", help="Removes them after they are shown.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=MAX_ENTRIES, help="How many at most.")] = 50,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Shows what nobody could read: by whom it was put aside, when, and why. The latest first."""
    found = asyncio.run(_found(limit))
    rows = [
        {
            "at": datetime.fromtimestamp(one.at_ms / 1000, UTC),
            "stream": one.stream,
            "entry": one.entry,
            "bytes": one.size_bytes,
            "reason": one.reason,
        }
        for one in found
    ]
    print_records(rows, COLUMNS, output, empty="Nothing is buried.")
    if drop and found:
        asyncio.run(_drop([one.id for one in found]))
        say(f"{len(found)} entries were dropped.")


async def _found(limit: int) -> list[Buried]:
    async with fleet() as link:
        return await Backlog(link.redis, link.keys).buried_entries(limit)


async def _drop(ids: list[str]) -> None:
    async with fleet() as link:
        await Backlog(link.redis, link.keys).drop_buried(ids)

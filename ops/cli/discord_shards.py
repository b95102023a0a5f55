"""`turnfleet discord shards`: which gateway has which part of the bot's servers.

Comes in: nothing. Goes out: a row for each shard. `ops.cli.discord` adds the command.
"""

import asyncio
from datetime import UTC, datetime
from typing import Final

from ops.cli.output import Output, OutputFormat, Record, print_records, say
from ops.cli.session import fleet
from shared.edges.shards import ShardRow, shard_rows

COLUMNS: Final = ("shard", "of", "gateway", "state", "since")
GONE: Final = "gone"
FREE: Final = "free"
EMPTY: Final = "No gateway has served Discord within the last hour."


def shards(output: Output = OutputFormat.TABLE) -> None:
    """Shows which gateway has which shard, how it stands, and what nobody has."""

    async def ask() -> list[ShardRow]:
        async with fleet() as link:
            return await shard_rows(link.redis, link.keys)

    rows = records(asyncio.run(ask()))
    print_records(rows, COLUMNS, output, empty=EMPTY)
    missing = [row for row in rows if row["state"] in (GONE, FREE)]
    if missing and output is OutputFormat.TABLE:
        say(
            f"{len(missing)} shard(s) have no gateway: servers and, with shard 0, direct messages "
            "are not heard. A gateway that lives takes them within seconds; see its log."
        )


def records(rows: list[ShardRow]) -> list[Record]:
    """Every shard of the numbers that are in use; of another number only what somebody has.

    While a bot is given another number of shards, the old and the new one stand side by side.
    """
    found: list[Record] = []
    for count in sorted({row.count for row in rows}):
        known = {row.shard: row for row in rows if row.count == count}
        is_used = any(row.left_ms > 0 for row in known.values())
        is_last = not any(row.left_ms > 0 for row in rows)
        if is_used or is_last:
            found += [_record(shard, count, known.get(shard)) for shard in range(count)]
    return found


def _record(shard: int, count: int, row: ShardRow | None) -> Record:
    if row is None:
        return {"shard": shard, "of": count, "gateway": "", "state": FREE, "since": None}
    since = datetime.fromtimestamp(row.since_ms / 1000, UTC).isoformat(timespec="seconds")
    state = row.state if row.left_ms > 0 else GONE
    return {"shard": shard, "of": count, "gateway": row.gateway, "state": state, "since": since}

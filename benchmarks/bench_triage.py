"""What operators ask, over 300,000 errors and as many turns: each answer within its gate.

Comes in: `--rows`. Goes out: the median of each query on SQLite and on PostgreSQL; exit code 1 when
one misses the gate. A tenth of the rows lies in the last day, as after a month of a bot.

    python -m benchmarks.bench_triage
"""

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from sqlalchemy import text

from ops.store.engine import Database, database_url
from ops.store.errors import Record, write_reports
from ops.store.ledger import UsedBy, used
from ops.store.migrate import upgrade
from ops.triage.causes import facets, hourly, spikes, top_causes
from ops.triage.errors import ErrorFilter, error_detail, find_error, list_errors
from ops.triage.rates import RateBy, rates
from shared.summaries import TurnSummary
from shared.turns import TurnState, Usage
from tests.support.postgres import fresh_database, postgres_url
from tests.support.reports import a_report

ROWS = 300_000
GATE_MS = 300.0
"""Of the issue, on a machine with two shared cores."""
ROUNDS = 5
BATCH = 2_000
RECENT = 0.1
CAUSES = ("invalid_key", "model_not_found", "insufficient_balance", "upstream_error")
PROVIDERS = ("openai", "anthropic", "google", "xai", "deepseek")
NOW = datetime.now(UTC)


def records(rows: int, luck: random.Random) -> Iterator[Record]:
    """Errors and turns of a month, a tenth of them in the last day."""
    base, month_s = a_report(), 30 * 86_400
    spans = (86_400 if luck.random() < RECENT else month_s for _ in range(rows))
    ages_s = sorted((luck.random() * span_s for span_s in spans), reverse=True)
    for number, age_s in enumerate(ages_s):
        at_ms = int((NOW - timedelta(seconds=age_s)).timestamp() * 1000)
        provider, guild = luck.choice(PROVIDERS), 1000 + int(luck.expovariate(0.002))
        model = f"{provider}-{luck.randrange(4)}"
        yield msgspec.structs.replace(
            base,
            provider=provider,
            model=model,
            guild_id=guild,
            id=f"{at_ms:012x}-{number:08x}",
            created_ms=at_ms,
            error_type=luck.choice(CAUSES),
            message=f"the provider says no, request req_{luck.randrange(10**9)}",
            key_id=f"{luck.randrange(40):012x}",
            turn_id=f"m{number}",
            stack_trace=None,
            metadata={"padding": "x" * 300},
        )
        yield TurnSummary(
            provider=provider,
            model=model,
            guild_id=guild,
            turn_id=f"m{number}",
            attempt=1,
            ended_ms=at_ms,
            state=TurnState.FAILED if number % 9 == 0 else TurnState.DONE,
            user_id=guild * 7,
            channel_id=guild * 3,
            worker_version="0.1.0",
            usage=Usage(input=1000, output=200, cost=0.01),
        )


async def fill(database: Database, rows: int) -> None:
    """Writes the rows as the recorder does, each received when it happened."""
    await upgrade(database)
    batch: list[Record] = []
    for record in records(rows, random.Random(7)):
        batch.append(record)
        if len(batch) == BATCH:
            await write_old(database, batch)
            batch = []
    await write_old(database, batch)
    async with database.begin() as connection:
        await connection.execute(text("ANALYZE"))


async def write_old(database: Database, batch: list[Record]) -> None:
    """Writes by day, so that no clock looks wrong to the store."""
    days: dict[int, list[Record]] = {}
    for record in batch:
        at_ms = record.ended_ms if isinstance(record, TurnSummary) else record.created_ms
        days.setdefault(at_ms // 43_200_000, []).append(record)
    for half_day, part in days.items():
        received = datetime.fromtimestamp(half_day * 43_200 + 43_200, UTC)
        await write_reports(database, part, received)


async def questions(database: Database) -> dict[str, Callable[[], Awaitable[object]]]:
    """The queries by what they answer."""
    day = NOW - timedelta(hours=24)
    (top, *_) = causes = await top_causes(database, ErrorFilter(since=day, limit=20))
    (error, *_) = await list_errors(database, ErrorFilter(since=day, limit=1))
    window = timedelta(minutes=10)
    names = [one.group_hash for one in causes]
    guild, model, month = 1010, error.model, NOW - timedelta(days=30)
    return {
        "top causes of a day": lambda: top_causes(database, ErrorFilter(since=day)),
        "top causes of a guild": lambda: top_causes(database, ErrorFilter(guild_id=guild)),
        "spikes": lambda: spikes(database, now=NOW, window=window, factor=3),
        "hours of 20 causes": lambda: hourly(database, names, NOW),
        "facets of a cause": lambda: facets(database, top.group_hash, day),
        "last errors": lambda: list_errors(database, ErrorFilter(since=day)),
        "errors of a model": lambda: list_errors(database, ErrorFilter(since=day, model=model)),
        "errors by text": lambda: list_errors(database, ErrorFilter(since=day, text="zzz")),
        "one error by its end": lambda: find_error(database, error.id[-8:]),
        "history of a turn": lambda: error_detail(database, error),
        "rates by model": lambda: rates(database, RateBy.MODEL, since=day),
        "rates by guild": lambda: rates(database, RateBy.GUILD, since=day),
        "month of a ledger by model": lambda: used(database, UsedBy.MODEL, since=month),
        "month of a ledger by guild": lambda: used(database, UsedBy.GUILD, since=month),
    }


async def measure(name: str, url: str, rows: int) -> float:
    """Prints the medians of one database. Returns the worst."""
    with tempfile.TemporaryDirectory() as home:
        database = Database(database_url(url, Path(home)))
        try:
            started_s = time.perf_counter()
            await fill(database, rows)
            took_s = time.perf_counter() - started_s
            print(f"{name}: {2 * rows} records written in {took_s:.0f} s")
            worst = 0.0
            for label, ask in (await questions(database)).items():
                times = []
                for _ in range(ROUNDS):
                    started_s = time.perf_counter()
                    await ask()
                    times.append((time.perf_counter() - started_s) * 1000)
                median = statistics.median(times)
                worst = max(worst, median)
                mark = "" if median <= GATE_MS else "  MISSES THE GATE"
                print(f"  {label:28} {median:8.1f} ms{mark}", flush=True)
            return worst
        finally:
            await database.close()


@contextmanager
def databases() -> Iterator[dict[str, str]]:
    """The URL of an empty database of each kind."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        server = stack.enter_context(postgres_url())
        yield {
            "SQLite": f"sqlite:///{folder}/bench.db",
            "PostgreSQL": stack.enter_context(fresh_database(server)),
        }


def main() -> int:
    """Measures both databases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    rows: int = parser.parse_args().rows
    with databases() as urls:
        worst = max(asyncio.run(measure(name, url, rows)) for name, url in urls.items())
    return 0 if worst <= GATE_MS else 1


if __name__ == "__main__":
    sys.exit(main())

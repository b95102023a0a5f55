"""What operators ask, over 300,000 errors and as many turns: each answer within its gate.

Comes in: `--rows`. Goes out: the median of each query on SQLite and on PostgreSQL; exit code 1 when
one misses the gate. A tenth of the rows lies in the last day, as after half a year of
a bot. A plan that reads a large table without an index misses the gate, too.

    python -m benchmarks.bench_triage
"""

import argparse
import asyncio
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import event, text

from ops.store.engine import Database, database_url
from ops.store.errors import Record, write_reports
from ops.store.ledger import UsedBy, used
from ops.store.migrate import upgrade
from ops.triage.attempts import attempts_of, turns_of
from ops.triage.causes import TopBy, facets, hourly, spikes, top_causes, top_values
from ops.triage.errors import ErrorFilter, error_detail, find_error, list_errors
from ops.triage.rates import RateBy, rates
from shared.failures import Severity
from shared.summaries import TurnSummary
from shared.turns import TurnState, Usage
from tests.support.postgres import fresh_database, postgres_url
from tests.support.reports import a_report

ROWS = 300_000
GATE_MS = 300.0
"""What a page of the console may take, on a machine with two shared cores: it seems immediate."""
ROUNDS = 5
BATCH = 2_000
BIG = {"error_logs", "turn_failures", "usage_ledger"}
"""Tables that no question may read from end to end: they grow with the traffic."""
_SCAN = re.compile(r"(?:^SCAN |Seq Scan on )(\w+)(?!.*USING)")
"""SQLite: `SCAN error_logs`, but not `SCAN error_logs USING INDEX ...`. PostgreSQL: its words."""
RECENT = 0.1
SPAN_S = 180 * 86_400
"""Half a year, so that a month of the ledger is a quarter of it: of more than a third PostgreSQL
rather reads the whole table than the index."""
CAUSES = ("invalid_key", "model_not_found", "insufficient_balance", "upstream_error")
PROVIDERS = ("openai", "anthropic", "google", "xai", "deepseek")
NOW = datetime.now(UTC)
KEPT = timedelta(days=3)


def records(rows: int, luck: random.Random) -> Iterator[Record]:
    """Errors and turns of half a year, a tenth in the last day, a third of them expected too."""
    base = a_report()
    spans = (86_400 if luck.random() < RECENT else SPAN_S for _ in range(rows))
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
        if number % 3 == 0:
            yield msgspec.structs.replace(
                base,
                severity=Severity.WARNING,
                error_type="overloaded",
                provider=provider,
                model=model,
                guild_id=guild,
                id=f"{at_ms:012x}-{number:08x}-x",
                created_ms=at_ms,
                turn_id=f"m{number}",
                metadata={},
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
    if not database.is_sqlite:
        # As autovacuum does by itself within minutes: indexes alone may answer then.
        async with database._engine.connect() as raw:
            alone = await raw.execution_options(isolation_level="AUTOCOMMIT")
            await alone.execute(text("VACUUM ANALYZE"))


async def write_old(database: Database, batch: list[Record]) -> None:
    """Writes by day, so that no clock looks wrong to the store."""
    days: dict[int, list[Record]] = {}
    for record in batch:
        at_ms = record.ended_ms if isinstance(record, TurnSummary) else record.created_ms
        days.setdefault(at_ms // 43_200_000, []).append(record)
    for half_day, part in days.items():
        received = datetime.fromtimestamp(half_day * 43_200 + 43_200, UTC)
        await write_reports(database, part, received)


Question = Callable[[], Awaitable[object]]


async def questions(database: Database) -> dict[str, Question]:
    """The queries by what they answer."""
    day = ErrorFilter(since=NOW - timedelta(hours=24))
    (top, *_) = causes = await top_causes(database, day)
    (error, *_) = await list_errors(database, day)
    names = [one.group_hash for one in causes][:20]
    by = {f"errors of a day by {one}": _top(database, day, one) for one in TopBy if one != "cause"}
    rated = {f"rates of a day by {one}": _rates(database, one) for one in RateBy}
    month = {f"month of the ledger by {one}": _used(database, one) for one in UsedBy}
    since = NOW - timedelta(hours=24)
    page = msgspec.structs.replace(day, limit=500, before=(error.created_at, error.seq))
    return {
        "top causes of a day": lambda: top_causes(database, day),
        "with the expected ones": lambda: top_causes(database, day, with_expected=True),
        "new in a version": lambda: top_causes(database, day, new_in="0.1.0"),
        "top causes of a guild": lambda: top_causes(database, ErrorFilter(guild_id=1010)),
        **by,
        "spikes": lambda: spikes(database, now=NOW, window=timedelta(minutes=10), factor=3),
        "hours of 20 causes": lambda: hourly(database, names, NOW),
        "facets of a cause": lambda: facets(database, top.group_hash, since),
        "last errors": lambda: list_errors(database, day),
        "errors of a model": lambda: list_errors(database, _of(day, model=error.model)),
        "errors of a guild": lambda: list_errors(database, _of(day, guild_id=1010)),
        "errors of a key": lambda: list_errors(database, _of(day, key_id=error.key_id)),
        "errors by text": lambda: list_errors(database, _of(day, text="zzz")),
        "a page of an export": lambda: list_errors(database, page),
        "one error by its end": lambda: find_error(database, error.id[-8:]),
        "history of a turn": lambda: error_detail(database, error),
        "attempts of a turn": lambda: attempts_of(database, error.turn_id or ""),
        "turns of a cause": lambda: turns_of(database, top.group_hash, NOW - KEPT),
        "the same by its beginning": lambda: turns_of(database, top.group_hash[:12], NOW - KEPT),
        **rated,
        **month,
    }


def _of(wanted: ErrorFilter, **changes: object) -> ErrorFilter:
    return msgspec.structs.replace(wanted, **changes)


def _top(database: Database, wanted: ErrorFilter, by: TopBy) -> Question:
    return lambda: top_values(database, wanted, by)


def _rates(database: Database, by: RateBy) -> Question:
    return lambda: rates(database, by, since=NOW - timedelta(hours=24))


def _used(database: Database, by: UsedBy) -> Question:
    return lambda: used(database, by, since=NOW - timedelta(days=30))


@contextmanager
def heard(database: Database) -> Iterator[list[tuple[str, Any]]]:
    """The statements, with their parameters, that run meanwhile."""
    found: list[tuple[str, Any]] = []

    def hear(_c: object, _cursor: object, statement: str, given: Any, *_: object) -> None:
        if statement.lstrip().upper().startswith("SELECT"):
            found.append((statement, given))

    engine = database._engine.sync_engine
    event.listen(engine, "before_cursor_execute", hear)
    try:
        yield found
    finally:
        event.remove(engine, "before_cursor_execute", hear)


async def scans(database: Database, ask: Question) -> list[str]:
    """The tables that a question reads without an index, as the plans of its statements say."""
    with heard(database) as statements:
        await ask()
    found = set()
    explain = "EXPLAIN QUERY PLAN" if database.is_sqlite else "EXPLAIN"
    for statement, given in statements:
        async with database.begin() as connection:
            plan = await connection.exec_driver_sql(f"{explain} {statement}", given)
            lines = [str(row[-1]) for row in plan]
        for line in lines:
            if match := _SCAN.search(line):
                found.add(match[1])
    return sorted(found & BIG)


async def measure(name: str, url: str, rows: int) -> float:
    """Prints the medians of one database. Returns the worst."""
    with tempfile.TemporaryDirectory() as home:
        database = Database(database_url(url, Path(home)))
        try:
            started_s = time.perf_counter()
            await fill(database, rows)
            took_s = time.perf_counter() - started_s
            print(f"{name}: {rows} errors and as many turns written in {took_s:.0f} s")
            worst = 0.0
            for label, ask in (await questions(database)).items():
                times = []
                for _ in range(ROUNDS):
                    started_s = time.perf_counter()
                    await ask()
                    times.append((time.perf_counter() - started_s) * 1000)
                median = statistics.median(times)
                bare = await scans(database, ask)
                worst = max(worst, float("inf") if bare else median)
                mark = "" if median <= GATE_MS else "  MISSES THE GATE"
                mark += f"  WITHOUT AN INDEX: {', '.join(bare)}" if bare else ""
                print(f"  {label:32} {median:8.1f} ms{mark}", flush=True)
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

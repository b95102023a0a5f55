"""`turnfleet usage --budgets` over a real server, and what it shows after a loss of that."""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ops.store.engine import Database, database_url
from ops.store.errors import write_reports
from ops.store.migrate import upgrade
from shared.configuration.spending import NANOS, accounts_of
from shared.edges.redis import connect
from shared.edges.spending import Spending
from shared.keys import Keys
from shared.summaries import TurnSummary
from shared.turns import AttemptToken, CredentialSource, Target, TurnState, Usage
from tests.support.cli import Command
from tests.support.configurations import configuration_of
from tests.support.servers import RedisServer, running_server

TEXT = """
[[budgets]]
scope = "guild"
period = "day"
tokens = 100
[[budgets]]
scope = "all"
period = "month"
cost = 4.0
"""


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


def test_what_budgets_have_spent(server: RedisServer, tmp_path: Path):
    file = tmp_path / "turnfleet.toml"
    file.write_text(TEXT, encoding="utf-8")
    command = Command(tmp_path / "data", {"redis_url": server.url, "config": str(file)})

    async def spend() -> list[int]:
        async with aclosing(connect(server.url)) as redis:
            spending = Spending(redis, Keys())
            grown = []
            for number, (guild, tokens) in enumerate([(7, 30), (7, 30), (8, 90)]):
                accounts = accounts_of(
                    configuration_of(TEXT),
                    guild_id=guild,
                    user_id=1,
                    target=Target(provider="a", model="b"),
                    source=CredentialSource.SERVER,
                    now_ms=time.time_ns() // 1_000_000,
                )
                token = AttemptToken(turn_id=f"m{number}", attempt=1, claim="c")
                for _ in range(2):  # sent twice it is added once
                    pairs = await spending.add(
                        accounts, token, nanos=NANOS, tokens=tokens, is_own=False
                    )
                    grown.append(pairs[0][1].tokens - pairs[0][0].tokens)
            return grown

    assert asyncio.run(spend()) == [30, 0, 30, 0, 90, 0]
    rows = json.loads(command("usage", "--budgets", "-o", "json").stdout)
    assert [(row["budget"], row["owner"], row["spent"]) for row in rows] == [
        ("guild per day", "8", "90%"),
        ("all per month", "*", "75%"),
        ("guild per day", "7", "60%"),
    ]
    assert [(row["cost"], row["tokens"]) for row in rows] == [(1.0, 90), (3.0, 150), (2.0, 60)]


def test_a_lost_server_gets_back_what_was_spent(server: RedisServer, tmp_path: Path):
    file = tmp_path / "turnfleet.toml"
    file.write_text(f"{TEXT}own_keys = true\n", encoding="utf-8")
    settings = {"redis_url": server.url, "config": str(file), "cell": "lost"}
    command = Command(tmp_path, settings)
    own = CredentialSource.PERSONAL
    turns = [an_end("m1", 7, 30), an_end("m2", 7, 20), an_end("m3", 8, 90, source=own)]

    async def record() -> None:
        database = Database(database_url(None, tmp_path))
        await upgrade(database)
        await write_reports(database, turns, datetime.now(UTC))
        await database.close()

    async def spend_since() -> None:
        """Guild 9 has spent after the loss, and the ledger does not know it yet."""
        async with aclosing(connect(server.url)) as redis:
            await redis.hset(  # type: ignore[misc]  # redis-py types both clients
                Keys("lost").spend("guild", "9", f"{datetime.now(UTC):%Y-%m-%d}"), "t", "99"
            )

    asyncio.run(record())
    asyncio.run(spend_since())
    for words, count in ((("--dry-run",), 2), ((), 2), ((), 0)):
        done = command("db", "restore-redis", *words, "-o", "json")
        assert json.loads(done.stdout)["budgets"] == count, done.stderr
    rows = json.loads(command("usage", "--budgets", "-o", "json").stdout)
    assert {(row["owner"], row["tokens"], row["cost"]) for row in rows} == {
        ("7", 50, 2.0),
        ("9", 99, 0.0),
        ("*", 140, 3.0),
    }


def an_end(
    turn_id: str, guild: int, tokens: int, source: CredentialSource = CredentialSource.SERVER
) -> TurnSummary:
    """A turn that has ended now, and cost 1."""
    return TurnSummary(
        turn_id=turn_id,
        attempt=1,
        ended_ms=time.time_ns() // 1_000_000,
        state=TurnState.DONE,
        user_id=1,
        channel_id=1,
        guild_id=guild,
        provider="a",
        model="b",
        credential_source=source,
        worker_version="1",
        usage=Usage(input=tokens - 5, output=5, cost=1.0),
    )

"""`turnfleet usage --budgets` over a real server."""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from shared.configuration.spending import NANOS, accounts_of
from shared.edges.redis import connect
from shared.edges.spending import Spending
from shared.keys import Keys
from shared.turns import AttemptToken, CredentialSource, Target
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

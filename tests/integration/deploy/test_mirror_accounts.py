"""The mirror and the console with the accounts of a fleet: each may do what it must."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ops.acl import Role
from ops.store.engine import Database, database_url
from ops.store.migrate import upgrade
from ops.store.mirror import Mirror, Standing
from shared.configuration.schema import Budget, BudgetScope, Period
from shared.configuration.spending import Account, Spent
from shared.edges.backlog import Backlog
from shared.edges.redis import connect
from shared.edges.spending import Spending
from shared.keys import Keys
from tests.support.acl import Guarded, guarded_server

KEYS = Keys()
NOW = datetime.now(UTC)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    with guarded_server("redis", tmp_path) as server:
        yield server


async def test_the_recorder_mirrors_and_the_operator_restores(guarded: Guarded, tmp_path: Path):
    database = Database(database_url(f"sqlite:///{tmp_path}/store.db", tmp_path))
    await upgrade(database)
    clients: dict[str, Any] = {
        role: connect(guarded.url(role)) for role in (Role.RECORDER, Role.OPERATOR, "admin")
    }
    recorder, operator, admin = clients.values()
    await admin.hset(KEYS.choices, "guild:7", b"{}")
    await admin.hset(KEYS.credentials, "server:7:openai:main", b"box")
    await admin.lpush(KEYS.credential_audit, b"added")
    await admin.zadd(KEYS.pauses, {"fleet": float("inf")})
    await admin.zadd(KEYS.forget_due, {"guild:8": 2e12})
    await admin.hset(KEYS.forgotten, "digest", 17)
    mirror = Mirror(database, recorder, KEYS)
    assert (await mirror.follow(NOW)).changed == 6
    await admin.flushall()
    assert (await mirror.follow(NOW)).standing is Standing.LOST
    assert len((await Mirror(database, operator, KEYS).restore()).values) == 6
    account = Account(budget=Budget(scope=BudgetScope.ALL, period=Period.DAY), owner="*", span="d")
    due = [(account, Spent(nanos=5, tokens=7))]
    assert [await Spending(operator, KEYS).raise_to(due) for _ in range(2)] == [1, 0]
    assert (await mirror.follow(NOW)).standing is Standing.CURRENT
    assert guarded.refused() == []
    for client in clients.values():
        await client.aclose()
    await database.close()


async def test_a_console_that_only_reads_sees_what_stands_still(guarded: Guarded):
    console, admin = connect(guarded.url(Role.CONSOLE)), connect(guarded.url("admin"))
    await admin.zadd(KEYS.pauses, {"fleet": float("inf")})
    await admin.zadd(KEYS.waiting, {"l7": 2e12})
    await admin.hset(KEYS.turn("l7"), "enqueued", "1")  # type: ignore[misc]  # redis-py types both clients
    await admin.xadd(KEYS.buried, {"reason": "none"})
    backlog = Backlog(console, KEYS)
    still = await backlog.standstill()
    assert (still.pauses, still.oldest_ms > 0) == ({"fleet": None}, True)
    assert len(await backlog.buried_entries(5)) == 1
    assert guarded.refused() == []
    for client in (console, admin):
        await client.aclose()

"""`turnfleet discord shards` says which gateway has which shard, and what nobody has."""

import asyncio
import json
from pathlib import Path

import pytest

from gateway.edges.shard_leases import Holding, RedisShards
from ops.cli.discord_shards import EMPTY, records
from shared.edges.redis import connect
from shared.edges.shards import ShardRow
from shared.keys import Keys
from tests.support.cli import Command
from tests.support.servers import running_server


def row(shard: int, count: int, left_ms: int = 900) -> ShardRow:
    return ShardRow(
        shard=shard, count=count, gateway="g", state="connected", left_ms=left_ms, since_ms=0
    )


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([], []),
        ([row(0, 1)], [(0, 1, "connected")]),
        ([row(0, 2)], [(0, 2, "connected"), (1, 2, "free")]),
        ([row(0, 2), row(1, 2, -5)], [(0, 2, "connected"), (1, 2, "gone")]),
        ([row(0, 1, -5), row(0, 2), row(1, 2)], [(0, 2, "connected"), (1, 2, "connected")]),
        ([row(0, 1), row(0, 2)], [(0, 1, "connected"), (0, 2, "connected"), (1, 2, "free")]),
        ([row(0, 1, -5)], [(0, 1, "gone")]),
    ],
)
def test_what_is_shown_of_the_numbers_that_are_in_use(rows, found):
    assert [(one["shard"], one["of"], one["state"]) for one in records(rows)] == found


async def held(url: str, shards: str) -> None:
    redis = connect(url)
    leases = RedisShards(redis, Keys(), "gateway-a", wanted=shards)
    await leases.agree(1)
    await leases.beat({})
    await leases.beat({0: Holding(state="connected"), 1: Holding(state="no_starts")})
    await redis.aclose()


def test_an_operator_sees_them(tmp_path: Path):
    with running_server("redis") as server:
        command = Command(tmp_path, {"redis_url": server.url})
        assert EMPTY in command("discord", "shards").output
        asyncio.run(held(server.url, "2"))
        rows = json.loads(command("discord", "shards", "-o", "json").stdout)
        assert [(one["gateway"], one["state"]) for one in rows] == [
            ("gateway-a", "connected"),
            ("gateway-a", "no_starts"),
        ]
        table = command("discord", "shards").output
        assert "no_starts" in table
        assert "have no gateway" not in table

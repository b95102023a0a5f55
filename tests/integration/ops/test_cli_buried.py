"""`turnfleet errors buried`: what nobody could read, told without what is in it."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.edges.redis import connect
from shared.edges.streams import GroupReader
from shared.keys import RECORDER_GROUP, Keys
from tests.support.cli import Command
from tests.support.servers import RedisServer, running_server

HOSTILE = "=cmd|' /C x'!A0 \x1b]8;;http://evil.example\x1b\\ \u202e"


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


def test_what_is_buried_is_shown_and_dropped(server: RedisServer, tmp_path: Path):
    turnfleet, keys = Command(tmp_path, {"redis_url": server.url}), Keys()

    async def bury() -> None:
        redis, blocking = connect(server.url), connect(server.url, blocking=True)
        reader = GroupReader(
            redis, blocking, stream=keys.errors, group=RECORDER_GROUP, consumer="recorder"
        )
        await redis.xadd(keys.errors, {"v": b"what a person said"})
        (entry,) = await reader.read(block_s=1.0, count=1)
        await reader.bury(entry, HOSTILE, keys.buried)
        await redis.xadd(keys.buried, {"x": b"\xff\x00"})  # by another version, without a reason
        for client in (redis, blocking):
            await client.aclose()

    assert turnfleet("errors", "buried").stderr == "Nothing is buried.\n"
    asyncio.run(bury())
    bare, told = json.loads(turnfleet("errors", "buried", "-o", "json").stdout)
    assert (bare["stream"], bare["bytes"], bare["reason"]) == ("", 2, "")
    assert (told["stream"], told["bytes"], told["reason"]) == (keys.errors, 18, HOSTILE)
    for form in ("table", "csv"):
        shown = turnfleet("errors", "buried", "-o", form).stdout
        assert "person" not in shown
        assert not {"\x1b", "\u202e"} & set(shown)
    assert "2 entries were dropped." in turnfleet("errors", "buried", "--drop").stderr
    assert turnfleet("errors", "buried").stderr == "Nothing is buried.\n"

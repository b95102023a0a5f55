"""`turnfleet privacy`: a receipt for what went, and who is to be forgotten."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.cli.exits import Exit
from shared.config import Settings
from shared.edges.forgetting import Forgetter, Kind, Subject
from shared.edges.queue import TurnQueue
from shared.edges.redis import connect
from shared.keys import Keys
from tests.support.cli import Command
from tests.support.servers import RedisServer, running_server
from tests.support.turns import turn

USER, GUILD = 187_001_234_567_890_123, 287_001_234_567_890_123


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


@pytest.fixture
def turnfleet(server: RedisServer, tmp_path: Path) -> Command:
    command = Command(tmp_path, {"redis_url": server.url})
    assert command("db", "upgrade").exit_code == Exit.OK
    return command


async def furnish(url: str) -> None:
    client, keys = connect(url), Keys()
    queue = TurnQueue(client, keys, Settings())
    await queue.admit(turn("m1", user=USER, guild=GUILD))
    await Forgetter(client, keys, queue).schedule(Subject(Kind.GUILD, GUILD), 1_800_000_000_000)
    await client.aclose()


def test_the_receipt_says_how_much_went_and_not_for_whom(server: RedisServer, turnfleet: Command):
    asyncio.run(furnish(server.url))
    done = turnfleet("privacy", "forget", "--user", str(USER), "-o", "json")
    assert done.exit_code == Exit.OK, done.output
    receipt = json.loads(done.stdout)
    assert (receipt["kind"], receipt["turns"], receipt["rows"]) == ("user", 1, 0)
    assert str(USER) not in done.stdout
    again = json.loads(turnfleet("privacy", "forget", "--user", str(USER), "-o", "json").stdout)
    assert again["turns"] == 0


def test_who_waits_is_shown(server: RedisServer, turnfleet: Command):
    asyncio.run(furnish(server.url))
    (row,) = json.loads(turnfleet("privacy", "due", "-o", "json").stdout)
    assert row == {"subject": f"guild:{GUILD}", "due_ms": 1_800_000_000_000}


@pytest.mark.parametrize("options", [[], ["--user", "1", "--guild", "2"]])
def test_one_subject_must_be_named(turnfleet: Command, options: list[str]):
    assert turnfleet("privacy", "forget", *options).exit_code == Exit.BAD_INPUT

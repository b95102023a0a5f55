"""`turnfleet doctor`: each finding is true, and says what to do."""

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis
from sqlalchemy import text

from ops.cli.exits import Exit
from ops.store.engine import Database, database_url
from ops.store.migrate import upgrade
from shared.edges.redis import connect
from shared.keys import Keys
from tests.support.cli import Command
from tests.support.servers import RedisServer, running_server


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


@contextmanager
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def examine(command: Command, *options: str) -> tuple[int, dict[str, dict[str, str]]]:
    result = command("doctor", "-o", "json", *options)
    return result.exit_code, {row["check"]: row for row in json.loads(result.stdout)}


def test_a_fresh_machine_is_ready(tmp_path: Path):
    code, found = examine(Command(tmp_path, {}))
    assert code == 0
    assert {row["verdict"] for row in found.values()} == {"ok"}
    assert set(found) == {"python", "settings", "disk", "redis", "database", "provider"}


def test_a_wrong_setting_is_all_there_is_to_say(tmp_path: Path):
    code, found = examine(Command(tmp_path, {"slotz": "1"}))
    assert code == Exit.BAD_INPUT
    assert "TURNFLEET_SLOTS" in found["settings"]["finding"]


@pytest.mark.parametrize(
    ("settings", "check", "words"),
    [
        pytest.param(
            {"redis_url": "redis://127.0.0.1:9"}, "redis", "TURNFLEET_REDIS_URL", id="redis_away"
        ),
        pytest.param({"redis_url": "http://x"}, "redis", "no known scheme", id="redis_url"),
        pytest.param(
            {"database_url": "postgresql://u:secret@127.0.0.1:9/d"},
            "database",
            "nobody answers",
            id="database_away",
        ),
        pytest.param(
            {"provider": "custom", "endpoints": '{"custom": "http://127.0.0.1:9/v1"}'},
            "provider",
            "no connection",
            id="provider_away",
        ),
        pytest.param({"provider": "custom"}, "provider", "TURNFLEET_ENDPOINTS", id="no_endpoint"),
        pytest.param(
            {"endpoints": '{"rehearsal": "ftp://x"}'}, "provider", "base URL", id="no_http"
        ),
        pytest.param(
            {"endpoints": '{"rehearsal": "http://h:port"}'}, "provider", "base URL", id="no_port"
        ),
    ],
)
def test_what_fails_is_named_with_advice(
    settings: dict[str, str], check: str, words: str, tmp_path: Path
):
    code, found = examine(Command(tmp_path, settings))
    assert code == Exit.BAD_INPUT
    assert found[check]["verdict"] == "fail"
    assert words in found[check]["finding"]
    assert found[check]["advice"]
    assert "secret" not in json.dumps(found)


def test_a_server_that_may_forget_is_refused(tmp_path: Path):
    with running_server("redis", appendonly="no") as server:
        command = Command(tmp_path, {"redis_url": server.url})
        code, found = examine(command)
        assert (code, found["redis"]["verdict"]) == (Exit.BAD_INPUT, "fail")
        assert "appendonly yes" in found["redis"]["advice"]
        command.environment["TURNFLEET_ALLOW_UNSAFE_REDIS"] = "true"
        assert examine(command)[0] == 0


def test_a_server_without_a_fleet_is_a_warning(server: RedisServer, tmp_path: Path):
    command = Command(tmp_path, {"redis_url": server.url, "cell": "quiet"})
    code, found = examine(command)
    assert (code, found["fleet"]["verdict"]) == (0, "warn")
    assert "turnfleet gateway" in found["fleet"]["advice"]
    assert examine(command, "--strict")[0] == Exit.FOUND


def test_reports_that_nobody_reads_are_a_warning(server: RedisServer, tmp_path: Path):
    keys = Keys("backlog")

    async def fill() -> None:
        redis: Redis = connect(server.url)
        async with redis.pipeline(transaction=False) as pipe:
            for _ in range(1_001):
                pipe.xadd(keys.errors, {"v": b"x"})
            pipe.xadd(keys.buried, {"v": b"x"})
            await pipe.execute()
        await redis.aclose()

    asyncio.run(fill())
    result = Command(tmp_path, {"redis_url": server.url, "cell": "backlog"})("doctor")
    assert "1001 error reports wait" in result.stdout
    assert "1 entries could not be read" in result.stdout


def test_a_provider_that_answers_and_one_without_key(tmp_path: Path):
    with listening() as port:
        endpoints = json.dumps({"rehearsal": f"http://127.0.0.1:{port}/v1"})
        code, found = examine(Command(tmp_path, {"endpoints": endpoints}))
        assert (code, found["provider"]["verdict"]) == (0, "ok")
        endpoints = json.dumps({"openai": f"http://127.0.0.1:{port}/v1"})
        command = Command(tmp_path, {"provider": "openai", "endpoints": endpoints})
        command.environment["OPENAI_API_KEY"] = ""
        code, found = examine(command)
        assert (code, found["provider"]["verdict"]) == (0, "warn")
        assert "OPENAI_API_KEY" in found["provider"]["advice"]


def test_a_database_behind_this_version_is_a_warning(empty_url: str, tmp_path: Path):
    command = Command(tmp_path, {"database_url": empty_url})

    async def bring_up() -> str:
        database = Database(database_url(empty_url, tmp_path))
        state = await upgrade(database)
        await database.close()
        return state.wanted

    _, before = examine(command)
    assert before["database"]["verdict"] == ("ok" if empty_url.startswith("sqlite") else "warn")
    raised = asyncio.run(bring_up())
    code, after = examine(command)
    assert (code, after["database"]["verdict"]) == (0, "ok")
    assert f"schema {raised}" in after["database"]["finding"]


def test_a_database_of_a_newer_version_is_well(empty_url: str, tmp_path: Path):
    command = Command(tmp_path, {"database_url": empty_url})

    async def raised() -> None:
        database = Database(database_url(empty_url, tmp_path))
        await upgrade(database)
        async with database.begin() as connection:
            await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        await database.close()

    asyncio.run(raised())
    code, found = examine(command)
    assert (code, found["database"]["verdict"]) == (0, "ok")
    assert "newer version" in found["database"]["finding"]
    brought_up = command("db", "upgrade", "-o", "json")
    assert brought_up.exit_code == 0
    assert json.loads(brought_up.stdout)["result"] == "nothing to do"
    status = command("db", "status", "--check")
    assert (status.exit_code, "newer version" in status.stderr) == (0, True)


def test_a_spool_that_waits_is_a_warning(tmp_path: Path):
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "dead.000001.ndjson").write_bytes(b"{}\n")
    code, found = examine(Command(tmp_path, {}))
    assert (code, found["disk"]["verdict"]) == (0, "warn")

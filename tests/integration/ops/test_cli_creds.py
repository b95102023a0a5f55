"""`turnfleet creds` over a real server: what is stored, shown, and never shown."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from ops.cli.exits import Exit
from tests.support.cli import Command
from tests.support.servers import RedisServer, running_server

KEY = "sk-" + "command-canary-0123456789"
REF = "server:7:openai:main"


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


@pytest.fixture(autouse=True)
def _empty(server: RedisServer) -> None:
    with redis.Redis(port=server.port) as client:
        client.flushall()


@pytest.fixture
def command(server: RedisServer, tmp_path: Path) -> Command:
    path = tmp_path / "opening.keys"
    return Command(tmp_path, {"redis_url": server.url, "opening_keys_file": str(path)})


def rows(command: Command, verb: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(command("creds", verb, "-o", "json").stdout)
    return found


def test_a_credential_is_added_replaced_and_revoked(command: Command):
    for _ in range(2):
        added = command("creds", "add", "openai", "--owner", "7", stdin=f"{KEY}\n")
        assert added.exit_code == 0
        assert "canary" not in added.output
    (row,) = rows(command, "list")
    assert (row["ref"], row["version"], row["state"]) == (REF, 2, "active")
    assert command("creds", "revoke", REF).exit_code == 0
    assert command("creds", "revoke", REF).exit_code == 0
    assert rows(command, "list")[0]["state"] == "revoked"
    assert [row["word"] for row in rows(command, "audit")] == ["revoked", "replaced", "added"]


def test_rotation_seals_everything_anew(command: Command, tmp_path: Path):
    command("creds", "add", "openai", "--owner", "7", stdin=f"{KEY}\n")
    before = (tmp_path / "opening.keys").read_text()
    assert "1 credentials would be" in command("creds", "rotate", "--dry-run").output
    assert (tmp_path / "opening.keys").read_text() == before
    assert "Sealed 1 credentials anew" in command("creds", "rotate").output
    assert (tmp_path / "opening.keys").read_text().endswith(before)
    assert rows(command, "list")[0]["version"] == 2
    assert "Sealed 1 credentials anew" in command("creds", "rotate").output


def test_who_stores_needs_the_public_key_only(server: RedisServer, tmp_path: Path):
    near = Command(tmp_path, {"redis_url": server.url})
    refused = near("creds", "add", "openai", "--owner", "9", stdin=KEY)
    assert refused.exit_code == Exit.BAD_INPUT
    assert "TURNFLEET_SEALING_KEY" in refused.output
    printed = near("creds", "rotate").output
    public = printed.split()[-1]
    far = Command(tmp_path / "far", {"redis_url": server.url, "sealing_key": public})
    assert far("creds", "add", "openai", "--owner", "9", stdin=KEY).exit_code == 0
    assert not (tmp_path / "far" / "opening.keys").exists()


@pytest.mark.parametrize(
    "words",
    [("revoke", "server:1:openai:none"), ("revoke", "nonsense"),
     ("add", "a:b", "--owner", "1"), ("add", "openai", "--owner", "1")],
    ids=["unknown", "no reference", "no provider", "no key"],
)  # fmt: skip
def test_what_cannot_be_done_says_why(command: Command, words: tuple[str, ...]):
    result = command("creds", *words, stdin="\n")
    assert result.exit_code != 0
    assert result.output.strip()

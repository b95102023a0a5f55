"""`turnfleet personas` over a real server and a real file."""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.cli.exits import Exit
from tests.support.cli import Command
from tests.support.servers import RedisServer, running_server

TEXT = """
[personas.ada]
name = "Ada"
system = "You are Ada."

[personas.plain]
name = "Plain"
as_bot = true
age_restricted = true
"""


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


@pytest.fixture
def command(server: RedisServer, tmp_path: Path) -> Command:
    path = tmp_path / "turnfleet.toml"
    path.write_text(TEXT, encoding="utf-8")
    cell = f"c{secrets.token_hex(4)}"
    given = {"redis_url": server.url, "cell": cell, "config": str(path)}
    return Command(tmp_path / "data", given)


def test_the_personas_of_the_file_are_listed(command: Command):
    rows = json.loads(command("personas", "list", "-o", "json").stdout)
    assert [(row["persona"], row["speaks_as"], row["age_restricted"]) for row in rows] == [
        ("ada", "webhook", False),
        ("plain", "bot", True),
    ]


def test_a_persona_is_given_to_a_guild_and_shown_with_it(command: Command):
    assert command("personas", "use", "ada", "--guild", "7").exit_code == 0
    shown = json.loads(command("personas", "show", "ada", "-o", "json").stdout)
    assert (shown["chosen_by"], shown["system"]) == ("guild:7", "You are Ada.")
    assert command("personas", "use", "none", "--guild", "7").exit_code == 0
    assert json.loads(command("personas", "show", "ada", "-o", "json").stdout)["chosen_by"] == "-"


def test_a_persona_that_is_none_is_named_with_what_is_near(command: Command):
    for words in (("show", "adda"), ("use", "adda", "--guild", "7")):
        result = command("personas", *words)
        assert (result.exit_code, "did you mean ada?" in result.stderr) == (Exit.MISSING, True)

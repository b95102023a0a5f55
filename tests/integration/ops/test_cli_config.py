"""`turnfleet config` over a real server and real files."""

import asyncio
import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

import pytest

from ops.cli.exits import Exit
from shared.configuration.choices import Choices, Scope
from shared.configuration.loading import load
from shared.edges.choices import ChoicesStore
from shared.edges.live_configuration import LiveConfiguration
from shared.edges.records import TurnRecords, this_process
from shared.edges.redis import connect
from shared.keys import Keys
from tests.support.cli import Command
from tests.support.configurations import GOOD
from tests.support.servers import RedisServer, running_server

TEXT = '[models.a]\nprovider = "rehearsal"\nmodel = "plain"\n\n[defaults]\nmodel = "a"\n'
KEY, OLD_KEY = "3f" * 32, "c7" * 32


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "turnfleet.toml"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture
def command(server: RedisServer, tmp_path: Path, file: Path) -> Command:
    cell = f"c{secrets.token_hex(4)}"
    given = {"redis_url": server.url, "cell": cell, "config": str(file)}
    return Command(tmp_path / "data", given)


@contextmanager
def gateway(command: Command) -> Iterator[None]:
    """A process that follows the file and says so, in a thread with a loop of its own."""
    environ = dict(command.environment)
    loaded = load(environ)
    stop = threading.Event()

    async def live() -> None:
        keys = Keys(loaded.settings.cell)
        async with aclosing(connect(environ["TURNFLEET_REDIS_URL"])) as redis:
            following = LiveConfiguration(environ, loaded, redis, keys, look_s=0.05)
            task = asyncio.create_task(following.run())
            records = TurnRecords(redis, keys)
            while not stop.is_set():
                own = this_process("gateway-1", "gateway", started_ms=1, now_ms=2)
                await records.report_process(
                    type(own)(
                        process_id=own.process_id,
                        role=own.role,
                        host=own.host,
                        pid=own.pid,
                        version=own.version,
                        started_ms=own.started_ms,
                        seen_ms=own.seen_ms,
                        config_digest=following.current.digest,
                        config_error=following.error,
                    )
                )
                await asyncio.sleep(0.05)
            task.cancel()
            await asyncio.wait([task])

    thread = threading.Thread(target=lambda: asyncio.run(live()))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def eventually(command: Command, *words: str, has: str) -> str:
    """The output of a command once it has a text in it."""
    output = ""
    for _ in range(200):
        output = str(command(*words).output)
        if has in output:
            return output
        threading.Event().wait(0.05)
    raise AssertionError(f"{words} never said {has!r}: {output}")


def test_a_right_file_is_right(command, file):
    file.write_text(GOOD, encoding="utf-8")
    result = command("config", "check")
    assert (result.exit_code, "is right" in result.output) == (Exit.OK, True)


def test_a_wrong_file_is_said_line_by_line(command, file):
    file.write_text('[models.a]\nprovider = "x"\n[routes.b]\nmodels = ["c"]\n', encoding="utf-8")
    result = command("config", "check", str(file))
    assert result.exit_code == Exit.FOUND
    (line,) = result.stdout.splitlines()
    assert line.endswith(":1:1: models.a: `model` is missing; add `model = ...`")


def test_a_key_in_the_file_is_refused_and_not_shown(command, file):
    """The text of the file is kept in Redis, beside what the key seals."""
    file.write_text(f'[deployment]\nat_rest_key = "{KEY}"\n', encoding="utf-8")
    result = command("config", "check")
    assert result.exit_code == Exit.FOUND
    assert "2:1: deployment.at_rest_key: a secret does not stand here" in result.output
    assert KEY not in result.output


def test_other_commands_do_not_start_with_a_wrong_file(command, file):
    file.write_text("[limits]\nuser_depth = -1\n", encoding="utf-8")
    result = command("turns", "list")
    assert result.exit_code == Exit.BAD_INPUT
    assert "2:14: limits.user_depth" in result.output


def test_show_hides_secrets_and_says_where_values_come_from(command):
    command.environment["TURNFLEET_DISCORD_TOKEN"] = "very.secret.token"
    mcp = {"docs": "https://me:hush@host/mcp?key=hush", "files": ["npx", "--token", "hush"]}
    command.environment["TURNFLEET_MCP"] = json.dumps(mcp)
    command.environment["TURNFLEET_AT_REST_KEY"] = f"{KEY},{OLD_KEY}"
    result = command("config", "show", "-o", "json")
    assert "very.secret" not in result.output
    assert "hush" not in result.output
    assert KEY not in result.output
    assert OLD_KEY not in result.output
    record = json.loads(result.stdout)
    assert record["models"] == "a"
    assert record["discord_token"] == "[set]  (environment)"
    assert record["at_rest_key"] == "[set]  (environment)"
    assert record["cell"].endswith("(environment)")


def test_choices_hold_for_a_guild_and_are_taken_back(command, server):
    assert (
        command("config", "set", "locale=de", "speak=always", "--guild", "7").exit_code == Exit.OK
    )
    command("config", "set", "access.deny_users=1,2", "tools=-", "--guild", "7")
    shown = json.loads(command("config", "show", "--guild", "7", "-o", "json").stdout)
    assert (shown["locale"], shown["speak"]) == ("de", "always")
    assert shown["access"] == [{"deny_users": [1, 2]}]
    assert shown["tools"] == []
    command("config", "unset", "speak", "access.deny_users", "tools", "--guild", "7")

    async def read() -> Choices:
        async with aclosing(connect(server.url)) as redis:
            keys = Keys(command.environment["TURNFLEET_CELL"])
            return await ChoicesStore(redis, keys).read(Scope.GUILD, 7)

    assert asyncio.run(read()) == Choices(locale="de")


WRONG_WORDS = {
    "no such choice": (["speek=always", "--guild", "7"], 'did you mean "speak"?'),
    "no such value": (["speak=never", "--guild", "7"], "speak=never"),
    "no value": (["speak", "--guild", "7"], "NAME=VALUE"),
    "nobody": (["speak=always"], "--guild"),
    "two": (["speak=always", "--guild", "7", "--user", "8"], "--guild"),
    "an id that is none": (["access.deny_users=ann", "--guild", "7"], "deny_users"),
}


@pytest.mark.parametrize(("words", "said"), WRONG_WORDS.values(), ids=WRONG_WORDS.keys())
def test_a_choice_that_is_none(command, words, said):
    result = command("config", "set", *words)
    assert result.exit_code == Exit.BAD_INPUT
    assert said in result.output


def test_a_name_that_the_file_does_not_have_is_noted(command):
    result = command("config", "set", "model=gone", "--channel", "9")
    assert result.exit_code == Exit.OK
    assert 'no model "gone"' in result.output


def test_a_running_process_follows_and_keeps_the_old_one_when_the_new_is_wrong(command, file):
    with gateway(command):
        eventually(command, "config", "show", has="this configuration")
        assert command("config", "diff").exit_code == Exit.OK

        file.write_text(TEXT.replace('"plain"', '"slow"'), encoding="utf-8")
        assert command("config", "reload").exit_code == Exit.OK
        eventually(command, "config", "show", has="this configuration")

        file.write_text(TEXT.replace('"a"', '"b"'), encoding="utf-8")
        said = eventually(command, "config", "show", has="an older configuration")
        assert "6:9: defaults.model" in said
        result = command("config", "diff")
        assert result.exit_code == Exit.FOUND
        assert '-model = "a"' in result.stdout
        assert '+model = "b"' in result.stdout
        assert command("config", "reload").exit_code == Exit.BAD_INPUT

        file.write_text(TEXT, encoding="utf-8")
        eventually(command, "config", "show", has="this configuration")

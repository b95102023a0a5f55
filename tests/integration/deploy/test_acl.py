"""The accounts of a fleet on real servers: what each role is refused."""

import contextlib
import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest
import redis
from redis.exceptions import NoPermissionError

from ops.acl import COMMANDS, DEFAULT, RULES, Role, patterns_of
from shared.edges.scripting import source_of
from shared.keys import Keys
from tests.support.acl import Guarded, guarded_server

KEYS = Keys()
PATTERNS = patterns_of(KEYS)
CREDENTIALS, AUDIT = KEYS.credentials, KEYS.credential_audit
OUT, ERRORS, TURN = KEYS.out(0), KEYS.errors, KEYS.turn("m1")


@pytest.fixture(scope="module", params=["redis", "valkey"])
def guarded(request: pytest.FixtureRequest, tmp_path_factory) -> Iterator[Guarded]:
    with guarded_server(request.param, tmp_path_factory.mktemp("acl")) as server:
        yield server


REFUSED = [
    (Role.WORKER, ("HSET", CREDENTIALS, "a", "b"), "write credentials"),
    (Role.WORKER, ("HDEL", CREDENTIALS, "a"), "remove credentials"),
    (Role.WORKER, ("LRANGE", AUDIT, "0", "-1"), "read the trail"),
    (Role.WORKER, ("XRANGE", OUT, "-", "+"), "read what goes to Discord"),
    (Role.WORKER, ("XDEL", OUT, "1-1"), "take a segment back"),
    (Role.WORKER, ("DEL", OUT), "drop a stream"),
    (Role.WORKER, ("XDEL", ERRORS, "1-1"), "remove evidence"),
    (Role.WORKER, ("XTRIM", ERRORS, "MAXLEN", "0"), "trim evidence"),
    (Role.WORKER, ("DEL", ERRORS), "drop evidence"),
    (Role.WORKER, ("XRANGE", ERRORS, "-", "+"), "read reports of others"),
    (Role.WORKER, ("GET", KEYS.recording("m1", 1)), "read recordings"),
    (Role.WORKER, ("SET", KEYS.leader(0), "me"), "lead a partition"),
    (Role.WORKER, ("HSET", KEYS.journal("m1"), "head", "x"), "write the journal"),
    (Role.WORKER, ("XADD", KEYS.local_prompts, "*", "body", "x"), "speak as a person"),
    (Role.GATEWAY, ("LRANGE", AUDIT, "0", "-1"), "read the trail"),
    (Role.GATEWAY, ("XDEL", ERRORS, "1-1"), "remove evidence"),
    (Role.GATEWAY, ("GET", KEYS.recording("m1", 1)), "read recordings"),
    (Role.RECORDER, ("HGETALL", TURN), "read turns"),
    (Role.RECORDER, ("HSET", CREDENTIALS, "a", "b"), "write credentials"),
    (Role.WORKER, ("HSET", KEYS.choices, "a", "b"), "change settings"),
    (Role.RECORDER, ("XADD", OUT, "*", "data", "x"), "say something"),
    (Role.CONSOLE, ("HSET", TURN, "state", "done"), "change a turn"),
    (Role.CONSOLE, ("XADD", ERRORS, "*", "v", "x"), "add a report"),
    (Role.CONSOLE, ("DEL", OUT), "drop a stream"),
    (Role.CONSOLE, ("GET", KEYS.recording("m1", 1)), "read recordings"),
    (Role.CONSOLE, ("EVAL", "return 1", "0"), "run a script"),
]


@pytest.mark.parametrize(
    ("role", "command"), [row[:2] for row in REFUSED], ids=[f"{r}: {w}" for r, _, w in REFUSED]
)
def test_a_role_cannot(guarded: Guarded, role: Role, command: tuple[str, ...]):
    with guarded.client(role) as client, pytest.raises(NoPermissionError):
        client.execute_command(*command)


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize(
    "command",
    [
        ("FLUSHALL",),
        ("KEYS", "*"),
        ("CONFIG", "GET", "*"),
        ("SHUTDOWN",),
        ("MIGRATE", "h", "1", "k", "0", "1"),
        ("ACL", "SETUSER", "x"),
        ("ACL", "LIST"),
        ("MONITOR",),
        ("CLIENT", "KILL", "ID", "1"),
        ("REPLICAOF", "NO", "ONE"),
        ("RENAME", TURN, "x"),
        ("FUNCTION", "FLUSH"),
        ("SCRIPT", "FLUSH"),
        ("SET", "elsewhere", "x"),
        ("SET", "tf:{other}:ring", "x"),
    ],
    ids=" ".join,
)
def test_no_role_may(guarded: Guarded, role: Role, command: tuple[str, ...]):
    with guarded.client(role) as client, pytest.raises(NoPermissionError):
        client.execute_command(*command)


def test_a_script_has_no_more_rights_than_its_user(guarded: Guarded):
    with guarded.client(Role.WORKER) as client:
        steal = "return redis.call('HSET', ARGV[1], 'a', 'b')"
        with pytest.raises(redis.ResponseError, match=r"can't access|NOPERM|permission"):
            client.eval(steal, 1, TURN, CREDENTIALS)
    with guarded.client("admin") as admin:
        assert not admin.exists(CREDENTIALS)


@pytest.mark.parametrize("role", [Role.GATEWAY, Role.WORKER, Role.RECORDER])
def test_what_may_only_be_added_to_is_neither_read_nor_emptied(guarded: Guarded, role: Role):
    """Also in a script, which may name the key."""
    with guarded.client(role) as client:
        assert client.eval("return redis.call('XADD', KEYS[1], '*', 'v', 'x')", 1, KEYS.alerts)
        for call in (
            "'DEL', KEYS[1]",
            "'XRANGE', KEYS[1], '-', '+'",
            "'XTRIM', KEYS[1], 'MAXLEN', 0",
        ):
            if role is Role.GATEWAY:
                break  # it posts alerts where operators talk
            with pytest.raises(redis.ResponseError):
                client.eval(f"return redis.call({call})", 1, KEYS.alerts)


def test_whoever_has_no_account_can_only_ask_whether_it_lives(guarded: Guarded):
    with redis.Redis(port=guarded.server.port) as client:
        assert client.ping()
        with pytest.raises(NoPermissionError):
            client.get(TURN)


def test_the_operator_takes_a_changed_file_and_sees_who_was_refused(guarded: Guarded):
    # Redis may cut its users' connections while it loads, the asking one included.
    with guarded.client(Role.OPERATOR) as client, contextlib.suppress(redis.ConnectionError):
        client.acl_load()
    with guarded.client(Role.OPERATOR) as client:
        assert isinstance(client.acl_log(), list)


def scripts() -> list[str]:
    every = (files("shared.edges") / "scripts").iterdir()
    return sorted(one.name.removesuffix(".lua") for one in every if one.name.endswith(".lua"))


@pytest.mark.parametrize("role", [Role.GATEWAY, Role.WORKER, Role.OPERATOR])
def test_every_command_of_every_script_is_allowed(guarded: Guarded, role: Role):
    """By name: which keys a role may touch with it is what the fleet's own run shows."""
    called = {
        name.lower()
        for script in scripts()
        for name in re.findall(r"redis\.call\('(\w+)'", source_of(script))
    }
    assert len(called) > 15
    with guarded.client("admin") as opened:
        admin: Any = opened  # redis-py leaves execute_command untyped
        for name in sorted(called):
            words = [name, TURN, *["1"] * 8]
            answers = [
                str(admin.execute_command("ACL", "DRYRUN", role, *words[:size]))
                for size in range(1, len(words) + 1)
                if _is_known_arity(admin, name, size)
            ]
            assert any("no permissions to run" not in one for one in answers), (name, answers)


def _is_known_arity(admin: Any, name: str, size: int) -> bool:
    arity: int = admin.execute_command("COMMAND", "INFO", name)[name]["arity"]
    return size == arity if arity > 0 else size >= -arity


def test_every_rule_names_a_key_that_exists():
    assert set(RULES) <= set(PATTERNS)
    assert set(COMMANDS) == set(DEFAULT) == set(Role)


def test_the_patterns_cover_every_name_that_keys_can_spell():
    """Made from `Keys` itself: a key that is added there has a rule without a line here."""
    assert PATTERNS["turn"] == "tf:{main}:t:*"
    assert PATTERNS["credentials"] == "tfsec:{main}:cred"
    assert "out_of" not in PATTERNS
    assert all(
        name.startswith(("tf:{main}:", "tfsec:{main}:", "arq:")) for name in PATTERNS.values()
    )

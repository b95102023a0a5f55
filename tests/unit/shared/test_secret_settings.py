"""The one list of settings that hold secrets: it is whole, and finds them in every form."""

import json
import re

import msgspec
import pytest

from ops.cli.config import shown_setting
from shared.config import Settings
from shared.configuration.reading import Wrong, read_configuration
from shared.logs import secrets_of
from shared.redaction import redact
from shared.secret_files import SECRET_SETTINGS
from shared.secret_settings import HARMLESS, HOLDERS, SECRETS, secrets_in

SUSPECT = re.compile(r"secret|key|token|passw|pwd|credential|auth|dsn|url|endpoint|address|mcp")
"""What a secret's setting is called, or that of an address, which may have one in it."""
NEW, OLD = "3f" * 32, "c7" * 32
FOUND = ["four", "a-token-of-20-letters"]
EXAMPLES: dict[str, object] = {
    "discord_token": "hush-discord",
    "console_token": "hush-console",
    "at_rest_key": "hush-at-rest-new, hush-at-rest-old",
    "sentry_dsn": "https://hush-sentry@sentry.example/1",
    "redis_url": "rediss://worker:hush-redis@host:6380/0",
    "database_url": "postgresql://u@host/d?password=hush-database&sslkey=/run/client.key",
    "endpoints": {"custom": "https://me:hush-endpoint@host/v1", "plain": "https://host/v1"},
    "mcp": {"docs": "https://host/mcp?api_key=hush-mcp", "files": ["npx", "--token", "hush-word"]},
}
"""A value of each setting that holds secrets, all of which begin alike."""


def as_toml(value: object) -> str:
    """Texts and lists are written as in JSON, a table inline."""
    if not isinstance(value, dict):
        return json.dumps(value)
    return f"{{ {', '.join(f'{name} = {as_toml(one)}' for name, one in value.items())} }}"


def test_every_setting_that_sounds_like_a_secret_is_in_the_list_or_known_as_harmless():
    suspects = {name for name in Settings.__struct_fields__ if SUSPECT.search(name)}
    assert suspects <= HOLDERS.keys() | HARMLESS.keys()


def test_the_lists_name_settings_only_and_each_once():
    assert HOLDERS.keys() | HARMLESS.keys() <= set(Settings.__struct_fields__)
    assert not HOLDERS.keys() & HARMLESS.keys()
    assert HOLDERS.keys() >= SECRETS
    assert EXAMPLES.keys() == HOLDERS.keys()


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("at_rest_key", f"{NEW},{OLD}", [NEW, OLD]),
        ("at_rest_key", f" {NEW} , ", [NEW]),
        ("console_token", "one,with a comma", ["one,with a comma"]),
        ("sentry_dsn", "https://abc123@host/7", ["https://abc123@host/7", "abc123"]),
        ("redis_url", "redis://:p%40ss@host/0", ["p%40ss", "p@ss"]),
        ("redis_url", "redis://account@host/0", []),
        ("redis_url", "redis://host/0?password=given&ssl_ca_certs=/ca.pem", ["given"]),
        ("redis_url", "redis://[half", ["redis://[half"]),
        ("endpoints", {"a": "https://just-a-token@host/v1"}, ["just-a-token"]),
        (
            "mcp",
            {"a": ("run", "--api-key=8letters", "API_TOKEN=8figures")},
            ["8letters", "8figures"],
        ),
        ("mcp", {"a": ("run", "--auth-token", "8letters", "--max-tokens", "500")}, ["8letters"]),
        ("mcp", {"a": ("run", "--password", "four", "--auth", "a-token-of-20-letters")}, FOUND),
        (
            "mcp",
            {"a": ("run", "--auth", "none", "--token=seven77", "--password", "prompt")},
            ["seven77"],
        ),
        ("mcp", {"a": ("run", "--auth", "OAuth2", "--client-auth", "Client_Credentials")}, []),
        (
            "endpoints",
            {"a": "https://h/v1?auth=true&key=false", "b": "https://h?auth=Anonymous"},
            [],
        ),
        ("endpoints", {"a": "https://h/v1?auth=truetrue&auth=seven77"}, ["truetrue"]),
        ("mcp", {"a": ("run", "--token", "--verbose", "https://u:inside@host")}, ["inside"]),
        ("discord_token", None, []),
        ("model", "plain", []),
    ],
)
def test_what_is_secret_in_a_value(name: str, value: object, found: list[str]):
    assert secrets_in(name, value) == found


def test_while_keys_are_exchanged_each_alone_is_redacted():
    known = secrets_of(Settings(at_rest_key=f"{NEW},{OLD}"))
    assert {one.reveal() for one in known} == {NEW, OLD}
    assert redact(f"{OLD} then {NEW}", known) == "[redacted:key] then [redacted:key]"


def test_no_secret_of_the_settings_is_in_a_redacted_text():
    settings = msgspec.convert(EXAMPLES, Settings)
    text = repr(EXAMPLES)
    assert "hush" in text
    assert "hush" not in redact(text, secrets_of(settings))


@pytest.mark.parametrize("name", HOLDERS)
def test_a_secret_is_not_shown(name: str):
    settings = msgspec.convert({name: EXAMPLES[name]}, Settings)
    assert "hush" not in str(shown_setting(name, getattr(settings, name)))


@pytest.mark.parametrize("name", sorted(HOLDERS.keys() - {"endpoints"}))
def test_a_secret_does_not_stand_in_the_file(name: str):
    found = read_configuration(f"[deployment]\n{name} = {as_toml(EXAMPLES[name])}\n")
    assert isinstance(found, Wrong)
    assert f"deployment.{name}: a secret does not stand here; take it out, and" in str(found)
    assert f"set TURNFLEET_{name.upper()} in the environment" in str(found)
    assert f"or as a file TURNFLEET_{name.upper()} in TURNFLEET_SECRETS_DIR" in str(found)
    assert ("the whole table as JSON" in str(found)) == (name == "mcp")
    assert "hush" not in str(found)


def test_a_word_that_is_no_secret_stays_in_every_text():
    settings = Settings(
        mcp={"docs": ("srv", "--auth", "none"), "http": "https://host/mcp?auth=bearer"},
        endpoints={"a": "https://host/v1?auth=true"},
    )
    text = "nonetheless, stream=true for the bearer"
    assert redact(text, secrets_of(settings)) == text


def test_it_may_stand_in_the_file():
    text = '[deployment.mcp]\ndocs = ["srv", "--auth", "none"]\nhttp = "https://h/mcp?auth=oauth"\n'
    assert not isinstance(read_configuration(text), Wrong)


def test_an_address_without_a_secret_may_stand_there():
    text = '[deployment]\nredis_url = "redis://host:6379/0"\nmcp = { docs = "https://host/mcp" }\n'
    assert not isinstance(read_configuration(text), Wrong)


def test_every_secret_may_come_from_a_file():
    assert {f"TURNFLEET_{name.upper()}" for name in HOLDERS} <= SECRET_SETTINGS

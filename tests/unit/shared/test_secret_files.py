"""Secrets from files: which variables, and what is said of a file that is not there."""

from pathlib import Path

import pytest

from shared.config import load_settings
from shared.errors import ConfigError
from shared.secret_files import with_files


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "secret"
    path.write_text("from a file\n", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    "name",
    ["OPENAI_API_KEY", "ANTHROPIC_API_KEYS", "TURNFLEET_REDIS_URL", "TURNFLEET_DISCORD_TOKEN"],
)
def test_a_secret_is_read_from_the_file_that_is_named(name: str, file: str):
    assert with_files({f"{name}_FILE": file, "PATH": "/bin"}) == {
        name: "from a file",
        "PATH": "/bin",
    }


def test_a_setting_that_names_a_file_stays_a_name(file: str):
    environ = {"TURNFLEET_OPENING_KEYS_FILE": file, "SSL_CERT_FILE": file}
    assert with_files(environ) == environ


def test_a_variable_that_is_set_as_well_wins(file: str):
    environ = {"OPENAI_API_KEY": "given", "OPENAI_API_KEY_FILE": file}
    assert with_files(environ) == {"OPENAI_API_KEY": "given"}


def test_settings_are_read_through_files(file: str):
    assert load_settings({"TURNFLEET_CONSOLE_TOKEN_FILE": file}).console_token == "from a file"


def test_a_directory_has_a_file_for_each_variable(tmp_path: Path):
    for name, text in {
        "OPENAI_API_KEY": "one",
        "TURNFLEET_REDIS_URL": "redis://r",
        "ANTHROPIC_API_KEY": "",
        "opening.keys": "ab",
        "PATH": "/evil",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "..data").mkdir()
    assert with_files({"TURNFLEET_SECRETS_DIR": str(tmp_path), "PATH": "/bin"}) == {
        "OPENAI_API_KEY": "one",
        "TURNFLEET_REDIS_URL": "redis://r",
        "PATH": "/bin",
    }
    assert load_settings({"TURNFLEET_SECRETS_DIR": str(tmp_path)}).redis_url == "redis://r"


def test_a_directory_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match="TURNFLEET_SECRETS_DIR"):
        with_files({"TURNFLEET_SECRETS_DIR": str(tmp_path / "none")})


def test_an_empty_file_counts_as_none(tmp_path: Path):
    (tmp_path / "secret").touch()
    assert with_files({"TURNFLEET_DISCORD_TOKEN_FILE": str(tmp_path / "secret")}) == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "No such file", id="missing"),
        pytest.param(b"\xff\xfe", "it is no text", id="no text"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, content: bytes | None, message: str):
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as caught:
        with_files({"TURNFLEET_DISCORD_TOKEN_FILE": str(path)})
    assert "TURNFLEET_DISCORD_TOKEN_FILE" in str(caught.value)


def test_an_empty_variable_hides_no_file_and_names_none(tmp_path: Path):
    (tmp_path / "OPENAI_API_KEY").write_text("of the directory")
    environ = {
        "TURNFLEET_SECRETS_DIR": str(tmp_path),
        "OPENAI_API_KEY": "",
        "OPENAI_API_KEY_FILE": "",
        "TURNFLEET_DISCORD_TOKEN": "",
        "TURNFLEET_DISCORD_TOKEN_FILE": "",
    }
    assert with_files(environ) == {"OPENAI_API_KEY": "of the directory"}
    assert with_files({"TURNFLEET_SECRETS_DIR": ""}) == {}

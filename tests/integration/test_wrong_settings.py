"""A setting that is wrong stops every process at its start, and no check calls it right."""

import json
import os
from pathlib import Path

import pytest

import gateway.__main__ as gateway_process
import worker.__main__ as worker_process
from ops.cli.exits import Exit
from shared.config import Settings, load_settings
from shared.configuration.loading import load
from shared.errors import SettingError
from shared.secret_settings import SECRETS
from tests.support.cli import Command

WRONG = {
    # the setting, a value that it cannot have, what to do
    "a mode that is none": ("delivery_mode", "foo", "paragraph, line, sentence, aggregated, edit"),
    "no partitions": ("partitions", "0", "use at least 1"),
    "too many partitions": ("partitions", "1001", "use at most 1000"),
    "a policy that is none": ("crash_policy", "foo", "use supersede or notice"),
    "a record that is none": ("record", "foo", "use failed or always"),
    "no slots": ("slots", "0", "use at least 1"),
    "slots below nothing": ("slots", "-1", "use at least 1"),
    "slots that are no number": ("slots", "many", "write a whole number"),
    "tables that are none": ("tables", "foo", "use image or text"),
    "a front that is none": ("front", "foo", "use local or discord"),
    "shards that are none": ("discord_shards", "foo", "use 1 to 1000, or auto"),
    "an address that is none": ("health_listen", "foo", "such as :9464"),
    "a key that is none": ("at_rest_key", "hush-hush", "openssl rand -hex 32"),
    "one key of two": ("at_rest_key", f"{'3f' * 32},hush", "openssl rand -hex 32"),
    "a public key that is none": ("sealing_key", "foo", "64 hex digits"),
    "a level that is none": ("log_level", "foo", "use DEBUG, INFO"),
    "no depth": ("guild_depth", "0", "use at least 1"),
    "no time": ("turn_deadline_s", "0", "use more than 0"),
    "endless time": ("turn_deadline_s", "inf", "use at most 86400"),
    "time that is no number": ("drain_s", "nan", "use at least 0"),
    "no requests": ("discord_requests_per_s", "0", "use at least 1"),
    "a weight that is none": ("guild_weights", '{"1": 0}', "use at least 0.01"),
}
IN_THE_FILE = {
    name: case
    for name, case in WRONG.items()
    # Secrets and depths do not stand there, and a weight is no text.
    if case[0] not in {*SECRETS, "guild_depth", "guild_weights"}
}
each_wrong = pytest.mark.parametrize(("name", "value", "deed"), WRONG.values(), ids=WRONG.keys())


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TURNFLEET_DATA_DIR", str(tmp_path / "data"))


@each_wrong
def test_a_wrong_setting_is_named_with_what_to_do(name: str, value: str, deed: str):
    with pytest.raises(SettingError) as caught:
        load_settings({f"TURNFLEET_{name.upper()}": value})
    assert caught.value.name == name
    assert_said(str(caught.value), name, deed)


@each_wrong
@pytest.mark.parametrize("words", [("config", "check"), ("recorder",), ("console",), ("up",)])
def test_no_command_calls_it_right(
    tmp_path: Path, words: tuple[str, ...], name: str, value: str, deed: str
):
    result = Command(tmp_path / "data", {name: value})(*words)
    assert result.exit_code == Exit.BAD_INPUT
    assert_said(result.output, name, deed)


@each_wrong
def test_the_doctor_finds_it(tmp_path: Path, name: str, value: str, deed: str):
    result = Command(tmp_path / "data", {name: value})("doctor", "-o", "json")
    assert result.exit_code == Exit.BAD_INPUT
    assert_said(result.stdout.replace("\\", ""), name, deed)


@each_wrong
@pytest.mark.parametrize("process", [gateway_process, worker_process], ids=["gateway", "worker"])
def test_no_process_starts(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    process: object,
    name: str,
    value: str,
    deed: str,
):
    monkeypatch.setenv(f"TURNFLEET_{name.upper()}", value)
    assert process.main() == Exit.BAD_INPUT  # type: ignore[attr-defined]  # of both modules
    assert_said(capsys.readouterr().err, name, deed)


@pytest.mark.parametrize(
    ("name", "value", "deed"), IN_THE_FILE.values(), ids=list(IN_THE_FILE.keys())
)
def test_the_file_is_refused_where_it_is_wrong(tmp_path: Path, name: str, value: str, deed: str):
    file = tmp_path / "turnfleet.toml"
    is_number = value.lstrip("-").isdecimal() or value in {"inf", "nan"}
    file.write_text(f"[deployment]\n{name} = {value if is_number else repr(value)}\n")
    result = Command(tmp_path / "data", {})("config", "check")
    assert result.exit_code == Exit.FOUND
    assert result.output.startswith(f"turnfleet.toml:2:{len(name) + 4}: deployment.{name}: ")
    assert deed in result.output


@pytest.mark.parametrize("has_file", [True, False])
def test_names_that_discord_shows_nobody_are_a_warning_of_the_checks(
    tmp_path: Path, has_file: bool
):
    names = {"discord_names": "ada"}
    if has_file:
        (tmp_path / "turnfleet.toml").write_text('[deployment]\ndiscord_names = "ada"\n')
    command = Command(tmp_path / "data", {} if has_file else names)
    result = command("config", "check")
    assert result.exit_code == Exit.OK
    assert "a gateway with the Discord front does not start" in " ".join(result.output.split())
    assert_said(result.output, "discord_names", "set that and allow the intent")
    rows = json.loads(command("doctor", "-o", "json").stdout)
    (row,) = [row for row in rows if row["check"] == "settings" and row["verdict"] == "warn"]
    assert "TURNFLEET_DISCORD_READS_ALL=true" in row["finding"]
    command.environment["TURNFLEET_DISCORD_READS_ALL"] = "true"
    assert "Note" not in command("config", "check").output


def test_they_stop_a_gateway_with_that_front_and_no_other_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("TURNFLEET_DISCORD_NAMES", "ada")
    assert load(os.environ).settings.discord_names == "ada"
    monkeypatch.setenv("TURNFLEET_FRONT", "discord")
    assert load(os.environ).settings.discord_names == "ada"
    assert gateway_process.main() == Exit.BAD_INPUT
    assert_said(capsys.readouterr().err, "discord_names", "TURNFLEET_DISCORD_READS_ALL=true")


def test_every_default_is_right():
    assert load_settings({}) == Settings()


def assert_said(text: str, name: str, deed: str) -> None:
    assert f"TURNFLEET_{name.upper()}" in text
    assert deed in " ".join(text.split())
    if name in SECRETS:
        assert "hush" not in text
        assert "3f3f" not in text

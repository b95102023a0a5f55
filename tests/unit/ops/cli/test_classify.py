"""`turnfleet classify`: a body in, a verdict out, and nothing of a key in it."""

import json

import pytest
from typer.testing import CliRunner

from ops.cli.exits import Exit
from ops.cli.main import app

runner = CliRunner()
EMPTY_ACCOUNT = '{"error":{"code":"insufficient_quota","message":"key sk-abcdefghijklmnopqrst9"}}'


def run(*options: str, body: str = "") -> dict[str, object]:
    result = runner.invoke(app, ["classify", "-o", "json", *options], input=body)
    assert result.exit_code == Exit.OK, result.output
    found: dict[str, object] = json.loads(result.stdout)
    return found


def test_a_body_is_classified_as_a_turn_would():
    found = run("--status", "429", "--provider", "openai", body=EMPTY_ACCOUNT)
    assert (found["category"], found["cause"]) == ("api_error", "insufficient_balance")
    assert (found["retryable"], found["makes_row"]) == (False, True)
    assert (found["action"], found["alone"]) == ("rotate_key", "give_up")
    assert found["headline"] == "The account at the provider has no balance left."
    assert found["code"] == "insufficient_quota"
    assert found["snippet"] == "key [redacted:provider-key]"


def test_headers_give_the_hint():
    found = run("--status", "429", "-H", "Retry-After: 7", "--header", "x-request-id: r")
    assert (found["cause"], found["retry_after_s"]) == ("rate_limited", 7.0)


def test_a_connection_has_no_body():
    assert run("--exception", "ReadTimeout")["cause"] == "network_timeout"


def test_a_personal_key_changes_tips_and_makes_no_row():
    found = run("--status", "401", "--credential", "personal")
    assert found["makes_row"] is False
    assert "Check your personal API key in the provider's console." in str(found["tips"])


def test_the_table_is_for_people():
    result = runner.invoke(app, ["classify", "--status", "503"])
    assert result.exit_code == Exit.OK
    assert "provider_overloaded" in result.stdout


@pytest.mark.parametrize("header", ["no colon", ": no name"])
def test_a_header_without_a_name_is_refused(header):
    result = runner.invoke(app, ["classify", "-H", header])
    assert result.exit_code == Exit.BAD_INPUT

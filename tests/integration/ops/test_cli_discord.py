"""`turnfleet discord`: each step towards an answering bot is checked against the fake Discord."""

import doctest
from collections.abc import AsyncIterator

import pytest
from typer.testing import CliRunner

from ops.cli import discord as discord_cli
from ops.cli.discord import app, bot_id_of, examine, invitation
from ops.cli.doctor import Verdict
from ops.rehearsal.discord.faults import Fault
from ops.rehearsal.discord.server import BOT_ID, SESSION_STARTS, FakeDiscord
from shared.config import Settings
from tests.support.discord import running_discord


@pytest.fixture
async def discord() -> AsyncIterator[FakeDiscord]:
    async with running_discord() as running:
        yield running


def settings(discord: FakeDiscord, **facts: object) -> Settings:
    given: dict[str, object] = {
        "front": "discord",
        "discord_token": discord.token,
        "discord_rest_url": discord.rest_url,
    }
    return Settings(**(given | facts))  # type: ignore[arg-type]  # settings by name


def channel_of(discord: FakeDiscord) -> int:
    return discord.world.add_channel(discord.world.add_guild().id).id


async def verdicts(
    discord: FakeDiscord, channel: int | None = None, **facts: object
) -> dict[str, str]:
    findings = await examine(settings(discord, **facts), channel)
    return {finding.check: finding.verdict.value for finding in findings}


async def test_a_bot_that_is_set_up_passes_every_check(discord):
    channel = channel_of(discord)
    assert set((await verdicts(discord, channel)).values()) == {"ok"}
    assert list(await verdicts(discord, channel)) == [
        "front",
        "token",
        "sessions",
        "servers",
        "see",
        "history",
        "speak",
    ]


@pytest.mark.parametrize(
    ("facts", "check", "verdict"),
    [
        ({"front": "local"}, "front", "warn"),
        ({"discord_token": None}, "token", "fail"),
        ({"discord_token": "no token"}, "token", "fail"),
        ({"discord_token": "MTIz.other.bot"}, "token", "fail"),
        ({"discord_rest_url": "http://127.0.0.1:1"}, "token", "fail"),
    ],
    ids=["front", "no token", "no token's form", "refused token", "nobody there"],
)
async def test_what_is_wrong_with_the_settings_is_found(discord, facts, check, verdict):
    assert (await verdicts(discord, **facts))[check] == verdict


async def test_a_bot_without_a_server_is_told_how_to_get_one(discord):
    findings = await examine(settings(discord))
    assert findings[-1].verdict is Verdict.WARN
    assert "invite-url" in findings[-1].advice


async def test_few_session_starts_are_a_warning(discord):
    discord.sockets.identifies = SESSION_STARTS - 20
    assert (await verdicts(discord))["sessions"] == "warn"


@pytest.mark.parametrize(
    ("denied", "check"), [("view", "see"), ("history", "history"), ("send", "speak")]
)
async def test_a_missing_right_is_found(discord, denied, check):
    channel = channel_of(discord)
    discord.world.channels[channel].denied.add(denied)
    findings = await examine(settings(discord), channel)
    assert (findings[-1].check, findings[-1].verdict) == (check, Verdict.FAIL)
    assert "step 4" in findings[-1].advice


async def test_an_outage_of_discord_is_said(discord):
    discord.faults.add(Fault(method="GET", path="/gateway/bot", status=503))
    findings = await examine(settings(discord))
    assert (findings[-1].check, findings[-1].finding) == ("sessions", "Discord answers 503")


@pytest.mark.parametrize(
    ("token", "bot_id"),
    [
        ("MTIzNDU2.x.y", 123456),
        ("", None),
        ("MTIzNDU2", None),
        ("MTIzNDU2.x", None),
        ("YWJj.x.y", None),
        ("é.x.y", None),
        ("////.x.y", None),
    ],
)
def test_a_token_names_its_bot(token, bot_id):
    assert bot_id_of(token) == bot_id


def test_the_invitation_asks_for_what_is_needed_and_no_more():
    rights = int(invitation(7).rpartition("=")[2])
    assert rights == (1 << 10) | (1 << 11) | (1 << 15) | (1 << 16) | (1 << 38)


def test_the_commands_print_and_end_with_a_code(monkeypatch):
    runner = CliRunner()
    token = FakeDiscord().token
    monkeypatch.setenv("TURNFLEET_DISCORD_TOKEN", token)
    monkeypatch.setenv("TURNFLEET_DISCORD_REST_URL", "http://127.0.0.1:1")
    printed = runner.invoke(app, ["invite-url"])
    assert (printed.exit_code, f"client_id={BOT_ID}" in printed.output) == (0, True)
    looked = runner.invoke(app, ["doctor", "-o", "json"])
    assert looked.exit_code == 2
    assert "does not answer" in looked.output
    assert token not in looked.output
    monkeypatch.delenv("TURNFLEET_DISCORD_TOKEN")
    assert runner.invoke(app, ["invite-url"]).exit_code != 0
    assert runner.invoke(app, ["invite-url", "--application", "7"]).exit_code == 0


def test_the_examples_run():
    assert doctest.testmod(discord_cli).failed == 0

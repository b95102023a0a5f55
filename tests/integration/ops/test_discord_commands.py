"""`turnfleet discord commands sync` against the fake Discord."""

import pytest

from ops.cli.discord_commands import register
from shared.commands import COMMANDS, registration
from shared.errors import ConfigError
from shared.i18n import load_texts
from tests.support.discord import running_discord

BODIES = registration(load_texts())


async def test_discord_is_told_of_every_command_in_every_language():
    async with running_discord() as discord:
        await register(discord.rest_url, discord.token, BODIES, None)
        known = discord.interactions.commands[None]
        assert [one["name"] for one in known] == [one.name for one in COMMANDS] + ["Ask about this"]
        assert all(set(one["name_localizations"]) == {"ja", "zh-CN"} for one in known)  # type: ignore[call-overload]  # JSON
        guild = discord.world.add_guild()
        await register(discord.rest_url, discord.token, BODIES[:1], guild.id)
        assert len(discord.interactions.commands[guild.id]) == 1


async def test_a_refused_token_says_what_to_do():
    async with running_discord() as discord:
        with pytest.raises(ConfigError, match=r"401.*discord doctor"):
            await register(discord.rest_url, "MTIz.no.token", BODIES, None)
    with pytest.raises(ConfigError, match="does not answer"):
        await register("http://127.0.0.1:1/api/v10", "x", BODIES, None)

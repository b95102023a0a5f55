"""The connection of a bot against the fake: starts that are few, and stops in the middle of one."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.edges.discord_connection import (
    IDENTIFY_FLOOR,
    DiscordConnection,
    DiscordOptions,
)
from ops.rehearsal.discord.server import SESSION_STARTS, FakeDiscord
from tests.support.discord import running_discord


@pytest.fixture
async def discord() -> AsyncIterator[FakeDiscord]:
    async with running_discord() as running:
        guild = running.world.add_guild()
        running.world.add_channel(guild.id)
        running.world.add_user("ann", user_id=5)
        yield running


async def test_the_last_session_starts_of_a_day_are_not_used_up(discord):
    discord.sockets.identifies = SESSION_STARTS - IDENTIFY_FLOOR + 1
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    options = DiscordOptions(token=discord.token, rest_url=discord.rest_url)
    connection = DiscordConnection(
        options,
        on_message=_ignore,
        on_guild=_ignore,
        on_interaction=_ignore,
        on_change=_ignore,
        sleep=sleep,
    )
    await connection.open()
    await connection.close()
    assert waited == [pytest.approx(86_400, abs=60)]


async def _ignore(event: object) -> None:
    del event


@pytest.mark.parametrize("steps", range(0, 12, 2))
async def test_a_stop_while_the_bot_connects_is_obeyed(discord, steps: int):
    """hikari swallows it at some of these moments; the gateway would then never end."""
    connection = DiscordConnection(
        DiscordOptions(token=discord.token, rest_url=discord.rest_url),
        on_message=_ignore,
        on_guild=_ignore,
        on_interaction=_ignore,
        on_change=_ignore,
    )
    opening = asyncio.create_task(connection.open())
    while not discord.sockets.identifies:
        await asyncio.sleep(0)
    for _ in range(steps):
        await asyncio.sleep(0)
    was_open = opening.done()
    opening.cancel()
    await asyncio.wait({opening}, timeout=5)
    assert opening.cancelled() or was_open
    await connection.close()

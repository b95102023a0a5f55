"""The connection of a bot against the fake: starts that are few, and stops in the middle of one."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import hikari
import pytest

from gateway.edges.discord_connection import DiscordConnection, DiscordOptions
from gateway.edges.discord_incoming import Incoming
from gateway.edges.discord_starts import ASK_AGAIN_S, IDENTIFY_FLOOR
from gateway.edges.shard_leases import Alone
from ops.rehearsal.discord.server import SESSION_STARTS, FakeDiscord
from tests.support.discord import MemoryMarks, running_discord


@pytest.fixture
async def discord() -> AsyncIterator[FakeDiscord]:
    async with running_discord() as running:
        guild = running.world.add_guild()
        running.world.add_channel(guild.id)
        running.world.add_user("ann", user_id=5)
        yield running


Sleep = Callable[[float], Coroutine[Any, Any, None]]


async def _nobody(event: object) -> None:
    del event


def connection_to(
    discord: FakeDiscord, sleep: Sleep = asyncio.sleep, *, reads_all: bool = False
) -> DiscordConnection:
    async def unread(moved: object) -> list[hikari.Message]:
        del moved
        return []

    listener = Incoming(MemoryMarks(), (), bot_id=lambda: discord.bot.id, fetch=unread)
    options = DiscordOptions(token=discord.token, rest_url=discord.rest_url, reads_all=reads_all)
    return DiscordConnection(options, Alone(), listener, on_interaction=_nobody, sleep=sleep)


async def test_the_last_session_starts_of_a_day_are_not_used_up(discord, caplog):
    discord.sockets.identifies = SESSION_STARTS - IDENTIFY_FLOOR + 1
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        assert discord.sockets.sessions == {}
        waited.append(seconds)
        if len(waited) == 3:
            discord.sockets.identifies = 0  # a day later

    connection = connection_to(discord, sleep)
    await connection.open()
    await connection.close()
    assert waited == [ASK_AGAIN_S] * 3, "it asks now and then, and begins nothing meanwhile"
    told = [one for one in caplog.records if one.message == "discord.few_identifies_left"]
    assert [one.levelname for one in told] == ["ERROR"] * 3
    assert (told[0].remaining, told[0].kept) == (IDENTIFY_FLOOR - 1, IDENTIFY_FLOOR)
    assert "resets the token" in told[0].advice


@pytest.mark.parametrize("steps", range(0, 12, 2))
async def test_a_stop_while_the_bot_connects_is_obeyed(discord, steps: int):
    """hikari swallows it at some of these moments; the gateway would then never end."""
    connection = connection_to(discord)
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


GUILDS, GUILD_MESSAGES, DIRECT_MESSAGES, MESSAGE_CONTENT = 1 << 0, 1 << 9, 1 << 12, 1 << 15


@pytest.mark.parametrize("reads_all", [False, True])
async def test_no_intent_is_asked_for_but_what_is_needed(discord, reads_all):
    discord.sockets.allows_privileged = True
    connection = connection_to(discord, reads_all=reads_all)
    await connection.open()
    (session,) = discord.sockets.sessions.values()
    await connection.close()
    needed = GUILDS | GUILD_MESSAGES | DIRECT_MESSAGES
    assert session.intents == needed | (MESSAGE_CONTENT if reads_all else 0)

"""What most commands begin with: settings, a connection to the fleet, the operators' database.

Comes in: the environment. Goes out: open connections, closed at the end of the block. Only
`ops.cli` imports it.
"""

import contextlib
import os
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Final

import msgspec
import typer
from redis.asyncio import Redis

from ops.cli.output import say
from ops.store.engine import Database, database_url
from shared import at_rest
from shared.config import Settings, data_dir
from shared.configuration.loading import load
from shared.edges.embedded import running_url
from shared.edges.local_channel import LocalChannel
from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords
from shared.edges.redis import connect, server_facts
from shared.errors import ConfigError
from shared.keys import Keys

_SPAN: Final = re.compile(r"(\d{1,6})\s*([smhdw])")
_LONGEST: Final = timedelta(weeks=5_218)
"""Calendars end before 999999w."""
_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """The fleet as commands see it."""

    settings: Settings
    keys: Keys
    redis: Redis
    records: TurnRecords
    queue: TurnQueue
    channel: LocalChannel


def settings_now() -> Settings:
    """The settings of this command, with the keys of what is sealed at rest in use.

    Raises:
        ConfigError: a setting is wrong.
    """
    settings = load(os.environ).settings
    at_rest.use(at_rest.keys_of(settings.at_rest_key))
    return settings


def redis_url(settings: Settings) -> str:
    """The fleet's server: the configured one, or the embedded one that `turnfleet up` runs.

    Raises:
        ConfigError: there is neither.
    """
    url = settings.redis_url or running_url(data_dir(settings))
    if url is not None:
        return url
    raise ConfigError(
        "no fleet is running here: start one with `turnfleet up`, or set TURNFLEET_REDIS_URL"
    )


@contextlib.asynccontextmanager
async def fleet(settings: Settings | None = None) -> AsyncIterator[Fleet]:
    """A connection to the running fleet.

    Args:
        settings: instead of those of this command, for who looks at a configuration that is wrong.

    Raises:
        ConfigError: wrong settings.
        StoreUnavailable: nobody answers.
    """
    settings = settings or settings_now()
    url = redis_url(settings)
    keys = Keys(settings.cell, settings.partitions)
    redis = connect(url)
    blocking = connect(url, blocking=True)
    records = TurnRecords(redis, keys)
    try:
        await server_facts(redis)
        yield Fleet(
            settings=settings,
            keys=keys,
            redis=redis,
            records=records,
            queue=TurnQueue(redis, keys, settings),
            channel=LocalChannel(blocking, keys),
        )
        if records.unread:
            say(f"Turns of another version, not shown: {records.unread}.")
    finally:
        await blocking.aclose()
        await redis.aclose()


@contextlib.asynccontextmanager
async def database(*, read_only: bool = True) -> AsyncIterator[Database]:
    """The operators' database. Raises `ConfigError` for a wrong URL."""
    settings = settings_now()
    opened = Database(database_url(settings.database_url, data_dir(settings)), read_only=read_only)
    try:
        yield opened
    finally:
        await opened.close()


def span(text: str) -> timedelta:
    """Reads a span of time such as `90s`, `15m`, `24h`, `7d`.

    Raises:
        typer.BadParameter: it is none.
    """
    match = _SPAN.fullmatch(text.strip().lower())
    if match is None:
        raise typer.BadParameter(f"{text!r} is no span of time; write 90s, 15m, 24h or 7d")
    found = timedelta(seconds=int(match[1]) * _UNITS[match[2]])
    if found > _LONGEST:
        raise typer.BadParameter(f"{text!r} is more than a hundred years")
    return found

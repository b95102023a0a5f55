"""Houses for the failure suite: opened when a scenario asks for another one than stands there.

Comes in: a `Setting`. Goes out: a `Scene` in a house of that setting. Scenarios of one setting
share a house: it lives through one fault after the other, as a deployment does. A scenario that
fails leaves a doubtful house, which is closed.
"""

import asyncio
import inspect
import os
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import wraps
from typing import Any

import msgspec
import pytest

from ops.store.engine import Database, database_url
from tests.support.aftermath import history_of
from tests.support.bare_fleet import FleetScene, bare_fleet
from tests.support.discord import running_discord
from tests.support.fleet_process import Options
from tests.support.fronts import DiscordTalk, LocalTalk, Talk
from tests.support.house import AS_USUAL, House, Ways, house
from tests.support.postgres import PostgresServer, running_postgres
from tests.support.promises import judged
from tests.support.scene import KEY, Scene
from tests.support.servers import RedisServer, running_server

SEED = int(os.environ.get("TURNFLEET_TEST_SEED", str(random.randrange(2**32))))
"""One seed for the whole run; each scenario takes it with its own name."""
MAX_SHOWN = 20
MOST_S = 1_800.0
"""No scenario takes longer: one that hangs must not keep the others from their verdict."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A deployment: its processes, its settings, its server's options."""

    workers: int = 3
    gateways: int = 2
    front: str = "local"
    ways: Ways = AS_USUAL
    settings: tuple[tuple[str, str], ...] = ()
    server: tuple[tuple[str, str], ...] = ()
    has_postgres: bool = False
    """The database is a server of its own, else a file."""


PLAIN = Setting()


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the table of results."""

    ids: str
    about: str
    flavor: str
    promises: str
    seconds: float
    seed: int
    recovery_s: float | None
    is_good: bool


class Stages:
    """Opens and closes houses; one stands at a time."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._stack: AsyncExitStack | None = None
        self._known: tuple[str, Setting] | None = None
        self._parts: tuple[House, RedisServer, Talk, Database, PostgresServer | None] | None = None

    async def scene(self, flavor: str, setting: Setting, seed: int) -> Scene:
        """A scene in a house of this setting."""
        if self._known != (flavor, setting) or self._parts is None:
            await self.close()
            await self._open(flavor, setting)
        assert self._parts is not None
        return Scene(*self._parts, seed)

    async def fleet(self, flavor: str, options: Options, seed: int) -> FleetScene:
        """Workers alone, without a house around them."""
        await self.close()
        self._stack = AsyncExitStack()
        return await self._stack.enter_async_context(bare_fleet(flavor, options, seed))

    async def close(self) -> None:
        """Ends the house that stands."""
        stack, self._stack, self._parts, self._known = self._stack, None, None, None
        if stack is not None:
            await stack.aclose()

    async def _open(self, flavor: str, setting: Setting) -> None:
        self._stack = AsyncExitStack()
        server = self._stack.enter_context(running_server(flavor, **dict(setting.server)))
        settings = {"GUILD_DEPTH": "5000", **dict(setting.settings)}
        discord = None
        if setting.front == "discord":
            discord = await self._stack.enter_async_context(running_discord())
            settings |= {
                "FRONT": "discord",
                "DISCORD_TOKEN": discord.token,
                "DISCORD_REST_URL": discord.rest_url,
                "MODEL": settings.get("MODEL", "echo@60"),
            }
        postgres = await self._postgres() if setting.has_postgres else None
        if postgres is not None:
            settings["DATABASE_URL"] = postgres.url
        ways = setting.ways
        environ = {"REHEARSAL_API_KEY": KEY, **ways.environ}
        running = await self._stack.enter_async_context(
            house(
                server.url,
                msgspec.structs.replace(ways, environ=environ),
                workers=setting.workers,
                gateways=setting.gateways,
                **settings,
            )
        )
        talk: Talk = DiscordTalk(discord) if discord else LocalTalk(running.redis, running.keys)
        database = Database(database_url(settings.get("DATABASE_URL"), running.home))
        self._stack.push_async_callback(database.close)
        self._known = (flavor, setting)
        self._parts = (running, server, talk, database, postgres)

    async def _postgres(self) -> PostgresServer:
        """A server, started beside the loop: it waits for itself."""
        assert self._stack is not None
        running = running_postgres()
        postgres = await asyncio.to_thread(running.__enter__)
        self._stack.push_async_callback(asyncio.to_thread, running.__exit__, None, None, None)
        return postgres


Play = Callable[..., Awaitable[None]]


def fault(*ids: str, on: Setting | Options = PLAIN, quick: bool = False) -> Callable[[Play], Play]:
    """Makes a scenario of a function: its first argument is the scene, its docstring the story.

    When the function returns, the scene waits until all is quiet, and every promise is judged.

    Args:
        ids: the labels of docs/faults.md that it plays.
        on: the deployment that it plays in, or the workers of a fleet alone.
        quick: short enough for every run of the tests.
    """

    def made(play: Play) -> Play:
        @wraps(play)
        async def run(stages: Stages, flavor: str, **more: Any) -> None:
            name = f"{play.__name__} {sorted(more.items())}"
            await _played(stages, flavor, ids, play, more, random.Random(f"{SEED} {name}"), on)

        own = list(inspect.signature(play).parameters.values())[1:]
        names = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in ("stages", "flavor")]
        more = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]
        run.__signature__ = inspect.Signature([*names, *more])  # type: ignore[attr-defined]  # what pytest reads
        marks = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.scenario]
        marks.append(pytest.mark.slow if quick else pytest.mark.faults)
        for mark in marks:
            mark(run)
        return run

    return made


async def _played(
    stages: Stages,
    flavor: str,
    ids: tuple[str, ...],
    play: Play,
    more: dict[str, Any],
    rng: random.Random,
    on: Setting | Options,
) -> None:
    seed = rng.randrange(2**32)
    scene = (
        await stages.scene(flavor, on, seed)
        if isinstance(on, Setting)
        else await stages.fleet(flavor, on, seed)
    )
    begun_s = time.monotonic()
    wrong: tuple[str, ...] = ("the scenario broke off",)
    kept: tuple[str, ...] = ()
    try:
        async with asyncio.timeout(MOST_S):
            await play(scene, **more)
            await scene.quiet()
        happened = await (history_of(scene) if isinstance(scene, Scene) else scene.history())
        verdict = judged(happened)
        wrong, kept = verdict.wrong, verdict.kept
    finally:
        told = [f"seed {SEED} on {flavor}", *scene.deeds, *wrong[:MAX_SHOWN]]
        if wrong:
            told += scene.last_words()
        print("\n".join(told))  # noqa: T201 - the history of a failure, beside the seed
        about = (play.__doc__ or play.__name__).strip().splitlines()[0]
        stages.rows.append(
            Row(
                ids=" ".join(ids),
                about=f"{about} {' '.join(str(value) for value in more.values())}".strip(),
                flavor=flavor,
                promises=" ".join(kept),
                seconds=time.monotonic() - begun_s,
                seed=SEED,
                recovery_s=max(scene.recoveries_s, default=None),
                is_good=not wrong,
            )
        )
        if wrong or isinstance(scene, FleetScene):
            await stages.close()
    assert wrong == ()

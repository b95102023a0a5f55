"""Every cause of the taxonomy, through the whole house, with the database away.

Each failed turn stands in the queue's index at once; when the database is back every failed attempt
is there exactly once; each is found by guild, cause and text, on the command line and the console;
replayed after the cause is gone it delivers once, and replayed twice still once.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import pytest_asyncio
from sqlalchemy import select

from ops.cli.exits import Exit
from ops.store.engine import Database, database_url
from ops.store.tables import error_logs, turn_failures
from shared.causes import Cause, needs_operator
from shared.i18n import load_texts
from shared.turns import CredentialSource
from tests.support.causes import (
    BROUGHT_BY,
    LIMIT_S,
    Stage,
    configuration,
    fail_all,
    guild_of,
    mend,
    until,
)
from tests.support.cli import Command
from tests.support.console import console
from tests.support.doorman import WHOLE, doorman
from tests.support.house import House, Ways, house
from tests.support.postgres import PostgresServer, running_postgres
from tests.support.processes import Turnfleet
from tests.support.servers import RedisServer, free_port, running_server

pytestmark = [pytest.mark.faults, pytest.mark.asyncio(loop_scope="module")]

KEYS = {
    f"{name.upper()}_API_KEY": f"key-of-{name}"
    for name in ("openai", "anthropic", "gemini", "deepseek")
}
SETTINGS = {
    "FIRST_BYTE_S": "2",
    "WHOLE_STREAM_S": "4",
    "BETWEEN_CHUNKS_S": "3",
    "GUILD_DEPTH": "60",
    "CRASH_POLICY": "notice",
}
REFUSED = {Cause.CONTENT_FILTER, Cause.MODERATION, Cause.PROMPT_BLOCKED}
"""What the same model would refuse again: another one is asked."""
TEXTS = load_texts()


class Town(msgspec.Struct, frozen=True):
    """A stage, its database, and a failed turn of each cause."""

    stage: Stage
    postgres: PostgresServer
    turns: dict[Cause, str]
    turnfleet: Turnfleet
    base: str

    @property
    def home(self) -> House:
        return self.stage.home

    async def cli(self, *words: str) -> tuple[int, list[dict[str, Any]]]:
        done = await asyncio.to_thread(self.turnfleet.run, *words, "-o", "json")
        assert done.stdout, (words, done.stderr)
        return done.exit_code, json.loads(done.stdout)


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[RedisServer, PostgresServer]]:
    with running_server("redis") as server, running_postgres() as postgres:
        yield server, postgres


@asynccontextmanager
async def failed(server: RedisServer, postgres: PostgresServer, file: Path) -> AsyncIterator[Town]:
    """A house that has run every cause while its database was down."""
    await asyncio.to_thread(postgres.stop)
    port = free_port()
    file.write_text(configuration(mended=False), encoding="utf-8")
    async with doorman() as man:
        places = {name: man.url(name) for name in ("openai", "anthropic", "google")}
        places["deepseek"] = f"http://127.0.0.1:{port}/deepseek"
        endpoints = json.dumps(places)
        settings = {**SETTINGS, "ENDPOINTS": endpoints, "DATABASE_URL": postgres.url}
        ways = Ways(environ=KEYS)
        async with house(
            server.url, ways, workers=1, gateways=1, CONFIG=str(file), **settings
        ) as home:
            reached = {"redis_url": server.url, "database_url": postgres.url, "config": str(file)}
            stage = Stage(home, man, Command(home.home, reached), file, port)
            await stage.run("creds", "rotate")  # the worker that starts anew reads the opening key
            turns = await fail_all(stage)
            await asyncio.to_thread(postgres.start)
            await until(lambda: _is_empty(home))
            database = {"TURNFLEET_DATABASE_URL": postgres.url}
            async with console(home, server.url, **database) as base:
                turnfleet = Turnfleet(home.home, **reached)
                yield Town(stage, postgres, turns, turnfleet, base)


async def _is_empty(home: House) -> bool:
    return not await home.redis.xlen(home.keys.errors)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def town(
    servers: tuple[RedisServer, PostgresServer], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Town]:
    file = tmp_path_factory.mktemp("file") / "turnfleet.toml"
    async with failed(*servers, file) as town:
        yield town


async def test_every_cause_of_the_taxonomy_is_played():
    assert set(BROUGHT_BY) == set(Cause)


async def test_each_turn_failed_by_its_cause(town: Town):
    ended = {cause: await town.home.records.turn(turn_id) for cause, turn_id in town.turns.items()}
    found = {cause: getattr(one and one.event, "cause", None) for cause, one in ended.items()}
    assert found == {cause: cause for cause in Cause}


async def test_every_failed_attempt_is_stored_exactly_once(town: Town):
    """What the workers' logs say is what the database has, though it was away all the time."""
    logged = [
        json.loads(line)
        for process in town.home.workers
        for line in process.log.read_text().splitlines()
        if '"failure.' in line
    ]
    due = {name: [one["id"] for one in logged if one["msg"] == name] for name in _LINES}
    assert len(due["failure.reported"]) > 10
    database = Database(database_url(town.postgres.url, Path()))
    async with database.begin() as connection:
        rows = list((await connection.execute(select(error_logs.c.id))).scalars())
        short = list((await connection.execute(select(turn_failures.c.id))).scalars())
    await database.close()
    assert sorted(rows) == sorted(due["failure.reported"])
    assert sorted(short) == sorted(due["failure.reported"] + due["failure.expected"])


_LINES = ("failure.reported", "failure.expected")


@pytest.mark.parametrize("cause", Cause)
async def test_a_failed_turn_is_found_by_guild_cause_and_text(town: Town, cause: Cause):
    turn_id, guild = town.turns[cause], str(guild_of(cause))
    text = TEXTS.text(f"failure.{cause}").upper()[:25]
    asked = {"guild": guild, "cause": cause.value, "text": text}
    async with httpx.AsyncClient(base_url=town.base, timeout=30) as client:
        for name, value in asked.items():
            answer = await client.get("/turns.json", params={name: value})
            assert turn_id in [one["turn_id"] for one in answer.json()["turns"]], name
            _, rows = await town.cli("turns", "list", "--failed", f"--{name}", value)
            assert turn_id in [row["turn_id"] for row in rows], name
        assert (await client.get(f"/turns/{turn_id}")).status_code == 200
        causes = (await client.get("/causes.json", params={"all": 1, "guild": guild})).json()
        (seen,) = causes["causes"]
        assert (seen["error_type"], seen["guilds"]) == (cause, 1)
        page = (await client.get(f"/causes/{seen['group_hash']}")).text
        assert f"guild {guild}" in page
        assert "turnfleet turns replay" in page
    if needs_operator(cause, CredentialSource.SERVER):
        _, rows = await town.cli("errors", "list", "--guild", guild, "--cause", cause)
        assert {row["turn_id"] for row in rows} == {turn_id}


async def test_replayed_after_its_cause_is_gone_each_delivers_once(town: Town):
    opened = await mend(town.stage)
    for more, causes in (
        (("--with", "model=other"), [one for one in Cause if one in REFUSED]),
        ((), [one for one in Cause if one not in REFUSED]),
    ):
        ids = [town.turns[cause] for cause in causes]
        words = ("turns", "replay", *ids, *more, "--allow-partial", "--yes", "--rate", "50/s")
        code, rows = await town.cli(*words, "--wait")
        results = {row["turn_id"]: (row["result"], row["why"]) for row in rows}
        assert results == dict.fromkeys(ids, ("done", ""))
        assert code == 0
        code, rows = await town.cli(*words)
        assert (code, {row["result"] for row in rows}) == (Exit.FAILED, {"already replayed"})
    for cause, turn_id in town.turns.items():
        assert await town.home.records.state(f"{turn_id}.3") is None
        async with asyncio.timeout(LIMIT_S):
            while True:
                shown = [one.text for one in await town.home.channel.messages(guild_of(cause))]
                if WHOLE in shown:
                    break
                await asyncio.sleep(0.1)
        assert shown.count(WHOLE) == 1, cause
    opened.close()

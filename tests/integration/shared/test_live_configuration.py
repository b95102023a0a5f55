"""A running process follows its file, over a real server and real files."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from shared.configuration.loading import Loaded, load
from shared.edges.live_configuration import LiveConfiguration
from shared.edges.redis import connect
from shared.keys import Keys
from tests.support.servers import RedisServer, running_server

KEYS = Keys()
ONE = '[providers.a]\nbase_url = "http://127.0.0.1:1/v1"\n[limits]\nguild_depth = 7\n'
TWO = ONE.replace("1:1", "1:2").replace("= 7", "= 9")


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


class Followed:
    def __init__(self, live: LiveConfiguration, path: Path) -> None:
        self.live = live
        self.path = path
        self.heard: list[Loaded] = []
        live.on_change(self.heard.append)

    async def until(self, count: int) -> None:
        async with asyncio.timeout(5):
            while len(self.heard) < count:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def following(server: RedisServer, tmp_path: Path, **environ: str) -> AsyncIterator[Followed]:
    path = tmp_path / "turnfleet.toml"
    path.write_text(ONE, encoding="utf-8")
    given = {"TURNFLEET_CONFIG": str(path), "TURNFLEET_DATA_DIR": str(tmp_path), **environ}
    async with aclosing(connect(server.url)) as redis:
        live = LiveConfiguration(given, load(given), redis, KEYS, look_s=0.02)
        task = asyncio.create_task(live.run())
        try:
            yield Followed(live, path)
        finally:
            task.cancel()
            await asyncio.wait([task])


async def test_a_changed_file_holds_without_a_restart(server, tmp_path):
    async with following(server, tmp_path) as one:
        one.path.write_text(TWO, encoding="utf-8")
        await one.until(1)
        settings = one.live.current.settings
        assert settings.endpoints == {"a": "http://127.0.0.1:2/v1"}
        assert settings.guild_depth == 9


async def test_a_file_that_takes_the_others_place_is_noticed(server, tmp_path):
    """As editors and mounted configuration maps do it."""
    async with following(server, tmp_path) as one:
        other = tmp_path / "other"
        other.write_text(TWO, encoding="utf-8")
        os.replace(other, one.path)
        await one.until(1)
        assert one.live.current.settings.guild_depth == 9


async def test_a_wrong_file_changes_nothing_and_is_said_once(server, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    async with following(server, tmp_path) as one:
        one.path.write_text(ONE + "[models.x]\nmodel = 1\n", encoding="utf-8")
        async with asyncio.timeout(5):
            while not one.live.error:
                await asyncio.sleep(0.01)
        one.live.ask()
        await asyncio.sleep(0.1)
        assert one.live.current.settings.guild_depth == 7
        rejected = [line for line in caplog.records if line.message == "config.rejected"]
        assert len(rejected) == 1
        assert "turnfleet.toml:5:1: models.x: `provider` is missing" in one.live.error

        one.path.write_text(TWO, encoding="utf-8")
        await one.until(1)
        assert one.live.error == ""


async def test_a_file_that_is_gone_changes_nothing(server, tmp_path):
    async with following(server, tmp_path) as one:
        one.path.unlink()
        async with asyncio.timeout(5):
            while not one.live.error:
                await asyncio.sleep(0.01)
        assert one.live.current.settings.endpoints == {"a": "http://127.0.0.1:1/v1"}


async def test_the_environment_wins_after_a_reload_too(server, tmp_path):
    async with following(server, tmp_path, TURNFLEET_GUILD_DEPTH="3") as one:
        one.path.write_text(TWO, encoding="utf-8")
        await one.until(1)
        assert one.live.current.settings.guild_depth == 3


async def test_the_fleets_wish_and_the_text_that_it_runs(server, tmp_path):
    async with following(server, tmp_path) as one, aclosing(connect(server.url)) as redis:
        key = KEYS.config_text(one.live.current.digest)
        async with asyncio.timeout(5):
            while (text := await redis.get(key)) is None:
                await asyncio.sleep(0.01)
        assert text.decode() == ONE
        assert await redis.pttl(key) > 0
        stamp = one.path.stat()
        one.path.write_text(TWO, encoding="utf-8")
        # A file system that tells no change: only the wish does.
        one.live._stamp = (one.path.stat().st_mtime_ns, one.path.stat().st_size, stamp.st_ino)
        await redis.set(KEYS.config_wish, "now")
        await one.until(1)


async def test_what_needs_a_restart_is_said(server, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    async with following(server, tmp_path) as one:
        one.path.write_text("[deployment]\nslots = 5\n" + ONE, encoding="utf-8")
        await one.until(1)
    (line,) = [line for line in caplog.records if line.message == "config.reloaded"]
    assert line.__dict__["fields"]["needs_restart"] == ["slots"]

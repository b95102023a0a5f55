"""kill -9 of the recorder while it writes: every report becomes one row."""

import asyncio
import json
from pathlib import Path

import pytest

from shared.edges.redis import connect
from shared.edges.reporter import stream_sender
from shared.keys import Keys
from shared.wire import encode_json
from tests.support.processes import Turnfleet, wait_until
from tests.support.reports import a_report
from tests.support.servers import running_server

REPORTS, KILLS = 2_000, 3

pytestmark = pytest.mark.slow


def count(turnfleet: Turnfleet) -> int:
    done = turnfleet.run("db", "status", "-o", "json")
    return int(json.loads(done.stdout)["errors"] or 0) if done.stdout else 0


def test_every_report_becomes_one_row(tmp_path: Path):
    with running_server("redis") as server:
        turnfleet = Turnfleet(tmp_path, redis_url=server.url)

        async def fill(number: int) -> None:
            redis = connect(server.url)
            send = stream_sender(redis, Keys())
            for _ in range(number):
                await send(encode_json(a_report()))
            await redis.aclose()

        async def waiting() -> int:
            redis = connect(server.url)
            length = int(await redis.xlen(Keys().errors))
            await redis.aclose()
            return length

        for _ in range(KILLS):
            asyncio.run(fill(REPORTS // KILLS))
            with turnfleet.running("recorder", ready="recorder.started") as recorder:
                recorder.kill()
        asyncio.run(fill(REPORTS - REPORTS // KILLS * KILLS))
        with turnfleet.running("recorder", ready="recorder.started") as recorder:
            wait_until(lambda: asyncio.run(waiting()) == 0)
            assert recorder.stop() == 0
        assert count(turnfleet) == REPORTS

"""`python -m ops.rehearsal.discord`: a person speaks by HTTP, a gateway answers over a socket."""

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import pytest

from ops.rehearsal.discord import __main__ as rehearsal
from shared.config import Settings
from shared.edges.queue import TurnQueue
from shared.edges.redis import connect
from shared.keys import Keys
from tests.support.gateway import GatewayProcess, ScriptedWorker
from tests.support.servers import running_server

LIMIT_S = 30.0


@pytest.fixture
def facts(tmp_path: Path) -> Iterator[dict[str, str]]:
    command = [sys.executable, "-m", "ops.rehearsal.discord", "--ready-file", str(tmp_path / "r")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found: dict[str, str] = json.loads(process.stdout.readline())
            assert json.loads((tmp_path / "r").read_text()) == found
            yield found
        finally:
            process.terminate()
        assert process.wait(10) == 0


async def test_a_rehearsal_answers_like_discord(facts, tmp_path):
    with running_server("redis") as server:
        gateway = GatewayProcess(
            tmp_path,
            REDIS_URL=server.url,
            FRONT="discord",
            DISCORD_TOKEN=facts["token"],
            DISCORD_REST_URL=facts["rest_url"],
        )
        gateway.start()
        try:
            async with (
                aclosing(connect(server.url)) as client,
                httpx.AsyncClient() as person,
                asyncio.timeout(LIMIT_S),
            ):
                queue = TurnQueue(client, Keys(), Settings())
                worker = ScriptedWorker(queue, random.Random(3))
                said = await person.post(facts["say_url"], content="what is a queue?")
                assert said.status_code == 200
                await worker.run(1)
                (expected,) = worker.replies.values()
                shown: list[Any] = []
                while len(shown) <= len(expected):
                    shown = (await person.get(facts["messages_url"])).json()
                    await asyncio.sleep(0.05)
                too_long = await person.post(facts["say_url"], content="x" * 2001)
                assert too_long.status_code == 400
        finally:
            gateway.kill()
    assert shown[0]["from"] == "you"
    assert [message["text"] for message in shown[1:]] == expected


def test_a_taken_port_is_said_so(facts, capsys):
    port = facts["say_url"].split(":")[2].split("/")[0]
    assert rehearsal.main(["--port", port]) == 2
    assert "cannot start" in capsys.readouterr().err

"""What the manifests say runs: each container's own command, environment, files and probes."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import asyncpg
import pytest
import redis

from shared.config import Settings, load_settings
from shared.edges.local_channel import LocalChannel, local_turn_id
from shared.edges.records import TurnRecords
from shared.edges.redis import connect
from shared.keys import Keys
from shared.turns import TurnState
from tests.support.house import Process
from tests.support.pods import ROOT, Doc, Pod, docs, pods, wait_for
from tests.support.postgres import running_postgres
from tests.support.servers import BINARIES, RedisServer, free_port

pytestmark = pytest.mark.slow

FOLDERS = ("base", "components/redis", "components/postgres")
LIMIT_S = 60.0
ENDS = (TurnState.DONE, TurnState.FAILED, TurnState.CANCELLED, TurnState.DEAD)
PROMPT = "prompt-canary-in-the-manifests"


class Cluster:
    """The pods of the small overlay, and the ways to look at them."""

    def __init__(self, home: Path, redis_port: int, provider: str) -> None:
        self.home = home
        self.secrets = home / "secrets"
        found = docs(*FOLDERS)
        config = next(doc["data"] for doc in found if doc["kind"] == "ConfigMap")
        # What an overlay changes: who answers, and where.
        self.config = config | {
            "TURNFLEET_FRONT": "local",
            "TURNFLEET_PROVIDER": "rehearsal",
            "TURNFLEET_MODEL": "plain",
            "TURNFLEET_ENDPOINTS": json.dumps({"rehearsal": provider}),
        }
        every = pods(found)
        self.pods = {
            name: Pod(every[name], self.config, self.secrets, home)
            for name in ("gateway", "worker", "recorder", "console")
        }
        self.redis_port = redis_port

    def settings_of(self, role: str) -> Settings:
        return load_settings({"TURNFLEET_SECRETS_DIR": str(self.secrets / role)})

    async def turn(self) -> TurnState:
        """Says something in a local channel and waits for the end of the turn."""
        url = self.settings_of("operator").redis_url
        assert url is not None
        client = connect(url)
        try:
            said = await LocalChannel(client, Keys()).say(1, PROMPT, guild_id=1)
            records = TurnRecords(client, Keys())
            async with asyncio.timeout(LIMIT_S):
                while (state := await records.state(local_turn_id(said))) not in ENDS:
                    await asyncio.sleep(0.1)
            async with asyncio.timeout(LIMIT_S):
                while not [
                    one for one in await LocalChannel(client, Keys()).messages(1) if one.is_bot
                ]:
                    await asyncio.sleep(0.1)
        finally:
            await client.aclose()
        assert state is not None
        return state

    async def ledger(self) -> int:
        """The turns that the recorder has written down."""
        url = self.settings_of("recorder").database_url
        assert url is not None
        connection = await asyncpg.connect(url.replace("+asyncpg", ""))
        try:
            count: int = await connection.fetchval("SELECT count(*) FROM usage_ledger")
        finally:
            await connection.close()
        return count

    def refused(self) -> list[object]:
        """What Redis refused."""
        url = self.settings_of("operator").redis_url
        assert url is not None
        with redis.Redis.from_url(url) as client:
            log: list[object] = client.acl_log()
            return log


def redis_of_the_manifest(doc: Doc, secrets: Path, home: Path, port: int) -> RedisServer:
    """The server with the arguments that its container gets."""
    container = doc["spec"]["template"]["spec"]["containers"][0]
    args = [
        word.replace("/run/secrets/redis", str(secrets / "redis")) for word in container["args"][1:]
    ]
    options = {
        name.removeprefix("--"): text for name, text in zip(args[::2], args[1::2], strict=True)
    }
    assert BINARIES["redis"] is not None
    server = RedisServer(BINARIES["redis"], home, **options)
    server.port = port
    return server


def make_secrets(directory: Path, redis_port: int, postgres_port: int) -> None:
    words = ["secrets", str(directory), "--url", f"redis://127.0.0.1:{redis_port}/0"]
    subprocess.run(
        [sys.executable, "-m", "ops", *words, "--database", f"127.0.0.1:{postgres_port}"],
        cwd=ROOT,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "TURNFLEET_DATA_DIR": str(directory),
        },
        check=True,
        capture_output=True,
    )


async def make_database(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE DATABASE turnfleet")
    await connection.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    if BINARIES["redis"] is None:
        pytest.skip("no redis-server on this machine")
    with ExitStack() as stack:
        postgres = stack.enter_context(running_postgres())
        asyncio.run(make_database(postgres.url))
        port = free_port()
        make_secrets(tmp_path / "secrets", port, postgres.port)
        (tmp_path / "redis").mkdir()
        server = redis_of_the_manifest(
            pods(docs(*FOLDERS))["redis"], tmp_path / "secrets", tmp_path / "redis", port
        )
        stack.callback(server.kill)
        server.start()
        ready = tmp_path / "rehearsal.url"
        words = ["ops.rehearsal", "--ready-file", str(ready)]
        rehearsal = Process("rehearsal", words, {**os.environ}, tmp_path)
        stack.callback(rehearsal.kill)
        rehearsal.start()
        wait_for(lambda: ready.exists() and bool(ready.read_text()), LIMIT_S)
        cluster = Cluster(tmp_path, port, ready.read_text().strip())
        for pod in cluster.pods.values():
            stack.callback(pod.kill)
        yield cluster


async def test_every_container_starts_is_probed_answers_and_ends(cluster: Cluster):
    for pod in cluster.pods.values():
        await asyncio.to_thread(pod.run_init)
        pod.start()
    for pod in cluster.pods.values():
        await asyncio.to_thread(pod.started)
        assert pod.probe("livenessProbe"), pod.log.read_text()
    assert await cluster.turn() is TurnState.DONE
    gateway, worker = cluster.pods["gateway"], cluster.pods["worker"]
    status, text = await asyncio.to_thread(gateway.answer, "/scale")
    assert (status, json.loads(text)) == (200, {"backlog": 0, "queued": 0, "running": 0})
    for pod, line in (
        (worker, r'turnfleet_turns_total\{model="plain",outcome="done".* 1'),
        (gateway, r'turnfleet_admissions_total\{answer="accepted"\} 1'),
        (gateway, r"turnfleet_delivery_lag_seconds_count [1-9]"),
        (cluster.pods["recorder"], r"turnfleet_errors_persist_lag_seconds 0.0"),
    ):
        await asyncio.to_thread(measured, pod, line)
    assert await cluster.ledger() == 1
    token = cluster.settings_of("console").console_token
    status, page = await asyncio.to_thread(
        cluster.pods["console"].answer, "/turns", Authorization=f"Bearer {token}"
    )
    assert status == 200, page
    assert cluster.refused() == []
    for pod in cluster.pods.values():
        assert await asyncio.to_thread(pod.stop) == 0, pod.log.read_text()[-2000:]
        shown = pod.log.read_text(encoding="utf-8")
        assert "Traceback" not in shown
        assert PROMPT not in shown


def measured(pod: Pod, line: str) -> None:
    """Waits until a pod's metrics have the line; nothing private is in them."""
    try:
        wait_for(lambda: re.search(line, pod.answer("/metrics")[1]) is not None, LIMIT_S)
    except AssertionError:
        shown = pod.answer("/metrics")[1] + pod.log.read_text()[-2000:]
        pytest.fail(f"{pod.name} does not show {line}:\n{shown}")
    text = pod.answer("/metrics")[1]
    assert PROMPT not in text
    assert "password" not in text

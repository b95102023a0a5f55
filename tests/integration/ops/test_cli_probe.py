"""`turnfleet worker --probe` beside a real worker process."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import Running, Turnfleet
from tests.support.servers import RedisServer, free_port, running_server


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_server("redis") as server:
        yield server


def pid_of(worker: Running) -> int:
    return worker.process.pid


@pytest.mark.parametrize("role", ["worker", "gateway"])
def test_a_probe_asks_the_process_of_this_machine(role: str, server: RedisServer, tmp_path: Path):
    listen = f"127.0.0.1:{free_port()}"
    command = Turnfleet(tmp_path, redis_url=server.url, health_listen=listen, cell=role)
    with command.running(role, ready="health.listening") as running:
        assert command.run(role, "--probe").exit_code == 0
        os.kill(pid_of(running), signal.SIGSTOP)
        try:
            stalled = command.run(role, "--probe")
        finally:
            os.kill(pid_of(running), signal.SIGCONT)
        assert stalled.exit_code == 1
        assert "nobody answers" in stalled.stderr
    assert command.run(role, "--probe").exit_code == 1


def test_without_an_address_the_probe_reads_the_heartbeat(server: RedisServer, tmp_path: Path):
    command = Turnfleet(tmp_path, redis_url=server.url, cell="beats")
    absent = command.run("worker", "--probe")
    assert absent.exit_code == 1
    assert "has beaten lately" in absent.stderr

"""The launcher of the embedded server, with both server programs."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
import redis

from shared.edges.embedded import EmbeddedServer, find_binary, run_directory, running_url
from shared.edges.redis import check_server, connect
from shared.errors import ConfigError, StoreUnavailable
from tests.support.servers import BINARIES

ODD_NAMES = ["plain", "with spaces", "quotes \"and' \\ slashes", "zwölf 中文 # $HOME", "x" * 120]


@pytest.fixture(params=list(BINARIES))
def binary(request: pytest.FixtureRequest) -> Path:
    found = BINARIES[request.param]
    if found is None:
        pytest.skip(f"no {request.param} server on this machine")
    return Path(found)


@pytest.fixture
def embedded(tmp_path: Path, binary: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path, binary=binary) as server:
        yield server


def client_of(server: EmbeddedServer) -> "redis.Redis":
    return redis.Redis.from_url(server.url, socket_timeout=5)


def kill(server: EmbeddedServer) -> None:
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    while server.is_alive():
        time.sleep(0.01)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_any_directory_name_works(tmp_path: Path, binary: Path, name: str):
    with EmbeddedServer(tmp_path / name, binary=binary) as server, client_of(server) as client:
        client.set("key", "value")
        assert (tmp_path / name / "redis" / "appendonlydir").is_dir()
        assert server.pid is not None


async def test_any_run_time_directory_works(
    tmp_path: Path, binary: Path, monkeypatch: pytest.MonkeyPatch
):
    short = Path(tempfile.mkdtemp(prefix="tf ?#%ü ", dir="/tmp"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short))
    try:
        with EmbeddedServer(tmp_path, binary=binary) as server:
            assert str(short) in str(server._socket)
            assert running_url(tmp_path) == server.url
            client = connect(server.url)
            facts = await check_server(client, server.url)
            assert facts.flavor in str(binary)
            await client.aclose()
    finally:
        short.rmdir()
    assert running_url(tmp_path) is None


def test_the_server_keeps_what_it_accepts(embedded: EmbeddedServer):
    with client_of(embedded) as client:
        wanted = {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}
        for name, value in wanted.items():
            assert client.config_get(name) == {name: value}


def test_only_its_user_reaches_the_server(embedded: EmbeddedServer):
    path = Path(embedded.url.removeprefix("unix://").partition("?")[0])
    assert path.stat().st_mode & 0o777 == 0o700
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert len(os.fsencode(path)) <= 100
    with client_of(embedded) as client:
        assert client.config_get("port") == {"port": "0"}


def test_a_killed_server_loses_nothing_that_it_acknowledged(embedded: EmbeddedServer):
    acknowledged = 0

    def write() -> None:
        nonlocal acknowledged
        with client_of(embedded) as client:
            for number in range(100_000):
                try:
                    client.rpush("list", number)
                except redis.RedisError:
                    return
                acknowledged = number + 1

    for _ in range(2):
        writer = threading.Thread(target=write)
        writer.start()
        time.sleep(0.2)
        kill(embedded)
        writer.join()
        assert acknowledged > 10
        embedded.start()
        with client_of(embedded) as client:
            assert int(client.llen("list")) >= acknowledged
            client.delete("list")


def test_a_stopped_server_leaves_only_its_data(tmp_path: Path, binary: Path):
    with EmbeddedServer(tmp_path, binary=binary) as server:
        path = Path(server.url.removeprefix("unix://").partition("?")[0])
    assert not path.parent.exists()
    assert not (tmp_path / "redis" / "address").exists()
    assert (tmp_path / "redis" / "appendonlydir").exists()


def test_a_second_launcher_uses_the_running_server(embedded: EmbeddedServer, tmp_path: Path):
    second = EmbeddedServer(tmp_path)
    second.start()
    assert second.pid is None
    assert second.url == embedded.url
    second.stop()
    assert embedded.is_alive()


def test_launchers_at_the_same_time_get_one_server(tmp_path: Path, binary: Path):
    servers = [EmbeddedServer(tmp_path, binary=binary) for _ in range(4)]
    threads = [threading.Thread(target=server.start) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(server.pid is not None for server in servers) == 1
    assert len({server.url for server in servers}) == 1
    assert all(server.is_alive() for server in servers)
    for server in servers:
        server.stop()


PARENT = """
import sys, time
from pathlib import Path
from shared.edges.embedded import EmbeddedServer
server = EmbeddedServer(Path(sys.argv[1]), binary=Path(sys.argv[2]))
server.start()
print(server.pid, flush=True)
time.sleep(60)
"""


def test_the_server_ends_with_the_process_that_started_it(tmp_path: Path, binary: Path):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path), str(binary)], stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and "Z" not in _state(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    with EmbeddedServer(tmp_path, binary=binary) as server:
        assert server.pid is not None


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
    except OSError:
        return "Z"


def test_a_server_that_cannot_start_says_why(tmp_path: Path, binary: Path):
    broken = tmp_path / "redis" / "appendonlydir"
    broken.mkdir(parents=True)
    (broken / "appendonly.aof.manifest").write_text("nonsense\n", encoding="utf-8")
    server = EmbeddedServer(tmp_path, binary=binary)
    with pytest.raises(StoreUnavailable, match=r"does not start: .*manifest"):
        server.start()
    assert server.pid is None


def test_a_file_that_cannot_be_written_is_named_and_the_server_starts_when_it_can(
    embedded: EmbeddedServer,
):
    kill(embedded)
    part = embedded.directory / "server.part"
    part.mkdir()  # as on a full disk, the configuration cannot be written
    with pytest.raises(StoreUnavailable, match=re.escape(str(part))):
        embedded.start()
    part.rmdir()
    embedded.start()
    assert embedded.is_alive()


def test_a_server_whose_directory_was_removed_is_ended_and_another_one_starts(
    embedded: EmbeddedServer,
):
    assert embedded.pid is not None
    first = embedded.pid
    shutil.rmtree(embedded.directory)
    Path(unquote(embedded.url.removeprefix("unix://").partition("?")[0])).unlink()
    assert not embedded.is_alive()
    embedded.start()
    assert embedded.is_alive()
    assert embedded.pid != first
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="TURNFLEET_DATA_DIR"):
        EmbeddedServer(tmp_path / "file").start()


def test_a_machine_without_a_server_says_what_to_do(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError, match="install redis-server"):
        find_binary(lambda: None)


def test_without_a_program_on_the_path_the_wheel_serves(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert find_binary().name == "valkey-server"


def test_an_old_or_broken_program_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, answer in (("redis-server", "Redis server v=6.2.1 x"), ("valkey-server", "hm")):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\necho '{answer}'\n", encoding="utf-8")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert tmp_path not in find_binary().parents


def test_a_directory_of_somebody_else_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    taken = run_directory(tmp_path)
    taken.chmod(0o755)
    assert run_directory(tmp_path) != taken

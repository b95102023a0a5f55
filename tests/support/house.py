"""The whole house as real processes on one server: gateway, workers, recorder, rehearsal provider.

Comes in: a running server. Goes out: processes that can be killed by their own pids and come back,
and the local channel to talk through. Whatever this starts it ends.
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import msgspec

from shared.config import Settings
from shared.edges.local_channel import LocalChannel
from shared.edges.queue import TurnQueue
from shared.edges.records import TurnRecords
from shared.edges.redis import connect
from shared.keys import Keys
from tests.support.proxy import Proxy

ROOT = Path(__file__).parents[2]
READY_S = 60.0
STOP_S = 20.0


class Process:
    """One `python -m` process, its output in a file of its own."""

    def __init__(self, name: str, words: list[str], environ: Mapping[str, str], home: Path) -> None:
        self.name = name
        self.log = home / f"{name}.log"
        self._command = [sys.executable, "-m", *words]
        self._environ = dict(environ)
        self._process: subprocess.Popen[bytes] | None = None
        self.unexpected: list[int] = []

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, env=self._environ, cwd=ROOT, stdout=log, stderr=log
            )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def look(self) -> None:
        """Notes an exit that nobody asked for."""
        if self._process is not None and self._process.poll() is not None:
            self.unexpected.append(self._process.returncode)
            self._process = None
            self.start()

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL, as a crash; nothing if it is not running."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> int | None:
        """SIGTERM; the exit code."""
        if self._process is None:
            return None
        self._process.send_signal(signal.SIGTERM)
        return self.wait(STOP_S)

    def wait(self, limit_s: float) -> int | None:
        """Waits for an end that was asked for; the exit code, None where it had to be forced."""
        assert self._process is not None
        try:
            code = self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return None
        self._process = None
        return code


class Ways(msgspec.Struct, frozen=True, kw_only=True):
    """How the processes of a house are reached and started, where that is not as usual.

    `proxied` names whose way leads through a `Proxy`: `worker` and `gateway` to the server,
    `provider` from the workers to the rehearsal provider. `environ` has further variables of the
    workers, as they are.
    """

    proxied: tuple[str, ...] = ()
    environ: dict[str, str] = msgspec.field(default_factory=dict)


AS_USUAL = Ways()


class House:
    """Everything that one deployment runs, and the ways to look at it.

    Args:
        url: of the server.
        ways: how the processes are reached and started.
        home: a temporary directory.
        workers: how many.
        gateways: how many; one leads each partition, the others wait for its end.
        settings: further `TURNFLEET_*` settings without their prefix.
    """

    def __init__(
        self,
        url: str,
        ways: Ways,
        home: Path,
        /,
        *,
        workers: int = 2,
        gateways: int = 1,
        **settings: str,
    ) -> None:
        self.home = home
        self.proxies: dict[str, Proxy] = {}
        self._proxied = ways.proxied
        self._worker_environ = dict(ways.environ)
        self._open = AsyncExitStack()
        self._url = url
        self._settings = settings
        self._worker_count = workers
        self._gateway_count = gateways
        self.rehearsal: Process | None = None
        self.gateways: list[Process] = []
        self.workers: list[Process] = []
        self.recorder: Process | None = None
        self.provider_url = ""
        self.redis = connect(url)
        self.keys = Keys()
        self.queue = TurnQueue(self.redis, self.keys, Settings())
        self.records = TurnRecords(self.redis, self.keys)
        self.channel = LocalChannel(self.redis, self.keys)

    @property
    def gateway(self) -> Process | None:
        """The gateway, where there is but one."""
        return self.gateways[0] if self.gateways else None

    @property
    def processes(self) -> list[Process]:
        """All that were started, the rehearsal provider first."""
        some = [self.rehearsal, *self.gateways, self.recorder, *self.workers]
        return [process for process in some if process is not None]

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self.__aexit__()  # nobody else would end what has started
            raise
        return self

    async def _start(self) -> None:
        environ = self._environ({})
        ready = self.home / "rehearsal.url"
        self.rehearsal = Process(
            "rehearsal", ["ops.rehearsal", "--ready-file", str(ready)], environ, self.home
        )
        self.rehearsal.start()
        async with asyncio.timeout(READY_S):
            while not ready.exists() or not ready.read_text():
                await asyncio.sleep(0.02)
        self.provider_url = ready.read_text().strip()
        more = msgspec.json.decode(self._settings.get("ENDPOINTS", "{}"))
        endpoints = {"rehearsal": await self._through("provider", self.provider_url), **more}
        shared = {"ENDPOINTS": msgspec.json.encode(endpoints).decode()}
        environ = self._environ({**shared, "REDIS_URL": await self._through("gateway", self._url)})
        names = ["gateway", *(f"gateway-{n}" for n in range(2, self._gateway_count + 1))]
        self.gateways = [Process(name, ["gateway"], environ, self.home) for name in names]
        self.recorder = Process("recorder", ["ops", "recorder"], self._environ(shared), self.home)
        environ = self._environ({**shared, "REDIS_URL": await self._through("worker", self._url)})
        self._worker_environ = environ | self._worker_environ
        for process in self.processes[1:]:
            process.start()
        for _ in range(self._worker_count):
            self.add_worker()
        await self.is_up()

    async def __aexit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
        await self._open.aclose()
        await self.redis.aclose()

    def add_worker(self) -> Process:
        """Starts one more worker."""
        name = f"worker-{len(self.workers) + 1}"
        process = Process(name, ["worker"], self._worker_environ, self.home)
        self.workers.append(process)
        process.start()
        return process

    def environ(self, url: str) -> dict[str, str]:
        """The environment of a process of this house on another server."""
        return self._environ({"REDIS_URL": url})

    async def _through(self, role: str, url: str) -> str:
        """The address that a role uses: the given one, or that of its proxy."""
        if role not in self._proxied:
            return url
        parts = urlsplit(url)
        assert parts.port is not None
        proxy = await self._open.enter_async_context(Proxy(parts.port))
        self.proxies[role] = proxy
        return parts._replace(netloc=f"127.0.0.1:{proxy.port}").geturl()

    async def is_up(self) -> None:
        """Waits until every process has reported itself."""
        async with asyncio.timeout(READY_S):
            while len(await self.records.processes()) < len(self.processes) - 1:
                await asyncio.sleep(0.05)

    def _environ(self, more: Mapping[str, str]) -> dict[str, str]:
        plain = {name: text for name, text in os.environ.items() if "TURNFLEET" not in name}
        own = {"REDIS_URL": self._url, "DATA_DIR": str(self.home), "DRAIN_S": "3"}
        settings = {**own, **self._settings, **more}
        return plain | {f"TURNFLEET_{name}": text for name, text in settings.items()}


@asynccontextmanager
async def house(
    url: str,
    ways: Ways = AS_USUAL,
    /,
    *,
    workers: int = 2,
    gateways: int = 1,
    **settings: str,
) -> AsyncIterator[House]:
    """A house in a temporary home, up and running."""
    with tempfile.TemporaryDirectory(prefix="tf-house-") as home:
        async with House(
            url, ways, Path(home), workers=workers, gateways=gateways, **settings
        ) as running:
            yield running

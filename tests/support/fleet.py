"""Real worker processes, started, stopped and killed by their own pids."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

import msgspec

from shared.config import Settings
from shared.edges.queue import TurnQueue
from shared.edges.redis import connect
from shared.keys import Keys
from shared.segments import Envelope
from tests.support.fleet_process import Options
from tests.support.turns import out_entries

ROOT = Path(__file__).parents[2]


class WorkerProcess:
    """One worker process of `fleet_process`."""

    def __init__(self, options: Options) -> None:
        self.options = options
        command = [sys.executable, "-m", "tests.support.fleet_process"]
        self.process = subprocess.Popen(
            [*command, msgspec.json.encode(options).decode()],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    async def ready(self) -> None:
        """Waits until the process has connected."""
        assert self.process.stdout is not None
        line = await asyncio.to_thread(self.process.stdout.readline)
        assert line == b"ready\n", line

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.close()

    async def exit_code(self) -> int:
        return await asyncio.to_thread(self.process.wait)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


class ProcessFleet:
    """Workers on one server, and the queue they share."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.redis = connect(options.url)
        self.keys = Keys(options.cell, options.partitions)
        self.queue = TurnQueue(self.redis, self.keys, Settings(), policy=options.policy())
        self.workers: list[WorkerProcess] = []
        self._started = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.close()
        await self.redis.aclose(close_connection_pool=True)

    async def start(self, count: int = 1) -> list[WorkerProcess]:
        """Starts more workers."""
        names = [f"w{self._started + n}" for n in range(count)]
        self._started += count
        started = [
            WorkerProcess(msgspec.structs.replace(self.options, worker_id=name)) for name in names
        ]
        self.workers += started
        for worker in started:
            await worker.ready()
        return started

    async def entries(self, turn_id: str) -> list[Envelope]:
        """What a turn has put on its out stream."""
        found = await out_entries(self.redis, self.keys)
        return [envelope for envelope in found if envelope.turn_id == turn_id]

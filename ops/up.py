"""The supervisor of `turnfleet up`: keeps the processes of a fleet alive, and stops them in order.

Comes in: services, each a command line. Goes out: running processes. What dies is started again
after a pause that grows; a service that refuses to start three times (exit code 2: somebody must
act) stops everything. Children get a signal when this process dies, however it dies. `ops.cli.up`
says which services there are.
"""

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from shared.logs import fields

FIRST_PAUSE_S: Final = 0.2
LONGEST_PAUSE_S: Final = 15.0
"""Between restarts of a service: at once after a crash, quiet when it crashes again and again."""
STEADY_S: Final = 30.0
"""A process that lived this long was well: its next crash is a first one."""
REFUSED: Final = 2
"""The exit code of a process that cannot start until somebody acts."""
MAX_REFUSALS: Final = 3
"""In a row, before everything is stopped: one or two may be a server that is still coming up."""
_PR_SET_PDEATHSIG: Final = 1
"""prctl(2): the signal that a child gets when its parent dies."""

_log = logging.getLogger(__name__)


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A process to keep alive.

    Args:
        name: in logs and messages, unique.
        command: what is executed, no shell.
        environment: of the process, whole.
        stop_rank: at the end, lower ranks are stopped first, and the next when they are gone.
        grace_s: from SIGTERM to SIGKILL.
        is_quiet: its stdout is no log and goes nowhere.
    """

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    stop_rank: int = 0
    grace_s: float = 10.0
    is_quiet: bool = False


class Phase(StrEnum):
    """What happens to a service."""

    STARTED = "started"
    DIED = "died"
    REFUSED = "refused"
    STOPPED = "stopped"
    KILLED = "killed"


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Something happened to a service's process."""

    service: str
    phase: Phase
    pid: int
    code: int | None = None


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How long the supervisor waits. Tests are in more of a hurry."""

    first_pause_s: float = FIRST_PAUSE_S
    longest_pause_s: float = LONGEST_PAUSE_S
    steady_s: float = STEADY_S


class _Child:
    """The state of a service: its process, and how often it failed."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.process: asyncio.subprocess.Process | None = None
        self.crashes = 0
        self.refusals = 0
        self.stopping = asyncio.Event()


class Supervisor:
    """Keeps services alive until it is told to stop.

    Args:
        services: what to run, started together.
        on_change: told of every change, for a person who watches.
        pace: how long to wait for what.
    """

    def __init__(
        self,
        services: Sequence[Service],
        *,
        on_change: Callable[[Change], None] = lambda _change: None,
        pace: Pace | None = None,
    ) -> None:
        self._children = [_Child(service) for service in services]
        self._on_change = on_change
        self._pace = pace or Pace()

    async def run(self, stop: asyncio.Event) -> bool:
        """Runs the services until `stop` is set; then stops them, rank by rank.

        A cancelled run stops them the same way before it ends.

        Returns:
            False when a service refused to start, so that all were stopped.
        """
        give_up = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for child in self._children:
                group.create_task(self._keep(child, give_up), name=child.service.name)
            try:
                await _first(stop, give_up)
            finally:
                # A task of its own: a second Ctrl-C, or a cancelled caller, must not leave
                # processes behind.
                await _shielded(self._stop_all())
        return not give_up.is_set()

    def pids(self) -> dict[str, int]:
        """The processes that run now, by service."""
        return {
            child.service.name: child.process.pid
            for child in self._children
            if child.process is not None
        }

    async def _keep(self, child: _Child, give_up: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        while not child.stopping.is_set():
            began_s = loop.time()
            code = await self._run_once(child)
            if child.stopping.is_set():
                return
            self._count(child, code, lived_s=loop.time() - began_s)
            if child.refusals >= MAX_REFUSALS:
                give_up.set()
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._pause_s(child)):
                    await child.stopping.wait()

    async def _run_once(self, child: _Child) -> int:
        service = child.service
        process = await asyncio.create_subprocess_exec(
            *service.command,
            env=dict(service.environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL if service.is_quiet else None,
            # A group of its own: Ctrl-C reaches the supervisor alone, which stops in order.
            start_new_session=True,
            preexec_fn=leash(os.getpid()),
        )
        child.process = process
        self._tell(child, Phase.STARTED, process.pid)
        if child.stopping.is_set():
            # It was being started while its rank was stopped.
            process.terminate()
        try:
            return await process.wait()
        finally:
            child.process = None

    def _count(self, child: _Child, code: int, *, lived_s: float) -> None:
        if lived_s >= self._pace.steady_s:
            child.crashes = child.refusals = 0
        child.crashes += 1
        child.refusals = child.refusals + 1 if code == REFUSED else 0
        phase = Phase.REFUSED if code == REFUSED else Phase.DIED
        self._tell(child, phase, 0, code)

    def _pause_s(self, child: _Child) -> float:
        pace = self._pace
        return min(pace.first_pause_s * 2.0 ** (child.crashes - 1), pace.longest_pause_s)

    async def _stop_all(self) -> None:
        for child in self._children:
            child.stopping.set()
        for rank in sorted({child.service.stop_rank for child in self._children}):
            async with asyncio.TaskGroup() as group:
                for child in self._children:
                    if child.service.stop_rank == rank:
                        group.create_task(self._stop(child), name=f"stop {child.service.name}")

    async def _stop(self, child: _Child) -> None:
        process = child.process
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(child.service.grace_s):
                code = await process.wait()
            self._tell(child, Phase.STOPPED, process.pid, code)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            self._tell(child, Phase.KILLED, process.pid, await process.wait())

    def _tell(self, child: _Child, phase: Phase, pid: int, code: int | None = None) -> None:
        change = Change(service=child.service.name, phase=phase, pid=pid, code=code)
        is_bad = phase in {Phase.DIED, Phase.REFUSED, Phase.KILLED}
        _log.log(
            logging.WARNING if is_bad else logging.INFO,
            "service.changed",
            extra=fields(**msgspec.structs.asdict(change)),
        )
        self._on_change(change)


async def _first(*events: asyncio.Event) -> None:
    """Waits until one of the events is set."""
    waits = [asyncio.create_task(event.wait(), name="wait") for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


async def _shielded(stopping: Coroutine[None, None, None]) -> None:
    """Awaits to the end, whatever cancels the caller meanwhile; the cancellation comes after."""
    task = asyncio.create_task(stopping, name="stop all")
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


def leash(parent: int) -> Callable[[], None] | None:
    """What a child does before it becomes its program: it asks to get SIGTERM when we die.

    Args:
        parent: our process, which starts the child from its main thread: Linux means that one.

    Returns:
        None elsewhere than on Linux.
    """
    if sys.platform != "linux":
        return None
    # Looked up before the fork: the child calls one function and nothing that takes a lock.
    prctl = ctypes.CDLL(None).prctl

    def hold() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)

    return hold

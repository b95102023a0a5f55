"""The supervisor over real processes: restarts, order of stopping, and nobody left behind."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ops.up import MAX_REFUSALS, Change, Pace, Phase, Service, Supervisor

HASTY = Pace(first_pause_s=0.01, longest_pause_s=0.05, steady_s=60.0)
PATIENT = "import signal, time; time.sleep(60)"
DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open({ready!r}, "w").close()
time.sleep(60)
"""


def service(name: str, code: str, **more: object) -> Service:
    facts: dict[str, object] = {"grace_s": 10.0, "is_quiet": True, **more}
    return Service(
        name=name,
        command=(sys.executable, "-c", code),
        environment=os.environ,
        **facts,  # type: ignore[arg-type]  # fields of a service
    )


class Watch:
    def __init__(self) -> None:
        self.changes: list[Change] = []
        self._new = asyncio.Event()

    def note(self, change: Change) -> None:
        self.changes.append(change)
        self._new.set()

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not is_so():
                self._new.clear()
                await self._new.wait()

    def count(self, phase: Phase, name: str | None = None) -> int:
        return sum(
            change.phase is phase and name in {None, change.service} for change in self.changes
        )


@asynccontextmanager
async def running(*services: Service) -> AsyncIterator[tuple[Supervisor, Watch]]:
    watch, stop = Watch(), asyncio.Event()
    supervisor = Supervisor(services, on_change=watch.note, pace=HASTY)
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        group.create_task(supervisor.run(stop), name="supervisor")
        await watch.until(lambda: watch.count(Phase.STARTED) >= len(services))
        yield supervisor, watch
        stop.set()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_services_run_and_stop():
    async with running(service("a", PATIENT), service("b", PATIENT)) as (supervisor, watch):
        pids = supervisor.pids()
        assert set(pids) == {"a", "b"}
    assert watch.count(Phase.STOPPED) == 2
    assert not any(is_alive(pid) for pid in pids.values())


async def test_what_is_killed_is_started_again():
    async with running(service("a", PATIENT)) as (supervisor, watch):
        first = supervisor.pids()["a"]
        os.kill(first, signal.SIGKILL)
        await watch.until(lambda: watch.count(Phase.STARTED) == 2)
        assert supervisor.pids()["a"] != first
    died = next(change for change in watch.changes if change.phase is Phase.DIED)
    assert died.code == -signal.SIGKILL


async def test_what_crashes_at_once_is_tried_again_and_again():
    async with running(service("a", "raise SystemExit(1)")) as (_, watch):
        await watch.until(lambda: watch.count(Phase.DIED) >= 3 + MAX_REFUSALS)


async def test_a_service_that_refuses_to_start_stops_everything():
    watch = Watch()
    services = [service("a", PATIENT), service("b", "raise SystemExit(2)")]
    supervisor = Supervisor(services, on_change=watch.note, pace=HASTY)
    async with asyncio.timeout(20):
        assert await supervisor.run(asyncio.Event()) is False
    assert watch.count(Phase.REFUSED, "b") == MAX_REFUSALS
    assert watch.count(Phase.STOPPED, "a") == 1


async def test_ranks_are_stopped_in_order():
    services = [
        service("server", PATIENT, stop_rank=2),
        service("worker", PATIENT, stop_rank=0),
        service("gateway", PATIENT, stop_rank=1),
    ]
    async with running(*services) as (_, watch):
        pass
    stopped = [change.service for change in watch.changes if change.phase is Phase.STOPPED]
    assert stopped == ["worker", "gateway", "server"]


async def test_who_does_not_listen_is_killed_after_the_grace(tmp_path: Path):
    ready = tmp_path / "ready"
    deaf = service("a", DEAF.format(ready=str(ready)), grace_s=0.1)
    async with running(deaf) as (_, watch):
        while not ready.exists():
            await asyncio.sleep(0.01)
    assert watch.count(Phase.KILLED) == 1


async def test_a_stop_does_not_wait_for_the_pause_between_restarts():
    stop, watch = asyncio.Event(), Watch()
    pace = Pace(first_pause_s=3600, longest_pause_s=3600)
    supervisor = Supervisor([service("a", "raise SystemExit(1)")], on_change=watch.note, pace=pace)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(supervisor.run(stop), name="supervisor")
        await watch.until(lambda: watch.count(Phase.DIED) == 1)
        stop.set()


async def test_a_cancelled_supervisor_leaves_nobody_behind():
    watch = Watch()
    supervisor = Supervisor([service("a", PATIENT)], on_change=watch.note, pace=HASTY)
    task = asyncio.create_task(supervisor.run(asyncio.Event()), name="supervisor")
    await watch.until(lambda: watch.count(Phase.STARTED) == 1)
    pid = supervisor.pids()["a"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_alive(pid)


def test_children_of_a_killed_supervisor_end(tmp_path: Path):
    file = tmp_path / "pid"
    child = f"import os, time; open({str(file)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    code = f"""
import asyncio, os, sys
from ops.up import Service, Supervisor
service = Service(name="a", command=(sys.executable, "-c", {child!r}), environment=os.environ)
asyncio.run(Supervisor([service]).run(asyncio.Event()))
"""
    parent = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 20
    while not (file.exists() and file.read_text(encoding="utf-8")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    parent.kill()
    parent.wait()
    pid = int(file.read_text(encoding="utf-8"))
    while _is_running(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _is_running(pid: int) -> bool:
    """Whether it runs: in a container without an init, a dead orphan stays as a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"

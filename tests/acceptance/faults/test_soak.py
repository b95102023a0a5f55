"""Random faults for a long time: kills, stalls, lost connections, restarts of everything."""

import asyncio
import contextlib
import os
import random
import signal
import time
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import RedisError

from tests.support.house import Process
from tests.support.scene import Scene
from tests.support.servers import RedisServer
from tests.support.staging import Setting, fault

TURNS = int(os.environ.get("TURNFLEET_TEST_KILL_TURNS", "2000"))
"""So many prompts on each server."""
FEW_TURNS = 120
CHANNELS, GUILDS = 40, 8
PAUSE_S = (0.8, 2.5)
"""Between two deeds of the nemesis; a killed worker's turns take a lease of 6 s to come back."""
DOWN_S = (0.05, 1.0)
STALL_S = (0.5, 10.0)
"""From a hiccup to beyond the leases of gateways (3 s) and workers (6 s)."""
NO_START = frozenset({2})
"""The exit code of a process that refuses to start: it found no server."""
LIMIT_S = 300.0
SOAK_S = float(os.environ.get("TURNFLEET_TEST_SOAK_S", "300"))
SOAKED = Setting(workers=3, gateways=2, settings=(("SLOTS", "40"),))
MAX_GROWTH = 1.15
"""Of a process's memory from the first third of a soak to its end; caches are filled by then."""


class Nemesis:
    """Kills and stalls what it likes, and brings it back."""

    def __init__(self, scene: Scene, *, spared: tuple[str, ...] = ()) -> None:
        self._scene = scene
        self._random: random.Random = scene.random
        self._spared = spared

    async def run(self, quiet: asyncio.Event) -> None:
        """Returns once all that was stalled runs again."""
        deeds = [self._kill, self._stall, self._end, self._cut]
        async with asyncio.TaskGroup() as stalls:
            while not quiet.is_set():
                await asyncio.sleep(self._random.uniform(*PAUSE_S))
                if quiet.is_set():
                    return
                deed = self._random.choices(deeds, weights=[50, 35, 8, 7])[0]
                victim = self._victim()
                if deed == self._stall and isinstance(victim, Process):
                    stalls.create_task(deed(victim))
                else:  # nobody can start while the server is stalled
                    await deed(victim)

    def _victim(self) -> Process | RedisServer:
        house = self._scene.house
        kind = self._random.choices(["worker", "gateway", "server"], weights=[5, 3, 2])[0]
        some = house.workers if kind == "worker" else house.gateways
        some = [process for process in some if process.name not in self._spared]
        return self._random.choice(some) if kind != "server" and some else self._scene.server

    async def _kill(self, victim: Process | RedisServer) -> None:
        self._scene.note(f"SIGKILL {getattr(victim, 'name', 'server')}")
        victim.kill()
        await asyncio.sleep(self._random.uniform(*DOWN_S))
        await asyncio.to_thread(victim.start)

    async def _stall(self, victim: Process | RedisServer) -> None:
        async with self._scene.stopped(victim):
            await asyncio.sleep(self._random.uniform(*STALL_S))

    async def _end(self, victim: Process | RedisServer) -> None:
        if isinstance(victim, RedisServer):
            await self._kill(victim)
            return
        pid = victim.pid
        self._scene.note(f"SIGTERM {victim.name}")
        victim.signal(signal.SIGTERM)
        with contextlib.suppress(ProcessLookupError):  # a stalled one hears it when it wakes
            os.kill(pid, signal.SIGCONT)
        await asyncio.to_thread(victim.wait, 30.0)
        await asyncio.to_thread(victim.start)

    async def _cut(self, _: Process | RedisServer) -> None:
        self._scene.note("CLIENT KILL of all")
        with (
            contextlib.suppress(RedisError),
            Redis(port=self._scene.server.port, socket_timeout=2) as client,
        ):
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


async def suffer(scene: Scene, turns: int, *, spared: tuple[str, ...] = ()) -> None:
    """People talk while the nemesis is about."""
    scene.exits_may_be = NO_START
    scene.silence_s = 60.0  # stalls of 10 s add up; what counts here is what is shown
    channels = [await scene.channel(1 + n % GUILDS) for n in range(CHANNELS)]
    quiet = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(Nemesis(scene, spared=spared).run(quiet))
        await scene.ask_many(turns, channels, pause_s=0.1)
        quiet.set()
    await scene.quiet(LIMIT_S)
    scene.note(f"{turns} prompts")


@fault("random", quick=True)
async def test_a_little_of_everything(scene: Scene):
    """Random kills and stalls of workers, gateways and server: 120 prompts."""
    await suffer(scene, FEW_TURNS)


@fault("random")
async def test_two_thousand_turns(scene: Scene):
    """Random kills, stalls, ends and lost connections: 2,000 prompts."""
    await suffer(scene, TURNS)


def memory_kib(process: Process) -> int:
    """What a process holds in memory."""
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    return int(status.partition("VmRSS:")[2].split()[0])


@fault("F41", on=SOAKED)
async def test_a_soak(scene: Scene):
    """Minutes of load and random faults: memory and connections of the spared are flat."""
    house = scene.house
    watched = [house.workers[0], house.gateways[0]]
    assert house.recorder is not None
    watched.append(house.recorder)
    pids = [process.pid for process in watched]
    channels = [await scene.channel(1 + n % GUILDS) for n in range(CHANNELS)]
    scene.exits_may_be = NO_START
    scene.silence_s = 60.0
    quiet = asyncio.Event()
    begun_s, early = time.monotonic(), [0, 0, 0]
    async with asyncio.TaskGroup() as group:
        nemesis = Nemesis(scene, spared=tuple(process.name for process in watched))
        group.create_task(nemesis.run(quiet))
        while (passed_s := time.monotonic() - begun_s) < SOAK_S:
            await scene.ask_many(20, channels, pause_s=0.05)
            if not early[0] and passed_s > SOAK_S / 3:
                early = [memory_kib(process) for process in watched]
        quiet.set()
    await scene.quiet(LIMIT_S)
    assert [process.pid for process in watched] == pids
    late = [memory_kib(process) for process in watched]
    scene.note(f"KiB of memory: {early}, {late}; {len(scene.prompts)} prompts")
    assert all(now <= MAX_GROWTH * before for before, now in zip(early, late, strict=True))
    clients = await house.redis.info("clients")
    assert clients["connected_clients"] < 64 * len(house.processes)


pytestmark = pytest.mark.filterwarnings("default::ResourceWarning")
"""A connection that is cut while it is made is told of by the collector, not by redis-py."""

"""Faults of the server: killed, stalled, loading, read only, without scripts, doors or disk."""

import asyncio
import contextlib
import resource
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from redis import Redis
from redis.exceptions import RedisError

from shared.turns import TurnState
from tests.support.house import Process
from tests.support.scene import Scene
from tests.support.servers import running_server
from tests.support.staging import Setting, fault

EVERYSEC = Setting(server=(("appendfsync", "everysec"),))
"""A full disk is fatal for a server that syncs always: it exits, and F12 is what follows."""


@asynccontextmanager
async def load(scene: Scene, *, prompts: int = 30, model: str = "echo@30") -> AsyncIterator[None]:
    """People talk in eight channels while the block runs."""
    channels = [await scene.channel(guild) for guild in range(1, 9)]
    talking = asyncio.create_task(scene.ask_many(prompts, channels, model=model, pause_s=0.1))
    await asyncio.sleep(1)
    try:
        yield
    finally:
        await talking


def command(scene: Scene, *words: str | int) -> object:
    """One command, on a connection of its own."""
    with Redis(port=scene.server.port, socket_timeout=5) as client:
        return client.execute_command(*words)


@fault("F12")
@pytest.mark.parametrize("down_s", [1.0, 8.0, 70.0])
async def test_a_killed_server(scene: Scene, down_s: float):
    """kill -9 of the server, away for so many seconds:"""
    scene.silence_s += down_s
    async with load(scene):
        await scene.restart_server(down_s)
        back_s = time.monotonic()
        prompt = await scene.ask(model="echo@200")
        await scene.until_shown(prompt)
        scene.recoveries_s.append(time.monotonic() - back_s)
    await scene.quiet()
    if down_s < 60:
        assert await scene.crashes() == 0  # no mass takeover


@fault("F13")
async def test_a_server_that_is_told_to_end(scene: Scene):
    """SIGTERM of the server: it saves and ends, and comes back."""
    async with load(scene):
        scene.note("SIGTERM server")
        server = scene.server
        server.signal(signal.SIGTERM)
        assert server.process is not None
        await asyncio.to_thread(server.process.wait)
        await asyncio.to_thread(server.start)
    await scene.quiet()
    assert await scene.crashes() == 0


@fault("F13")
async def test_a_stalled_server(scene: Scene):
    """SIGSTOP of the server for 10 s, longer than every lease."""
    scene.silence_s += 10
    async with load(scene), scene.stopped(scene.server):
        await asyncio.sleep(10)
    await scene.quiet()
    assert await scene.crashes() == 0


LOADING_S = 5.0
COMMAND_BYTES = 120
"""About what a command takes in the file; the server answers every 1,024 of them."""


@fault("F14")
async def test_a_server_that_loads(scene: Scene):
    """After a kill the server reads its file for 5 s or so, and answers LOADING meanwhile."""
    scene.silence_s += 3 * LOADING_S
    server = scene.server
    async with load(scene):
        for start in range(0, 10_000, 500):
            names = [f"filler:{number}" for number in range(start, start + 500)]
            async with scene.house.redis.pipeline(transaction=False) as pipe:
                for name in names:
                    pipe.set(name, "x" * 50, px=60_000)
                await pipe.execute()
        size = sum(path.stat().st_size for path in server.directory.rglob("*.aof"))
        delay_us = min(500, int(LOADING_S * 1e6 * COMMAND_BYTES / size))
        scene.note(f"{delay_us} us for each of the commands in {size} bytes")
        server.options["key-load-delay"] = str(delay_us)
        await scene.restart_server(0.0)
        del server.options["key-load-delay"]
        command(scene, "CONFIG", "SET", "key-load-delay", 0)
    await scene.quiet()
    assert await scene.crashes() == 0


@fault("F16")
async def test_scripts_are_flushed(scene: Scene):
    """SCRIPT FLUSH twenty times a second, as after a fail-over to who never saw them."""
    async with load(scene):
        for _ in range(100):
            await scene.house.redis.script_flush()
            await asyncio.sleep(0.05)
    await scene.quiet()
    assert await scene.crashes() == 0


@fault("F18", "R17")
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("maxmemory-policy", "allkeys-lru"),
        ("maxmemory-policy", "volatile-lru"),
        ("appendonly", "no"),
    ],
)
async def test_a_server_that_would_forget(scene: Scene, option: str, value: str):
    """Worker and gateway refuse to start on a server that may lose accepted work:"""
    flavor = "valkey" if "valkey" in scene.server.binary else "redis"
    with running_server(flavor, **{option: value}) as unsafe:
        for role in ("worker", "gateway"):
            process = Process(
                role + "-unsafe", [role], scene.house.environ(unsafe.url), scene.house.home
            )
            process.start()
            assert await asyncio.to_thread(process.wait, 30.0) == 2
            lines = process.log.read_text(encoding="utf-8").splitlines()
            assert option.split("-")[0] in lines[-1]
            process.log.unlink()


@fault("F22")
async def test_a_server_that_is_read_only(scene: Scene):
    """For 4 s the server is a replica and refuses to write, then it is promoted again."""
    async with load(scene):
        scene.note("REPLICAOF")
        command(scene, "REPLICAOF", "127.0.0.1", 1)
        await asyncio.sleep(4)
        command(scene, "REPLICAOF", "NO", "ONE")
        scene.note("promoted")
    await scene.quiet()
    assert await scene.crashes() == 0


@fault("F23")
async def test_a_server_without_doors(scene: Scene):
    """Every connection is cut and only twelve may come back, for 5 s."""
    async with load(scene):
        scene.note("maxclients 12")
        with Redis(port=scene.server.port, socket_timeout=5) as client:
            client.ping()
            client.config_set("maxclients", 12)
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            await asyncio.sleep(5)
            client.config_set("maxclients", 10_000)
        scene.note("maxclients 10000")
    await scene.quiet()


@fault("F40", on=EVERYSEC)
async def test_a_full_disk(scene: Scene):
    """The server cannot write its file for 5 s and refuses all writes (MISCONF)."""
    scene.silence_s += 10
    server = scene.server
    async with load(scene):
        size = max(path.stat().st_size for path in server.directory.rglob("*.aof"))
        scene.note("disk full")
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size + 1, resource.RLIM_INFINITY))
        await asyncio.sleep(5)
        with pytest.raises(RedisError, match="MISCONF"):
            command(scene, "SET", "probe", "x", "PX", 1000)
        infinite = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, infinite)
        scene.note("disk free")
    await scene.quiet()


@fault("R11")
async def test_a_stop_after_a_restart_of_the_server(scene: Scene):
    """A turn is stopped after the server was killed and came back."""
    prompt = await scene.ask(model="echo@8", parts=6)
    prompt.may_end = frozenset({TurnState.CANCELLED})
    await scene.until_shown(prompt)
    await scene.restart_server(1.0)

    async def stopped() -> bool:
        return await scene.house.queue.cancel(prompt.turn_id) in ("stopping", "cancelled")

    await scene.until(stopped)
    scene.recoveries_s.append(await scene.until_state(prompt, TurnState.CANCELLED))
    scene.recovery_s = 3.0


@fault("R5")
async def test_connections_are_lost_again_and_again(scene: Scene):
    """CLIENT KILL of all connections five times in 3 s: every worker takes turns within 50 ms."""
    for _ in range(5):
        command(scene, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await asyncio.sleep(0.6)
    await asyncio.sleep(1)
    prompts = await scene.ask_many(
        24, [await scene.channel(n) for n in range(24)], model="echo@200", pause_s=0.1
    )
    await scene.quiet()
    records = [await scene.house.records.turn(prompt.turn_id) for prompt in prompts]
    waits = sorted((r.claimed_ms or 0) - r.enqueued_ms for r in records if r is not None)
    assert waits[len(waits) // 2] < 50, waits
    assert len({record.worker_id for record in records if record is not None}) == 3


@fault("R10")
async def test_the_recorders_group_is_destroyed(scene: Scene):
    """XGROUP DESTROY of the errors' readers under failing turns: every row comes all the same."""
    prompts = []
    for number in range(6):
        prompts.append(await scene.admit("invalid_key", channel=await scene.channel(number)))
        prompts[-1].may_end = frozenset({TurnState.FAILED})
        prompts[-1].is_echoed = False
        with contextlib.suppress(RedisError):
            command(scene, "XGROUP", "DESTROY", scene.house.keys.errors, "recorder")
        await asyncio.sleep(0.3)
    await scene.quiet()
    assert scene.house.recorder is not None
    assert len(scene.logged(scene.house.recorder).splitlines()) < 40

"""Faults of the network: silence without a word, lost answers, delay, between any two parties."""

import asyncio
import hashlib
import time

import pytest

from shared.edges.scripting import source_of
from shared.turns import TurnState
from tests.support.house import Ways
from tests.support.proxy import Proxy
from tests.support.scene import Scene
from tests.support.staging import Setting, fault

PROXIED = Setting(ways=Ways(proxied=("worker", "gateway", "provider")))
DETECTED_S = 10.5
"""Two socket timeouts."""


def digest_of(script: str) -> bytes:
    """What a call of a script has in its bytes."""
    return hashlib.sha1(source_of(script).encode(), usedforsecurity=False).hexdigest().encode()


class Loser:
    """Loses the answers to a script: what was asked is done, and nobody hears so."""

    def __init__(self, proxy: Proxy, script: str, times: int) -> None:
        self._left = times
        self._empty = b"*0" if script == "claim" else b"-"
        self.lost = 0
        proxy.watch(script.encode() if script.isupper() else digest_of(script), self._answer)

    def _answer(self, _: bytes, answer: bytes) -> bool:
        if self.lost >= self._left or answer.startswith((b"-", self._empty)):
            return False
        self.lost += 1
        return True


@fault("F19", on=PROXIED)
@pytest.mark.parametrize("role", ["worker", "gateway"])
async def test_connections_fall_silent(scene: Scene, role: str):
    """All connections to the server hang without a RST; new ones are good:"""
    running = await scene.ask(model="echo@8", parts=5)
    await scene.until_shown(running)
    scene.note(f"{role}: silence")
    scene.house.proxies[role].freeze()
    scene.silence_s += DETECTED_S
    scene.recovery_s = DETECTED_S
    following = await scene.ask(model="echo@200")
    scene.recoveries_s.append(await scene.until_shown(following))
    await scene.quiet()
    scene.house.proxies[role].heal()
    assert await scene.crashes() == 0


@fault("F19", on=PROXIED)
@pytest.mark.parametrize("role", ["worker", "gateway"])
async def test_a_partition(scene: Scene, role: str):
    """For 9 s nothing reaches the server, on old connections and new ones:"""
    running = await scene.ask(model="echo@8", parts=5)
    await scene.until_shown(running)
    proxy = scene.house.proxies[role]
    scene.note(f"{role}: partition")
    proxy.swallows = True
    proxy.freeze()
    await asyncio.sleep(9)
    proxy.heal()
    scene.note("healed")
    scene.silence_s += 9 + DETECTED_S
    scene.recovery_s = DETECTED_S
    following = await scene.ask(model="echo@200")
    scene.recoveries_s.append(await scene.until_shown(following))


@fault("F20", on=PROXIED)
@pytest.mark.parametrize("script", ["claim", "append", "finish", "beat", "reap"])
async def test_a_worker_loses_answers(scene: Scene, script: str):
    """RST in place of the answer, the command is done; six answers lost of:"""
    loser = Loser(scene.house.proxies["worker"], script, 6)
    channels = [await scene.channel(guild) for guild in range(1, 7)]
    await scene.ask_many(24, channels, model="echo@60", pause_s=0.1)
    await scene.quiet()
    scene.house.proxies["worker"].heal()
    scene.note(f"{loser.lost} answers lost")
    assert loser.lost


@fault("F20", on=PROXIED)
@pytest.mark.parametrize("script", ["admit", "journal", "XDEL", "lead", "local_post"])
async def test_a_gateway_loses_answers(scene: Scene, script: str):
    """RST in place of the answer, the command is done; six answers lost of:"""
    loser = Loser(scene.house.proxies["gateway"], script, 6)
    channels = [await scene.channel(guild) for guild in range(1, 7)]
    await scene.ask_many(24, channels, model="echo@60", pause_s=0.1)
    await scene.quiet()
    scene.house.proxies["gateway"].heal()
    scene.note(f"{loser.lost} answers lost")
    assert loser.lost
    assert await scene.crashes() == 0


@fault("F21", on=PROXIED)
async def test_a_slow_network(scene: Scene):
    """200 ms to the server and back, for workers and gateways: nobody is thought dead."""
    for role in ("worker", "gateway"):
        scene.house.proxies[role].delay_s = 0.1
    channels = [await scene.channel(guild) for guild in range(1, 7)]
    await scene.ask_many(24, channels, pause_s=0.2)
    await scene.quiet()
    for role in ("worker", "gateway"):
        scene.house.proxies[role].heal()
    assert await scene.crashes() == 0


@fault("F21", on=PROXIED)
async def test_a_network_that_stalls(scene: Scene):
    """One piece of data in ten comes a second late: nobody is thought dead."""
    for role in ("worker", "gateway"):
        scene.house.proxies[role].stall_share = 0.1
        scene.house.proxies[role].stall_s = 1.0
    channels = [await scene.channel(guild) for guild in range(1, 7)]
    await scene.ask_many(24, channels, pause_s=0.2)
    await scene.quiet()
    for role in ("worker", "gateway"):
        scene.house.proxies[role].heal()
    assert await scene.crashes() == 0


@fault("F2", on=PROXIED)
async def test_a_worker_dies_with_the_answer_to_its_claim(scene: Scene):
    """SIGKILL of a worker when the server has given it a turn that it has not begun."""
    struck = asyncio.Event()

    def kill(request: bytes, answer: bytes) -> bool:
        if struck.is_set() or answer.startswith((b"-", b"*0")):
            return False
        for worker in scene.house.workers:
            if f"-{worker.pid}-".encode() in request:
                scene.note(f"SIGKILL {worker.name}")
                worker.kill()
                worker.start()
                struck.set()
        return struck.is_set()

    scene.house.proxies["worker"].watch(digest_of("claim"), kill)
    prompt = await scene.ask(model="echo@60")
    async with asyncio.timeout(30):
        await struck.wait()
    await scene.recovered(prompt)


@fault("F1", on=PROXIED)
async def test_a_worker_dies_between_the_last_segment_and_the_end(scene: Scene):
    """SIGKILL of a worker whose last segment was taken, before it ends the turn."""
    struck = asyncio.Event()

    def kill(request: bytes, answer: bytes) -> bool:
        if struck.is_set() or b'"seq":3' not in request or answer.startswith(b"-"):
            return False
        scene.note("SIGKILL of the worker that appended it")
        worker = next(w for w in scene.house.workers if w.pid in pids)
        worker.kill()
        worker.start()
        struck.set()
        return True

    scene.house.proxies["worker"].watch(digest_of("append"), kill)
    prompt = await scene.ask(model="echo@60")
    await scene.until_state(prompt, TurnState.RUNNING)
    pids = {(await scene.holder(prompt)).pid}
    async with asyncio.timeout(30):
        await struck.wait()
    await scene.recovered(prompt)


IDLE_S = 31.0
"""Longer than the firewalls that forget a quiet connection without a word."""


@fault("F19", "R7", on=PROXIED)
async def test_idle_connections_are_forgotten(scene: Scene):
    """Nobody speaks for 31 s, and every connection to the server is dead without a word."""
    await asyncio.sleep(IDLE_S)
    for role in ("worker", "gateway"):
        scene.house.proxies[role].freeze()
    scene.note("all connections are dead")
    scene.silence_s += DETECTED_S
    scene.recovery_s = DETECTED_S
    prompt = await scene.ask(model="echo@200")
    scene.recoveries_s.append(await scene.until_shown(prompt))
    await scene.quiet()
    for role in ("worker", "gateway"):
        scene.house.proxies[role].heal()
    for worker in scene.house.workers:
        assert scene.logged(worker).count(b'"redis.away"') <= 1


@fault("F28", on=PROXIED)
async def test_the_way_to_the_provider_breaks(scene: Scene):
    """RST of every stream in the middle; the next attempt supersedes, in its place."""
    channels = [await scene.channel(guild) for guild in range(1, 7)]
    prompts = await scene.ask_many(12, channels, model="echo@20", pause_s=0.1)
    await scene.until_shown(prompts[0])
    scene.note("RST of all streams")
    scene.house.proxies["provider"].reset()
    await scene.quiet()
    assert await scene.crashes() == 0


@fault("F28", on=PROXIED)
async def test_the_provider_refuses_connections(scene: Scene):
    """Nobody listens at the provider's port: the turn fails, is kept, and the next is answered."""
    provider = scene.house.proxies["provider"]
    await provider.shut()
    provider.reset()
    refused = await scene.ask()
    refused.may_end = frozenset({TurnState.FAILED})
    begun_s = time.monotonic()
    await scene.until_state(refused, TurnState.FAILED)
    scene.note(f"failed after {time.monotonic() - begun_s:.1f} s")
    await provider.open()
    await asyncio.sleep(1)
    answered = await scene.ask(refused.channel)
    await scene.until_state(answered, TurnState.DONE, TurnState.FAILED)

"""Faults of worker processes: killed, stalled, told to end, out of memory, blocked, ill-timed."""

import asyncio
import resource
import signal
from pathlib import Path

import pytest

from shared.edges.policy import LEASE_MS
from shared.turns import TurnState
from tests.support.house import Ways
from tests.support.scene import RECOVERY_S, Scene
from tests.support.staging import Setting, fault

TROUBLED = Path(__file__).parents[2] / "support" / "troubled"
SKEWED = Setting(
    gateways=1, ways=Ways(environ={"PYTHONPATH": str(TROUBLED), "TROUBLE_SKEW_S": "30"})
)
SLOW = "echo@15"
"""A reply of several seconds."""
START_S = 6.0
"""Three workers at once on two cores that also run the rest of the house."""


@fault("F1")
@pytest.mark.parametrize("shown", [0, 1, 3])
async def test_a_killed_worker(scene: Scene, shown: int):
    """SIGKILL of a worker; messages shown before:"""
    prompt = await scene.ask(model=SLOW, parts=4)
    await scene.until_state(prompt, TurnState.RUNNING)
    await scene.until_shown(prompt, shown)
    await scene.kill(await scene.holder(prompt))
    await scene.recovered(prompt)


@fault("F1")
async def test_a_worker_killed_with_many_turns(scene: Scene):
    """SIGKILL of all workers at once, with forty turns in their hands."""
    channels = [await scene.channel(guild) for guild in range(1, 41)]
    prompts = await scene.ask_many(40, channels, model=SLOW, pause_s=0.0)
    await scene.until_shown(prompts[-1])
    for worker in scene.house.workers:
        await scene.kill(worker)
    # Nobody is left to reap: the new ones start first, and give whoever may live a lease of grace.
    scene.recovery_s = RECOVERY_S + LEASE_MS / 1000 + START_S
    await scene.recovered(prompts[-1])


@fault("F3")
async def test_a_stalled_worker_wakes_as_a_zombie(scene: Scene):
    """SIGSTOP of a worker for longer than its lease, then SIGCONT."""
    prompt = await scene.ask(model=SLOW, parts=5)
    await scene.until_shown(prompt, 1)
    async with scene.stopped(await scene.holder(prompt)):
        await scene.recovered(prompt)
        await asyncio.sleep(4)
    follow_up = await scene.ask(prompt.channel)
    await scene.until_shown(follow_up, 3)


@fault("F4")
@pytest.mark.parametrize("model", ["echo@100", SLOW])
async def test_a_worker_is_told_to_end(scene: Scene, model: str):
    """SIGTERM with a turn that ends within the drain of 3 s, or does not:"""
    prompt = await scene.ask(model=model, parts=5, words=12)
    await scene.until_shown(prompt, 1)
    await scene.end(await scene.holder(prompt))
    await scene.quiet()
    assert await scene.crashes() == 0


@fault("F4")
async def test_a_worker_is_told_twice(scene: Scene):
    """Two SIGTERMs: it does not wait for its turns."""
    prompt = await scene.ask(model=SLOW, parts=5)
    await scene.until_shown(prompt, 1)
    worker = await scene.holder(prompt)
    worker.signal(signal.SIGTERM)
    await asyncio.sleep(0.2)
    await scene.end(worker)
    await scene.recovered(prompt)
    await scene.quiet()
    assert await scene.crashes() == 0


@fault("F4")
async def test_a_worker_is_told_to_end_while_it_claims(scene: Scene):
    """SIGTERM of each worker at the moment of new prompts, nine times."""
    for number in range(9):
        await scene.ask(await scene.channel(number), model="echo@200")
        await scene.end(scene.house.workers[number % 3])
    await scene.quiet()
    assert await scene.crashes() == 0


@fault("F5")
async def test_rolling_restarts(scene: Scene):
    """All workers restarted three times under load."""
    channels = [await scene.channel(guild) for guild in range(1, 9)]
    asking = asyncio.create_task(scene.ask_many(60, channels, model="echo@30", pause_s=0.2))
    for _ in range(3):
        for worker in scene.house.workers:
            await scene.end(worker)
    await asking
    await scene.quiet()
    assert await scene.crashes() == 0


@fault("F6")
async def test_a_kill_after_the_grace(scene: Scene):
    """SIGTERM, and SIGKILL one second later, as an impatient supervisor does."""
    prompt = await scene.ask(model=SLOW, parts=5)
    await scene.until_shown(prompt, 1)
    worker = await scene.holder(prompt)
    worker.signal(signal.SIGTERM)
    await asyncio.sleep(1)
    await scene.kill(worker)
    await scene.recovered(prompt)


@fault("F7")
async def test_a_poison_turn(scene: Scene):
    """A turn takes three workers with it: it is dead, and its neighbours are well."""
    poison = await scene.ask(model=SLOW, parts=6)
    poison.may_end = frozenset({TurnState.DEAD})
    behind = await scene.ask(poison.channel)
    beside = [await scene.ask(await scene.channel(2)) for _ in range(3)]
    for attempt in range(1, 4):
        await scene.until_attempt(poison, attempt)
        await scene.until_state(poison, TurnState.RUNNING)
        await scene.kill(await scene.holder(poison))
    await scene.until_state(poison, TurnState.DEAD)
    for prompt in (behind, *beside):
        await scene.until_shown(prompt, 3)


@fault("F8")
async def test_a_hook_that_fails(scene: Scene):
    """The list of processes is broken for 6 s: nobody's report succeeds, and all work on."""
    processes = scene.house.keys.processes
    await scene.house.redis.set(processes, "no list")
    await scene.ask_many(12, [await scene.channel(n) for n in range(4)], pause_s=0.4)
    await asyncio.sleep(3)
    await scene.house.redis.delete(processes)


@fault("F11")
async def test_a_worker_without_memory(scene: Scene):
    """A worker may take no more memory for 5 s; it lives or dies, its turns get their ends."""
    scene.exits_may_be = frozenset({1, -6, -7, -9, -11})
    channels = [await scene.channel(guild) for guild in range(6)]
    prompts = await scene.ask_many(12, channels, model="echo@30", pause_s=0.05)
    await scene.until_shown(prompts[-1])
    worker = scene.house.workers[0]
    pid = worker.pid
    scene.note(f"no memory for {worker.name}")
    resource.prlimit(pid, resource.RLIMIT_AS, (64 << 20, resource.RLIM_INFINITY))
    await scene.ask_many(12, channels, model="echo@60", pause_s=0.2)
    await asyncio.sleep(3)
    if worker.pid == pid:
        await scene.kill(worker)
    await scene.quiet()


@fault("F36")
async def test_from_one_worker_to_eight_and_back(scene: Scene):
    """Workers from 3 to 8, down to 1, and to 3 again, under load."""
    house = scene.house
    channels = [await scene.channel(guild) for guild in range(1, 21)]
    asking = asyncio.create_task(scene.ask_many(150, channels, model="echo@40", pause_s=0.15))
    for _ in range(5):
        house.add_worker()
    await asyncio.sleep(6)
    while len(house.workers) > 1:
        await scene.leave(house.workers.pop())
    await asyncio.sleep(3)
    house.add_worker()
    house.add_worker()
    await asking
    await scene.quiet()
    assert await scene.crashes() == 0


@fault("F10", on=SKEWED)
async def test_a_blocked_loop(scene: Scene):
    """The event loop of a worker is blocked for two leases, and then goes on."""
    prompt = await scene.ask(model=SLOW, parts=5)
    await scene.until_shown(prompt, 1)
    worker = await scene.holder(prompt)
    scene.note(f"{worker.name} blocks for 12 s")
    worker.signal(signal.SIGUSR2)
    await scene.recovered(prompt)
    await scene.quiet()
    await asyncio.sleep(6)
    await scene.ask_many(6, [await scene.channel(n) for n in range(3)])


@fault("F34", on=SKEWED)
async def test_clocks_that_are_wrong(scene: Scene):
    """The workers' clocks are 30 s ahead or behind: no turn is taken from anybody."""
    channels = [await scene.channel(guild) for guild in range(1, 7)]
    await scene.ask_many(24, channels, model="echo@20", pause_s=0.2)
    await scene.quiet()
    assert await scene.crashes() == 0

"""Faults of turns: stopped, expired, standing behind others; and what a scaler sees of them."""

import asyncio
import time
from collections.abc import Callable

import msgspec
import pytest

from shared.edges.redis import within
from shared.turns import TurnState
from tests.support.scene import Prompt, Scene
from tests.support.staging import Setting, fault

EXPIRING = Setting(workers=2, gateways=1, settings=(("TURN_DEADLINE_S", "12"),))
SMALL = Setting(workers=2, gateways=1, settings=(("SLOTS", "8"),))
"""Two running turns per guild."""
SMALL_CAP = 2


@fault("F33", quick=True)
@pytest.mark.parametrize("moment", ["queued", "running", "finished"])
async def test_a_turn_is_stopped(scene: Scene, moment: str):
    """A stop of a turn that is:"""
    first = await scene.ask(model="echo@40")
    second = await scene.ask(first.channel, model="echo@100")
    prompt, word = first, "finished"
    if moment == "queued":
        prompt, word = second, "cancelled"
    elif moment == "running":
        await scene.until_shown(first)
        word = "stopping"
    else:
        await scene.until_state(first, TurnState.DONE)
    if moment != "finished":
        prompt.may_end = frozenset({TurnState.CANCELLED})
        await scene.until_state(prompt, TurnState.QUEUED, TurnState.RUNNING)
    assert await scene.house.queue.cancel(prompt.turn_id) == word
    await scene.until_state(second, TurnState.DONE, TurnState.CANCELLED)


Change = Callable[[bytes], bytes]
UNREADABLE: dict[str, Change] = {
    "no JSON": lambda request: b"\x80\x04\x95 no JSON",
    "cut off": lambda request: request[:-20],
    "of a version to come": lambda request: request.replace(b"{", b'{"version":99,', 1),
    "of another shape": lambda request: msgspec.json.encode(
        msgspec.json.decode(request) | {"messages": "text where a list was"}
    ),
}
"""What another version may have put into the queue."""


async def ask_as(scene: Scene, change: Change) -> Prompt:
    """A turn whose request is written as another version writes it."""
    prompt = await scene.admit("echo@60")
    key, redis = scene.house.keys.turn(prompt.turn_id), scene.house.redis
    request: bytes = await within(redis.hget(key, "request"))
    await within(redis.hset(key, mapping={"request": change(request)}))
    return prompt


@fault("F37")
async def test_requests_that_nobody_can_read(scene: Scene):
    """Four requests of other versions wait: each ends with a row and a notice, and nobody dies."""
    async with scene.stopped(*scene.house.workers):
        for change in UNREADABLE.values():
            prompt = await ask_as(scene, change)
            prompt.may_end = frozenset({TurnState.FAILED})
            prompt.is_echoed = prompt.is_readable = False
        newer = await ask_as(
            scene, lambda request: request.replace(b"{", b'{"of_a_later_version":{"deep":[1]},', 1)
        )
    await scene.until_shown(newer, 3)
    await scene.quiet()
    for prompt in scene.prompts[:-1]:
        assert len(await scene.talk.shown(prompt.channel)) == 1


@fault("F35", on=EXPIRING)
async def test_a_turn_expires_at_the_head_of_its_lane(scene: Scene):
    """No worker for longer than a turn may wait: it is told so, and the lane goes on."""
    scene.silence_s = 30.0  # nobody is there to end it, and then the reapers' time of grace
    channel = await scene.channel()
    async with scene.stopped(*scene.house.workers):
        expired = await scene.ask(channel)
        expired.may_end = frozenset({TurnState.FAILED})
        await asyncio.sleep(12.5)
        answered = await scene.ask(channel, model="echo@200")
        await asyncio.sleep(0.5)
    await scene.until_shown(answered, 3)
    assert len(await scene.talk.shown(channel)) > len(await scene.texts(answered))  # a notice


@fault("P4", on=SMALL)
async def test_caps_of_guilds(scene: Scene):
    """Three guilds with twenty prompts in ten channels each: never more at once than may."""
    sampling = asyncio.create_task(scene.sample_caps(SMALL_CAP))
    channels = [await scene.channel(guild) for guild in range(1, 4) for _ in range(10)]
    await scene.ask_many(60, channels, model="echo@60", pause_s=0.01)
    scene.silence_s = 60.0  # the queue is longer than the fleet is wide, on purpose
    await scene.quiet()
    sampling.cancel()
    assert max(scene.peaks.values()) == SMALL_CAP


@fault("R4")
async def test_a_worker_dies_and_does_not_come_back(scene: Scene):
    """One of three workers is killed for good; a hundred more prompts are taken and answered."""
    lost = scene.house.workers.pop()
    scene.note(f"SIGKILL {lost.name}, for good")
    lost.kill()
    channels = [await scene.channel(guild) for guild in range(1, 21)]
    await scene.ask_many(100, channels, model="echo@100", pause_s=0.03)
    await scene.quiet()
    scene.house.add_worker()


@fault("R18")
async def test_a_dead_process_is_not_listed(scene: Scene):
    """One of three workers is killed for good: within 15 s nobody lists it any more."""
    lost = scene.house.workers.pop()
    pid = lost.pid
    scene.note(f"SIGKILL {lost.name}, for good")
    lost.kill()

    async def gone() -> bool:
        return pid not in [process.pid for process in await scene.house.records.processes()]

    scene.recovery_s = 15.0
    scene.recoveries_s.append(await scene.until(gone))
    scene.house.add_worker()
    await scene.ask()


@fault("R9")
async def test_the_load_is_what_there_is_to_do(scene: Scene):
    """With all workers stalled the load counts every prompt, from the first on; then it is 0."""
    begun_s = time.monotonic()
    async with scene.stopped(*scene.house.workers):
        for count in range(1, 8):
            await scene.ask(await scene.channel(count))

            async def counted(count: int = count) -> bool:
                return (await scene.house.records.load()).load == count

            await scene.until(counted, limit_s=5.0)
    scene.note(f"stalled for {time.monotonic() - begun_s:.1f} s")
    await scene.quiet()
    assert (await scene.house.records.load()).load == 0


@fault("R17")
async def test_a_queue_that_lost_its_ring(scene: Scene):
    """The keys that say who is next are evicted while turns wait: they are put right and run."""
    keys, redis = scene.house.keys, scene.house.redis
    async with scene.stopped(*scene.house.workers):
        prompts = [await scene.ask(await scene.channel(guild)) for guild in range(1, 5)]
        for prompt in prompts:
            await scene.until_state(prompt, TurnState.QUEUED)
        assert await redis.delete(keys.ring) == 1
    scene.silence_s = scene.recovery_s = 25.0
    scene.recoveries_s.append(await scene.until_state(prompts[0], TurnState.DONE))
    assert await scene.house.redis.exists(keys.ring) == 0  # all four were started

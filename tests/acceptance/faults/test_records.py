"""Faults of what is kept of failures: the database, its disk, the recorder; and replays of them."""

import asyncio
import resource
import time

import pytest

from ops.replay.turns import Change, Reason, Replays, admitted
from shared.keys import RECORDER_GROUP
from shared.turns import TurnState
from tests.support.aftermath import rows_of
from tests.support.house import Process
from tests.support.scene import Prompt, Scene
from tests.support.staging import Setting, fault

ON_POSTGRES = Setting(workers=2, gateways=1, has_postgres=True)
IN_A_FILE = Setting(workers=2, gateways=1)
CAUSE = "model_not_found"
"""Somebody must act on it, and nothing else of the deployment suffers from it."""
FAILING = 24
WELL = Change(model="echo@100", anyway=True)
"""The cause is gone: another model is asked."""


def recorder(scene: Scene) -> Process:
    assert scene.house.recorder is not None
    return scene.house.recorder


async def fail(scene: Scene, count: int = FAILING) -> list[Prompt]:
    """Turns that fail, each in a channel of its own, and as many beside them that do not."""
    failed = []
    for _ in range(count):
        prompt = await scene.admit(f"missing{scene.random.randrange(10**9)}")
        prompt.may_end = frozenset({TurnState.FAILED})
        prompt.is_echoed = False
        failed.append(prompt)
        await scene.admit("echo@200")
        await asyncio.sleep(scene.random.uniform(0, 0.1))
    return failed


async def until_ended(scene: Scene) -> float:
    """Waits for the end of every turn, whatever is recorded."""

    async def ended() -> bool:
        states = [await scene.house.records.state(prompt.turn_id) for prompt in scene.prompts]
        return not {TurnState.QUEUED, TurnState.RUNNING, None} & set(states)

    return await scene.until(ended)


async def told_once(scene: Scene, failed: list[Prompt]) -> None:
    """Each failure has its one row, once all is recorded."""
    await scene.quiet()
    rows = [await rows_of(scene, prompt.turn_id, CAUSE) for prompt in failed]
    assert rows == [1] * len(failed)


@fault("F39", on=ON_POSTGRES)
async def test_the_database_is_down(scene: Scene):
    """PostgreSQL ends under failing turns and comes back: no turn waits, each row comes once."""
    assert scene.postgres is not None
    early = await fail(scene, 4)
    scene.note("PostgreSQL ends")
    await asyncio.to_thread(scene.postgres.stop)
    failed = await fail(scene)
    scene.note(f"all turns had ended {await until_ended(scene):.1f} s after the last prompt")
    assert await scene.house.redis.xlen(scene.house.keys.errors) >= FAILING
    lines = len(scene.logged(recorder(scene)).splitlines())
    await asyncio.sleep(3)
    assert len(scene.logged(recorder(scene)).splitlines()) - lines < 15
    await asyncio.to_thread(scene.postgres.start)
    scene.note("PostgreSQL is back")
    await told_once(scene, early + failed)


@fault("F39", on=IN_A_FILE)
async def test_the_databases_disk_is_full(scene: Scene):
    """The recorder may write no file any more, for 5 s under failing turns: each row comes once."""
    early = await fail(scene, 2)
    await scene.quiet()
    infinite = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    scene.note("disk full")
    resource.prlimit(recorder(scene).pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
    failed = await fail(scene)
    await until_ended(scene)
    await asyncio.sleep(3)
    assert await scene.house.redis.xlen(scene.house.keys.errors) > 0
    resource.prlimit(recorder(scene).pid, resource.RLIMIT_FSIZE, infinite)
    scene.note("disk free")
    await told_once(scene, early + failed)


@fault("R2", on=IN_A_FILE)
async def test_a_recorder_of_another_name_never_comes_back(scene: Scene):
    """Another recorder has read the reports and is gone for ever: this one takes them over."""
    async with scene.stopped(recorder(scene)):
        failed = await fail(scene, 6)
        await until_ended(scene)
        errors, redis = scene.house.keys.errors, scene.house.redis
        taken = await redis.xreadgroup(RECORDER_GROUP, "recorder-elsewhere", {errors: ">"}, 1_000)
        scene.note(f"{sum(len(rows) for _, rows in taken)} entries are another's")
        assert taken
    await told_once(scene, failed)  # a minute later: another one may just be slow


@fault("F39", on=IN_A_FILE)
async def test_the_recorder_is_killed_again_and_again(scene: Scene):
    """SIGKILL of the recorder six times under failing turns: each row comes once."""
    failing = asyncio.create_task(fail(scene))
    for _ in range(6):
        await asyncio.sleep(scene.random.uniform(0.1, 1.0))
        await scene.kill(recorder(scene))
    await told_once(scene, await failing)


@fault("F39", on=IN_A_FILE)
async def test_the_recorder_stands_still(scene: Scene):
    """SIGSTOP of the recorder while the server is killed: what waits is in the file, and comes."""
    async with scene.stopped(recorder(scene)):
        failed = await fail(scene)
        await until_ended(scene)
        await scene.restart_server(0.5)
    await told_once(scene, failed)


async def replayed(scene: Scene, prompt: Prompt) -> Prompt:
    """The prompt of a replay, admitted by three people at once."""
    replays = Replays(scene.house.records, scene.house.queue, lambda: time.time_ns() // 1_000_000)
    seen = [await replays.examine(prompt.turn_id, WELL) for _ in range(3)]
    assert [one.reason for one in seen] == [None] * 3
    answers = await asyncio.gather(*(admitted(replays, one) for one in seen))
    assert sorted(answers) == ["accepted", "duplicate", "duplicate"]
    again = Prompt(seen[0].new_id, prompt.channel, prompt.parts)
    scene.prompts.append(again)
    assert (await replays.examine(prompt.turn_id, WELL)).reason is Reason.REPLAYED
    return again


@fault("F38", on=IN_A_FILE)
@pytest.mark.parametrize("deed", ["nothing else", "SIGKILL of its worker", "SIGKILL of the server"])
async def test_a_replay_while_a_new_turn_runs(scene: Scene, deed: str):
    """A failed turn is replayed by three while a new one runs in its channel; and besides:"""
    (old,) = await fail(scene, 1)
    await until_ended(scene)
    new = await scene.ask(old.channel, model="echo@20")
    await scene.until_shown(new, 1)
    again = await replayed(scene, old)
    assert await scene.house.records.state(again.turn_id) is TurnState.QUEUED
    if "worker" in deed:
        await scene.kill(await scene.holder(new))
    elif "server" in deed:
        await scene.restart_server(1.0)
    await scene.until_shown(again, 3)
    replies = await scene.talk.shown(old.channel)
    assert replies.index(new.parts[-1]) < replies.index(again.parts[0])
    await scene.quiet()
    later = await scene.house.records.state(f"{old.turn_id}.3")
    assert later is None


@fault("P8", on=ON_POSTGRES)
async def test_every_failure_can_be_replayed(scene: Scene):
    """Failures under kills of workers, recorder and database: each has its row and one replay."""
    assert scene.postgres is not None
    failing = asyncio.create_task(fail(scene))
    for _ in range(2):
        await asyncio.sleep(0.5)
        await scene.kill(scene.random.choice(scene.house.workers))
        await scene.kill(recorder(scene))
    await asyncio.to_thread(scene.postgres.stop)
    failed = await failing
    await asyncio.to_thread(scene.postgres.start)
    await until_ended(scene)
    for prompt in failed:
        await replayed(scene, prompt)
    await scene.quiet()
    for prompt in failed:
        assert await rows_of(scene, prompt.turn_id, CAUSE) >= 1

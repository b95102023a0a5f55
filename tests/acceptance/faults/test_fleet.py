"""Faults of many or quick turns: workers alone, short leases, scripted turns."""

import asyncio
import signal

import pytest

from shared.turns import TurnState
from tests.acceptance.faults.test_network import digest_of
from tests.support.bare_fleet import PROXIED, FleetScene
from tests.support.fleet_process import Options
from tests.support.staging import fault

SHORT = Options(url="", worker_id="", lease_ms=800, beat_s=0.25, reap_s=0.1, slots=20)
HASTY = Options(url="", worker_id="", lease_ms=50, beat_s=0.015, reap_s=0.01, slots=20)
BUSY = Options(url="", worker_id="", slots=20, guild_running=40)
CAPPED = Options(url="", worker_id="", slots=20, key_running=5)
CUT = Options(url=PROXIED, worker_id="", lease_ms=800, beat_s=0.25, reap_s=0.1, slots=20)
DRAINING = Options(url="", worker_id="", lease_ms=800, beat_s=0.25, reap_s=0.1, drain_s=8.0)
HURRIED = Options(url="", worker_id="", lease_ms=800, beat_s=0.25, reap_s=0.1, drain_s=0.05)
PATIENT = Options(url="", worker_id="", slots=100)


@fault("F30", on=BUSY)
async def test_a_busy_guild_and_a_hundred_quiet_ones(scene: FleetScene):
    """10,000 turns of one guild wait; a hundred other guilds' turns start within two rounds."""
    turn_s, busy = 0.4, 10_000
    for number in range(busy):
        await scene.send(f"1x{turn_s * 1000:.0f}", channel=1_000 + number, guild=1)
    await scene.fleet.start(4)
    await scene.until_running(40)
    quiet = []
    for number in range(100):
        quiet.append(await scene.send("1x50", channel=number, guild=100 + number))
        await asyncio.sleep(0.02)
    records = await asyncio.gather(*(waited(scene, turn_id) for turn_id in quiet))
    waits = sorted(records)
    scene.note(f"quiet guilds waited {waits[50]} ms, at most {waits[-1]} ms")
    assert waits[98] <= 2 * turn_s * 1000, waits
    for turn_id in list(scene.sent):  # the rest of the busy guild's would take minutes
        if turn_id not in quiet and await scene.records.state(turn_id) is TurnState.QUEUED:
            await scene.fleet.queue.cancel(turn_id)
    await scene.quiet()


async def waited(scene: FleetScene, turn_id: str) -> int:
    """How long a turn waited for its start, in milliseconds of the server's clock."""
    record = await scene.records.turn(turn_id)
    while record is None or record.claimed_ms is None:
        await asyncio.sleep(0.05)
        record = await scene.records.turn(turn_id)
    return record.claimed_ms - record.enqueued_ms


@fault("F31", on=CAPPED)
async def test_a_provider_key_at_its_cap(scene: FleetScene):
    """Sixty turns of a key that may run five; another key's turns do not wait for them."""
    await scene.fleet.start(2)
    sampling = asyncio.create_task(scene.sample_keys(CAPPED.key_running))
    for number in range(60):
        await scene.send("2x100", channel=number % 20, guild=number % 4, provider="openai")
    others = [
        await scene.send("1x20", channel=100 + number, guild=number % 4, provider="mistral")
        for number in range(5)
    ]
    waits = [await waited(scene, turn_id) for turn_id in others]
    await scene.quiet()
    sampling.cancel()
    assert max(waits) < 250, waits


@fault("F31", on=CAPPED)
async def test_a_provider_that_is_paused(scene: FleetScene):
    """A provider is paused under load: another one's turns do not wait, its own resume in order."""
    await scene.fleet.start(2)
    await scene.fleet.queue.pause("provider:openai")
    parked = [
        await scene.send("1x20", channel=number % 4, guild=number % 2, provider="openai")
        for number in range(24)
    ]
    others = [
        await scene.send("1x20", channel=100 + number, guild=number % 2, provider="mistral")
        for number in range(12)
    ]
    assert max([await waited(scene, turn_id) for turn_id in others]) < 500
    states = {await scene.records.state(turn_id) for turn_id in parked}
    assert states == {TurnState.QUEUED}
    await scene.fleet.queue.resume("provider:openai")


@fault("R1", on=CUT)
async def test_workers_die_in_the_middle_of_reaping(scene: FleetScene):
    """Whoever takes a dead worker's turns is killed before it hears so, eight times."""
    await scene.fleet.start(2)
    dead = 0

    def kill(_: bytes, answer: bytes) -> bool:
        nonlocal dead
        if answer.startswith((b"-", b"*0")) or dead >= 8:
            return False
        dead += 1
        for worker in scene.fleet.workers:
            worker.process.kill()
        return True

    scene.proxy.watch(digest_of("reap"), kill)
    for number in range(10):
        await scene.send("20x50", channel=number)
    await scene.until_running(10)
    for round_ in range(1, 9):
        scene.fleet.workers.pop(0).kill()
        async with asyncio.timeout(20):
            while dead < round_:
                await asyncio.sleep(0.01)
        while scene.fleet.workers:
            scene.fleet.workers.pop().close()
        await scene.fleet.start(2)
        await scene.send("20x50", channel=100 + round_)
        await asyncio.sleep(0.3)


@fault("R3", on=HASTY)
async def test_a_reaper_in_a_hurry(scene: FleetScene):
    """Leases of 50 ms, a look every 10 ms, 5,000 turns: only who held too long loses a turn."""
    await scene.fleet.start(2)
    for number in range(5_000):
        await scene.send("1x0", channel=number % 200, guild=number % 10)
    await scene.quiet()
    for turn_id in scene.sent:
        claimed_ms = 0
        for move in await scene.records.timeline(turn_id):
            if move.word == "claimed":
                claimed_ms = move.at_ms
            elif move.word == "crashed":
                assert move.at_ms - claimed_ms >= HASTY.lease_ms - 1, turn_id


@fault("R6", on=SHORT)
@pytest.mark.parametrize("script", ["80x100", "1x4000"])
async def test_a_turn_of_many_leases(scene: FleetScene, script: str):
    """A turn of ten leases that speaks steadily, or one that is silent for five: one attempt."""
    await scene.fleet.start(2)
    for number in range(4):
        await scene.send(script, channel=number)
    await scene.quiet()
    records = await scene.ended()
    assert [record.attempt for record in records.values()] == [1] * 4


@fault("R12", on=DRAINING)
async def test_a_drain_that_is_longer_than_a_lease(scene: FleetScene):
    """SIGTERM with turns of five leases: they end in the worker that has them."""
    (worker,) = await scene.fleet.start()
    for number in range(4):
        await scene.send("40x100", channel=number)
    await scene.until_running(4)
    scene.note("SIGTERM")
    await scene.fleet.start()
    worker.signal(signal.SIGTERM)
    assert await worker.exit_code() == 0
    scene.fleet.workers.remove(worker)
    worker.close()
    records = await scene.ended()
    assert [record.attempt for record in records.values()] == [1] * 4


@fault("R14", on=HURRIED)
async def test_ten_restarts_during_one_turn(scene: FleetScene):
    """Each restart hands the turn back and none counts as a crash."""
    await scene.fleet.start()
    await scene.send("100x100", channel=1)  # longer than a busy machine starts a process
    for _ in range(10):
        await scene.until_running(1)
        await asyncio.sleep(0.3)
        (worker,) = scene.fleet.workers
        await scene.fleet.start()
        worker.signal(signal.SIGTERM)
        assert await worker.exit_code() == 0
        scene.fleet.workers.remove(worker)
        worker.close()
    await scene.quiet()
    (record,) = (await scene.ended()).values()
    assert (record.state, record.crashes) == (TurnState.DONE, 0)
    assert record.attempt > 10


@fault("R15", on=PATIENT)
async def test_long_turns_are_no_storm_of_calls(scene: FleetScene):
    """Eight workers, 500 turns that run and say nothing: at most ten calls a second and worker."""
    await scene.fleet.start(8)
    for number in range(500):
        await scene.send("hang", channel=number, guild=number % 50)
    await scene.until_running(500)
    calls = await calls_within(scene, 10.0)
    scene.note(f"{calls / 10:.0f} calls a second")
    assert calls / 10 <= 10 * 8
    for turn_id in scene.sent:
        await scene.fleet.queue.cancel(turn_id)
    await scene.quiet()


async def calls_within(scene: FleetScene, seconds: float) -> int:
    """What clients sent within a time; what scripts call themselves does not count."""
    count = 0
    async with scene.fleet.redis.monitor() as monitor:
        try:
            async with asyncio.timeout(seconds):
                while True:
                    said = await monitor.next_command()
                    count += said["client_type"] != "lua"
        except TimeoutError:
            return count

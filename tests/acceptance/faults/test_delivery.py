"""Faults of delivery: gateways that die or stall, a Discord that refuses, a server that forgets."""

import asyncio
import shutil
import time

import pytest

from ops.rehearsal.discord.faults import Fault, Stage
from ops.rehearsal.discord.server import FakeDiscord
from shared.edges.queue import Admission
from shared.i18n import load_texts
from shared.turns import TurnState
from tests.support.fronts import DiscordTalk, paragraphs
from tests.support.house import Process
from tests.support.scene import Scene
from tests.support.staging import Setting, fault
from tests.support.turns import turn

DISCORD = Setting(workers=2, front="discord", settings=(("MODEL", "echo@60"),))
ALONE = Setting(workers=2, gateways=1, front="discord", settings=(("MODEL", "echo@60"),))
"""One gateway, which leads every partition."""
NARROW = Setting(
    workers=2, gateways=1, front="discord", settings=(("MODEL", "echo@60"), ("GUILD_DEPTH", "1"))
)
"""One turn of a guild at a time: the next one hears that there is no room."""
LEAD_S = 3.0
"""The lease of the gateway that delivers a partition."""


def discord_of(scene: Scene) -> FakeDiscord:
    assert isinstance(scene.talk, DiscordTalk)
    return scene.talk.discord


async def leader(scene: Scene, channel: int) -> Process:
    """The gateway that delivers a channel's partition: one that lives."""
    keys, found = scene.house.keys, list[Process]()

    async def is_led() -> bool:
        owner = await scene.house.redis.get(keys.leader(keys.partition_of(channel))) or b""
        found[:] = [g for g in scene.house.gateways if f"-{g.pid}-".encode() in owner]
        return bool(found)

    await scene.until(is_led)
    return found[0]


@fault("F24", on=DISCORD)
@pytest.mark.parametrize("stage", [Stage.BEFORE, Stage.AFTER])
async def test_a_gateway_dies_while_it_sends(scene: Scene, stage: Stage):
    """SIGKILL of the leading gateway while it sends; Discord has not, or has, the message:"""
    channel = await scene.channel()
    gateway = await leader(scene, channel)
    discord_of(scene).faults.add(Fault(stage=stage, delay_s=20.0, channel_id=channel))
    prompt = await scene.ask(channel)
    if stage is Stage.AFTER:
        await scene.until_shown(prompt)
    else:
        await scene.until_state(prompt, TurnState.DONE)
        await asyncio.sleep(0.3)
    await scene.kill(gateway)
    discord_of(scene).faults.clear()
    scene.recoveries_s.append(await scene.until_shown(prompt, 3))
    scene.recovery_s = LEAD_S + 10.0
    assert await scene.texts(prompt) == list(prompt.parts)


@fault("F24", on=DISCORD)
async def test_gateways_are_killed_again_and_again(scene: Scene):
    """SIGKILL of the leading gateway six times under load."""
    channels = [await scene.channel(guild) for guild in range(1, 9)]
    asking = asyncio.create_task(scene.ask_many(48, channels, pause_s=0.25))
    for _ in range(6):
        await asyncio.sleep(scene.random.uniform(0.5, 3))
        await scene.kill(await leader(scene, scene.random.choice(channels)))
    await asking
    scene.silence_s = 30.0  # both may be starting, which costs seconds of two cores


@fault("F24", "R2", on=DISCORD)
async def test_other_gateways_take_what_the_killed_ones_had_read(scene: Scene):
    """Both gateways hang in Discord with all they have read, and are killed: others deliver it."""
    channels = [await scene.channel(guild) for guild in range(1, 5)]
    for channel in channels:
        discord_of(scene).faults.add(
            Fault(stage=Stage.BEFORE, delay_s=30.0, channel_id=channel), times=100
        )
    prompts = [await scene.ask(channel) for channel in channels for _ in range(2)]
    for prompt in prompts:
        await scene.until_state(prompt, TurnState.DONE)
    await asyncio.sleep(1)  # every segment is read by now, and none is acknowledged
    scene.note("SIGKILL of all gateways")
    for gateway in scene.house.gateways:
        gateway.kill()
    discord_of(scene).faults.clear()
    for gateway in scene.house.gateways:
        await asyncio.to_thread(gateway.start)
    taken_s = await scene.until_shown(prompts[-1], 3)
    scene.note(f"all is shown {taken_s:.1f} s after both were started")
    scene.silence_s = 30.0  # nobody was there to show a sign


@fault("F26")
async def test_the_leading_gateway_stalls_and_wakes(scene: Scene):
    """SIGSTOP of the leading gateway beyond its lease: the other delivers, and none twice."""
    channel = await scene.channel()
    prompts = [await scene.ask(channel, model="echo@20", parts=4)]
    await scene.until_shown(prompts[0])
    async with scene.stopped(await leader(scene, channel)):
        prompts.append(await scene.ask(channel, model="echo@100"))
        scene.recoveries_s.append(await scene.until_shown(prompts[0], 4))
        scene.recovery_s = LEAD_S + 8.0
        await asyncio.sleep(1)
    prompts.append(await scene.ask(channel, model="echo@100"))
    await scene.until_shown(prompts[2], 3)


@fault("F25")
async def test_no_gateway_for_a_while(scene: Scene):
    """No gateway for 30 s under load: what is said waits, and all is delivered in order."""
    channels = [await scene.channel(guild) for guild in range(1, 13)]
    for gateway in scene.house.gateways:
        gateway.kill()
    scene.note("SIGKILL of all gateways")
    for _ in range(5):
        for channel in channels:
            await scene.admit("echo@200", channel=channel)
    await asyncio.sleep(25)
    for gateway in scene.house.gateways:
        await asyncio.to_thread(gateway.start)
    scene.note("gateways are back")
    await scene.quiet()


DISCORD_FAULTS = {
    "500": Fault(status=500),
    "502": Fault(status=502, is_html=True),
    "429": Fault(retry_after_s=1.0),
    "a cut": Fault(drop=True),
    "a cut after the deed": Fault(stage=Stage.AFTER, drop=True),
    "500 after the deed": Fault(stage=Stage.AFTER, status=500),
    "3 s of delay": Fault(delay_s=3.0),
}


@fault("F27", "R13", on=DISCORD)
@pytest.mark.parametrize("trouble", DISCORD_FAULTS)
async def test_discord_is_troubled(scene: Scene, trouble: str):
    """Ten posts meet:"""
    channels = [await scene.channel(guild) for guild in range(1, 5)]
    discord_of(scene).faults.add(DISCORD_FAULTS[trouble], times=10)
    for number in range(12):
        await scene.ask(channels[number % 4])
    scene.silence_s = 20.0
    await scene.quiet()
    discord_of(scene).faults.clear()


@fault("F32", on=DISCORD)
async def test_discord_says_everything_twice(scene: Scene):
    """Each prompt's event comes twice, and the session is cut and resumed: one turn of each."""
    discord = discord_of(scene)
    for _ in range(8):
        prompt = await scene.ask(await scene.channel())
        await discord.announce(discord.world.message(prompt.channel, int(prompt.turn_id[1:])))
        discord.sockets.cut_all()
        await discord.announce(discord.world.message(prompt.channel, int(prompt.turn_id[1:])))
        await scene.until_shown(prompt, 3)
        assert await scene.texts(prompt) == list(prompt.parts)


@fault("F17", on=DISCORD)
async def test_a_server_without_memory(scene: Scene):
    """`maxmemory` is reached: running turns end, new prompts hear that the bot is busy."""
    running = await scene.ask(parts=6)
    await scene.until_state(running, TurnState.RUNNING)
    await scene.until_shown(running)
    scene.note("maxmemory 1")
    await scene.house.redis.config_set("maxmemory", "1")
    channel = await scene.channel()
    await discord_of(scene).say(
        channel, discord_of(scene).world.add_user("bob"), discord_of(scene).mention("hello")
    )

    async def told() -> bool:
        return len(await scene.talk.shown(channel)) == 1

    await scene.until(told, limit_s=30.0)
    await asyncio.sleep(2)
    await scene.house.redis.config_set("maxmemory", "0")
    scene.note("maxmemory 0")
    await scene.until_shown(running, 6)
    following = await scene.ask(running.channel)
    await scene.until_shown(following, 3)


async def forget_everything(scene: Scene, how: str) -> None:
    """The server is empty: it lost its file, or somebody flushed it."""
    scene.note(how)
    if how == "FLUSHALL":
        await scene.house.redis.flushall()
        return
    scene.server.kill()
    shutil.rmtree(scene.server.directory / "appendonlydir")
    await asyncio.to_thread(scene.server.start)


async def forgotten(scene: Scene, how: str) -> None:
    """Whoever waits has a whole reply, no text stands twice, and all works on."""
    busy = await scene.channel()
    long_ago = [await scene.ask(busy, words=60) for _ in range(3)]
    await asyncio.sleep(11)  # the second one runs, the third one waits
    waiting = [await scene.ask(await scene.channel(n)) for n in range(6)]
    await scene.until_shown(waiting[0])
    scene.prompts.clear()  # nobody knows these turns any more: what counts is what is shown
    begun_s = time.monotonic()
    await forget_everything(scene, how)
    for prompt in (*waiting, long_ago[-1]):
        await scene.until_shown(prompt, 3)
    await asyncio.sleep(8)  # whatever comes a second time comes within a lease
    for prompts in (long_ago, *([prompt] for prompt in waiting)):
        shown = paragraphs(await scene.talk.shown(prompts[0].channel))
        due = [part for prompt in prompts for part in prompt.parts]
        assert [text for text in shown if text in due] == due, shown
    seconds = time.monotonic() - begun_s
    for process in scene.house.processes[1:]:
        lines = len(scene.logged(process).splitlines())
        assert lines < 20 + 5 * seconds, f"{process.name} wrote {lines} lines"
    following = await scene.ask(waiting[0].channel)
    await scene.until_shown(following, 3)


HOWS = ["killed, and its file is gone", "FLUSHALL"]


@fault("F15", "R10", "R17", on=ALONE)
@pytest.mark.parametrize("how", HOWS)
async def test_a_server_that_forgets_everything(scene: Scene, how: str):
    """The server is empty: whoever waits has a whole reply all the same, and all works on;"""
    await forgotten(scene, how)


@fault("F15", on=DISCORD)
@pytest.mark.parametrize("how", HOWS)
async def test_two_gateways_on_a_server_that_forgets_everything(scene: Scene, how: str):
    """The same with two gateways: who showed a text goes on, and not the other;"""
    for _ in range(2):  # which of them is first is a matter of chance
        await forgotten(scene, how)


@fault("F15", on=NARROW)
async def test_who_was_forgotten_and_finds_no_room_is_told_so(scene: Scene):
    """The server is empty, and full again before the turn is given once more: a notice says so."""
    queue, records = scene.house.queue, scene.house.records
    async with scene.stopped(*scene.house.workers):
        lost = await scene.ask()
        await scene.until_state(lost, TurnState.QUEUED)
        await asyncio.sleep(1)  # the gateway has seen the server since
        record = await records.turn(lost.turn_id)
        assert record is not None
        await scene.house.redis.flushall()
        first = turn("l77", channel=77, guild=record.route.guild_id)
        assert await queue.admit(first) is Admission.ACCEPTED
        scene.prompts.clear()  # nobody knows it any more
        scene.recovery_s = 5.0

        async def told() -> bool:
            return len(await scene.talk.shown(lost.channel)) == 1

        scene.recoveries_s.append(await scene.until(told, limit_s=30.0))
    (notice,) = await scene.talk.shown(lost.channel)
    assert notice == load_texts().text("notice.guild_busy")

    async def ended() -> bool:
        return await records.state("l77") is TurnState.DONE

    await scene.until(ended)
    await scene.until_shown(await scene.ask(lost.channel), 3)

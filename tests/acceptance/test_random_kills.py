"""SIGKILL and SIGSTOP at random moments, of workers, gateways and server: no reply suffers.

The shape is Jepsen's: people talk, a nemesis kills and stalls, and when all is quiet one checker
reads what is there. A process that was stalled for longer than its lease wakes as a zombie: what it
had in hand is somebody else's by then. Promises, after the failure suite's numbers:

- P1  every accepted turn has exactly one end, and the channel shows exactly one reply to it;
- P2  a reply is the segments of the last attempt, each once, in order;
- P3  the turns of a channel run one after the other, in the order of their prompts;
- P5  afterwards nothing is left: no lease, lane, running count, guild or out entry;
- P6  no process ends that nobody killed, but one that starts while the server is away.
"""

import asyncio
import contextlib
import itertools
import os
import random
import signal
import time
from collections.abc import AsyncIterator

import pytest
from redis.exceptions import RedisError

from shared.edges.local_channel import LocalMessage, local_turn_id
from shared.edges.records import TimelineEntry, TurnRecord
from shared.errors import StoreError
from shared.turns import TRANSITIONS, Target, TurnState
from tests.support.house import House, Process, house
from tests.support.servers import RedisServer, flavors, running_server

TURNS = int(os.environ.get("TURNFLEET_TEST_KILL_TURNS", "200"))
CHANNELS = 40
GUILDS = 8
PAUSE_S = (0.8, 2.5)
"""Between two deeds of the nemesis; a killed worker's turns take a lease of 6 s to come back."""
DOWN_S = (0.05, 1.0)
STALL_S = (0.5, 10.0)
"""From a hiccup to beyond the leases of gateways (3 s) and workers (6 s)."""
LIMIT_S = 240.0
STALL_SHARE = 0.4
"""Of the deeds; the rest kills."""
MOST_CRASHES = 3
NO_START = 2
"""The exit code of a process that refuses to start: it found no server."""
WITHOUT_TTL = ("out:", "dead", "failed", "totals", "wake", "errors", "buried", "processes")
"""Keys that live on when all is quiet; none of them grows without a bound."""
TARGET = Target(provider="rehearsal", model="echo@60")


def paragraphs(number: int) -> list[str]:
    """The reply that is asked for: three messages that no other turn has."""
    return [
        f"Turn {number} begins with this paragraph.",
        f"The second paragraph of turn {number} is a little longer than the first one was.",
        f"Turn {number} ends here.",
    ]


class Nemesis:
    """Kills and stalls what it likes, and brings it back. Its deeds are printed with the seed."""

    def __init__(self, running: House, server: RedisServer, rng: random.Random) -> None:
        self._house = running
        self._server = server
        self._rng = rng
        self.began_s = time.monotonic()
        self.deeds: list[str] = []

    async def run(self, quiet: asyncio.Event) -> None:
        """Returns once all that was stalled runs again."""
        async with asyncio.TaskGroup() as stalls:
            while not quiet.is_set():
                await asyncio.sleep(self._rng.uniform(*PAUSE_S))
                if quiet.is_set():
                    return
                victim = self._victim()
                if self._rng.random() >= STALL_SHARE:
                    await self._kill(victim)
                elif victim is self._server:  # nobody can start meanwhile
                    await self._stall(victim, self._rng.uniform(*STALL_S))
                else:
                    stalls.create_task(self._stall(victim, self._rng.uniform(*STALL_S)))

    def _victim(self) -> Process | RedisServer:
        kind = self._rng.choices(["worker", "gateway", "server"], weights=[5, 3, 2])[0]
        match kind:
            case "worker":
                return self._rng.choice(self._house.workers)
            case "gateway":
                return self._rng.choice(self._house.gateways)
            case _:
                return self._server

    def _note(self, deed: str, victim: Process | RedisServer) -> None:
        name = getattr(victim, "name", "server")
        self.deeds.append(f"{time.monotonic() - self.began_s:7.2f} s  {deed} {name}")

    async def _kill(self, victim: Process | RedisServer) -> None:
        self._note("SIGKILL", victim)
        victim.kill()
        await asyncio.sleep(self._rng.uniform(*DOWN_S))
        await asyncio.to_thread(victim.start)

    async def _stall(self, victim: Process | RedisServer, seconds: float) -> None:
        pid = victim.pid
        self._note(f"SIGSTOP for {seconds:.2f} s", victim)
        victim.signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        with contextlib.suppress(ProcessLookupError):  # killed while it was stalled
            os.kill(pid, signal.SIGCONT)


async def post(running: House, channel: int, text: str) -> None:
    """Posts a prompt, again while the server is away: it may then stand there twice."""
    guild = 1 + channel % GUILDS
    while True:
        try:
            await running.channel.say(channel, text, user_id=9, guild_id=guild, target=TARGET)
        except (RedisError, StoreError, OSError):
            await asyncio.sleep(0.1)
        else:
            return


async def talk(running: House, rng: random.Random) -> None:
    """Posts every prompt, spread over the first seconds."""
    for number in range(TURNS):
        await post(running, 1 + number % CHANNELS, "\n\n".join(paragraphs(number)))
        await asyncio.sleep(rng.uniform(0.0, 0.2))


async def prompts_of(running: House) -> dict[int, list[LocalMessage]]:
    """What people said, by channel: the truth that the replies are held against."""
    return {
        channel: [m for m in await running.channel.messages(channel) if not m.is_bot]
        for channel in range(1, CHANNELS + 1)
    }


async def all_ended(running: House, asked: dict[int, list[LocalMessage]]) -> None:
    """Waits until every turn has its end and nothing is on its way any more."""
    waiting = {local_turn_id(prompt.id) for prompts in asked.values() for prompt in prompts}
    async with asyncio.timeout(LIMIT_S):
        while waiting:
            for process in running.processes:
                process.look()
            try:
                for turn_id in list(waiting):
                    state = await running.records.state(turn_id)
                    if state is not None and not TRANSITIONS[state]:
                        waiting.discard(turn_id)
                for number in range(running.keys.partitions):
                    if await running.redis.xlen(running.keys.out(number)):
                        waiting.add("out")
                        break
                else:
                    waiting.discard("out")
            except (RedisError, StoreError, OSError):
                pass
            await asyncio.sleep(0.2)


async def check_channel(running: House, channel: int, prompts: list[LocalMessage]) -> list[str]:
    """P1, P2 and P3 of one channel; gives what is wrong."""
    wrong: list[str] = []
    messages = await running.channel.messages(channel)
    shown = [m.text for m in messages if m.is_bot and not m.is_notice]
    expected: list[str] = []
    spans: list[tuple[int, int, str]] = []
    for prompt in prompts:
        turn_id = local_turn_id(prompt.id)
        record = await running.records.turn(turn_id)
        assert record is not None, f"the record of {turn_id} is gone"
        timeline = await running.records.timeline(turn_id)
        wrong += check_end(turn_id, record, timeline)
        if record.state is TurnState.DONE:
            expected += prompt.text.split("\n\n")
        spans.append(span_of(timeline, turn_id))
    if shown != expected:
        notices = [m.text for m in messages if m.is_notice]
        wrong.append(f"channel {channel} shows {shown}, not {expected}; notices: {notices}")
    for (_, ended, one), (begun, _, other) in itertools.pairwise(spans):
        if begun < ended:
            wrong.append(f"{other} began before {one} had ended")
    return wrong


def check_end(turn_id: str, record: TurnRecord, timeline: list[TimelineEntry]) -> list[str]:
    ends = [entry.word for entry in timeline if entry.word in set(TurnState) - {"queued"}]
    ends = [word for word in ends if not TRANSITIONS[TurnState(word)]]
    if len(ends) != 1:
        return [f"{turn_id} ended {len(ends)} times: {ends}"]
    if record.state is not TurnState.DONE and record.crashes < MOST_CRASHES:
        return [f"{turn_id} is {record.state} after {record.crashes} crashes"]
    return []


def span_of(timeline: list[TimelineEntry], turn_id: str) -> tuple[int, int, str]:
    claims = [entry.at_ms for entry in timeline if entry.word == "claimed"]
    return claims[0], timeline[-1].at_ms, turn_id


async def immortal(running: House) -> AsyncIterator[str]:
    """Keys that would live for ever, beside those that are meant to."""
    async for key in running.redis.scan_iter("*"):
        name = key.decode()
        own = name.removeprefix(running.keys.prefix)
        if not own.startswith(WITHOUT_TTL) and await running.redis.pttl(key) == -1:
            yield f"{name} without an end of life"


async def left_over(running: House) -> list[str]:
    """P5: what should be gone by now."""
    keys, redis = running.keys, running.redis
    left = [name for name in (keys.leases, keys.ring) if await redis.zcard(name)]
    for kind in ("lane:", "guild:", "parked:"):
        left += [key.decode() async for key in redis.scan_iter(f"{keys.prefix}{kind}*")]
    for number in range(keys.partitions):
        if await redis.xlen(keys.out(number)):
            left.append(keys.out(number))
    left += [name async for name in immortal(running)]
    load = await running.records.load()
    return left + ([f"load {load}"] if load.load else [])


@pytest.mark.slow
@pytest.mark.parametrize("flavor", flavors())
async def test_whatever_is_killed_each_channel_ends_with_its_replies(flavor: str):
    seed = int(os.environ.get("TURNFLEET_TEST_KILL_SEED", str(random.randrange(2**32))))
    rng = random.Random(seed)
    with running_server(flavor) as server:
        async with house(server.url, workers=3, gateways=2, GUILD_DEPTH="1000") as running:
            nemesis = Nemesis(running, server, rng)
            quiet, wrong = asyncio.Event(), ["nothing was checked"]
            killing = asyncio.create_task(nemesis.run(quiet), name="nemesis")
            await talk(running, rng)
            quiet.set()
            await killing
            try:
                asked = await prompts_of(running)
                assert sum(map(len, asked.values())) >= TURNS
                await all_ended(running, asked)
                wrong = [
                    line
                    for channel, prompts in asked.items()
                    for line in await check_channel(running, channel, prompts)
                ]
                wrong += [f"left over: {name}" for name in await left_over(running)]
                exits = [
                    code for p in running.processes for code in p.unexpected if code != NO_START
                ]
            finally:
                history = "\n".join([f"seed {seed} on {flavor}", *nemesis.deeds, *wrong])
                print(history)  # noqa: T201 - the history of a failure, beside the seed
            assert wrong == []
            assert exits == []

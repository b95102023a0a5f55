"""What one turn costs the server: commands by who sent them, and CPU time.

Comes in: how many turns. Goes out: commands per turn of admission and worker, beside arq's own, of
the gateway's delivery, and of the local channel, which Discord has in place of Redis. A whole house
runs; every client's commands are read with MONITOR, what scripts call themselves left out.
"""

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from redis.asyncio import Redis

from shared.edges.redis import connect
from shared.edges.scripting import source_of
from shared.turns import TRANSITIONS, Target
from tests.support.house import House, house
from tests.support.servers import running_server

CHANNELS = 20
MODEL = "echo@40"
PARAGRAPHS = 6
BEAT_SHARE = 0.1
"""Beats of a second of a turn, in the goal: one every two seconds, shared by many turns."""
OWN = {"admit": "turn", "claim": "turn", "append": "turn", "finish": "turn", "beat": "turn"}
DELIVERY = {"journal", "ack", "lead"}
WATCHERS = {"HGET t", "INFO", "MONITOR"}
"""What this measurement itself asks."""


def digests() -> dict[str, str]:
    """Script names by digest."""
    folder = files("shared.edges") / "scripts"
    names = [path.name.removesuffix(".lua") for path in folder.iterdir()]
    return {
        hashlib.sha1(source_of(name).encode(), usedforsecurity=False).hexdigest(): name
        for name in names
        if name.isidentifier()
    }


def word_of(command: str, known: dict[str, str]) -> str:
    """A command in short: the script's name, or the command with the kind of its first key."""
    parts = command.split(" ")
    if parts[0].upper() == "EVALSHA":
        return known.get(parts[1], "?")
    name = parts[0].upper()
    if name in ("MULTI", "EXEC"):
        return name
    key = next((part for part in parts[1:] if ":" in part), "")
    kind = "arq" if key.startswith("arq:") else key.rpartition("}:")[2].partition(":")[0]
    return f"{name} {kind}".strip()


async def listen(redis: Redis, counted: Counter[str]) -> None:
    """Counts every command that clients send, until it is cancelled."""
    known = digests()
    async with redis.monitor() as monitor:
        while True:
            said: Any = await monitor.next_command()
            if said["client_type"] != "lua":
                counted[word_of(said["command"], known)] += 1


async def talk(home: House, turns: int) -> None:
    """Prompts in channels of their own guilds, and their ends."""
    text = "\n\n".join(f"Paragraph {n} is about as long as one is." for n in range(PARAGRAPHS))
    target = Target(provider="rehearsal", model=MODEL)
    asked = []
    for number in range(turns):
        channel = 1 + number % CHANNELS
        said = await home.channel.say(channel, text, guild_id=channel, target=target)
        asked.append(f"l{said}")
        await asyncio.sleep(0.05)
    while asked:
        state = await home.records.state(asked[-1])
        if state is not None and not TRANSITIONS[state]:
            asked.pop()
        else:
            await asyncio.sleep(0.2)


def groups(counted: Counter[str]) -> Iterator[tuple[str, int]]:
    """Each command's group: arq's own, ours, the delivery's, the front's, all other upkeep."""
    for word, count in counted.items():
        if "arq" in word or word in ("MULTI", "EXEC"):
            yield "arq", count
        elif word.startswith("local") or "loc" in word.split(" ")[-1]:
            yield "front", count
        elif word in DELIVERY or word.endswith(" out") or word.startswith("HGETALL j"):
            yield "delivery", count
        elif word in WATCHERS:
            yield "watching", count
        elif word in OWN or word.startswith("BLPOP"):
            yield "turn", count
        else:
            yield "upkeep", count


async def measured(turns: int) -> tuple[Counter[str], Counter[str], float, float, int]:
    """Commands by word and by group, CPU seconds of the server, seconds, segments."""
    with running_server("redis", appendfsync="everysec") as server:
        async with house(server.url, workers=1, gateways=1, GUILD_DEPTH="1000") as home:
            counted: Counter[str] = Counter()
            own = connect(server.url)
            listening = asyncio.create_task(listen(own, counted), name="monitor")
            before: Any = await home.redis.info("cpu")
            begun_s = time.monotonic()
            await talk(home, turns)
            seconds = time.monotonic() - begun_s
            after: Any = await home.redis.info("cpu")
            listening.cancel()
            await asyncio.wait([listening])
            await own.aclose()
    spent = sum(after[name] - before[name] for name in ("used_cpu_sys", "used_cpu_user"))
    by_group: Counter[str] = Counter()
    for group, count in groups(counted):
        by_group[group] += count
    return counted, by_group, spent, seconds, counted["append"]


def run(*, turns: int) -> bool:
    """Measures and prints; whether ours beside arq's own stays within the goal."""
    counted, by_group, spent, seconds, segments = asyncio.run(measured(turns))
    k = segments / turns
    lasts_s = k * 11 / 40 + 0.5  # eleven tokens a paragraph, forty a second
    goal = 6 + k + BEAT_SHARE * lasts_s
    ours = by_group["turn"] / turns
    print(f"{turns} turns of {k:.1f} segments in {seconds:.0f} s, about {lasts_s:.1f} s each")
    for group, count in sorted(by_group.items()):
        print(f"{group:9} {count / turns:6.1f} commands a turn")
    common = ", ".join(f"{word} {count / turns:.1f}" for word, count in counted.most_common(24))
    print(f"by command: {common}")
    print(f"admission and worker: {ours:.1f}, the goal is at most {goal:.1f}")
    print(
        f"server CPU: {spent * 1e6 / turns:.0f} us a turn, MONITOR and the local channel included"
    )
    return ours <= goal

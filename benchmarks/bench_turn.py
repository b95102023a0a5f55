"""The whole turn: from a mention in Discord to the reply in Discord, beside the bots of today.

Comes in: nothing but the machine. Goes out: for 1, 50, 100 and 200 turns at once, each at 50 tokens
a second, what is added between the provider's write and Discord's receipt, CPU by process, memory
per stream, Redis commands per turn; with 1, 2 and 4 workers. Beside it, over the same provider and
the same Discord, a discord.py bot with the openai SDK, and one with litellm (`make rivals`).

Run: `python -m benchmarks.bench_turn [--quick] [--alike] [--json FILE]`.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.fleet.commands import listen
from benchmarks.turn_stage import LIMIT_S, Level, Pids, Stage, open_discord, until
from ops.rehearsal.scenarios import Say, load_scenarios
from shared.edges.redis import connect
from tests.support.house import ROOT, House, Process, house
from tests.support.servers import running_server

MODEL = "essay@50"
LEVELS = (1, 50, 100, 200)
WORKERS = (1, 2, 4)
QUICK_LEVELS, QUICK_WORKERS = (1, 20), (2,)
RIVALS = ("openai", "litellm")
AGGREGATED = "2 workers, aggregated"
RIVALS_PYTHON = Path(os.environ.get("TURNFLEET_BENCH_RIVALS", ROOT / ".venv-rivals")) / "bin/python"
GATE_MEDIAN_MS, GATE_P99_MS, TIMED_TURNS = 15.0, 50.0, 100
"""A reader notices nothing below a tenth of a second. At 100 turns provider, Discord and fleet take
half of two cores; on slower ones more, and then it is missed (docs/decisions/0019)."""
GATE_LITELLM, GATE_TURNS = 3.0, 100
"""How much less CPU per 1,000 tokens than a bot with litellm, at so many turns at once."""

Results = dict[str, list[Level]]


def essay() -> str:
    """What the provider says."""
    beats = load_scenarios()["essay"].beats
    return "".join(beat.text for beat in beats if isinstance(beat, Say))


async def ours(workers: int, levels: Sequence[int], mode: str = "paragraph") -> list[Level]:
    """All levels through gateway, Redis and so many workers.

    In the mode `aggregated` a reply is one message, as the rivals send it: like beside like.
    """
    with running_server("redis", appendfsync="everysec") as server:
        async with open_discord(max(levels)) as (discord, channels):
            settings: Any = {
                "FRONT": "discord",
                "DISCORD_TOKEN": discord.token,
                "DISCORD_REST_URL": discord.rest_url,
                "DISCORD_REQUESTS_PER_S": "100000",
                "MODEL": MODEL,
                "DELIVERY_MODE": mode,
                "SLOTS": "250",
                "ALLOW_UNSAFE_REDIS": "true",
            }
            async with house(server.url, workers=workers, **settings) as running:
                url = (running.home / "rehearsal.url").read_text().strip()
                assert running.rehearsal is not None
                stage = Stage(discord, url, essay(), running.rehearsal.pid)
                await stage.is_joined()
                await stage.play(1, channels, {})  # imports, first connections
                pids = _pids(running, server.pid)
                found = [await stage.play(turns, channels, pids) for turns in levels]
                counted = found[min(1, len(found) - 1)]
                async with _counting(server.url) as seen:
                    await stage.play(counted.turns, channels, pids)
                counted.commands = seen.total()
                await stage.aclose()
    return found


async def rival(sdk: str, levels: Sequence[int]) -> list[Level]:
    """All levels through a bot of one process."""
    found: list[Level] = []
    async with open_discord(max(levels)) as (discord, channels), _rehearsal() as (url, provider):
        words = [sdk, discord.rest_url, discord.socket_url, discord.token, url, MODEL]
        bot = await asyncio.create_subprocess_exec(
            RIVALS_PYTHON,
            ROOT / "benchmarks" / "turn_bot.py",
            *words,
            env=os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            stage = Stage(discord, url, essay(), provider)
            await stage.is_joined()
            await stage.play(1, channels, {})
            pids = {"bot": [bot.pid]}
            for turns in levels:
                try:
                    found.append(await stage.play(turns, channels, pids))  # see below
                except TimeoutError:
                    print(f"{sdk}: {turns} turns at once were not answered in {LIMIT_S:.0f} s")
                    break
            await stage.aclose()
        finally:
            bot.kill()
            await bot.wait()
    return found


@asynccontextmanager
async def _rehearsal() -> AsyncIterator[tuple[str, int]]:
    with tempfile.TemporaryDirectory(prefix="tf-bench-") as home:
        ready = Path(home) / "url"
        words = ["ops.rehearsal", "--ready-file", str(ready)]
        process = Process("rehearsal", words, os.environ, Path(home))
        process.start()
        try:
            await until(ready.exists)
            yield ready.read_text().strip(), process.pid
        finally:
            process.kill()


def _pids(running: House, server: int) -> Pids:
    return {
        "gateway": [process.pid for process in running.gateways],
        "workers": [process.pid for process in running.workers],
        "recorder": [running.recorder.pid] if running.recorder else [],
        "redis": [server],
    }


@asynccontextmanager
async def _counting(url: str) -> AsyncIterator[Counter[str]]:
    """Counts what clients send to Redis; in a pass of its own, since the server pays for it."""
    redis, seen = connect(url), Counter[str]()
    listening = asyncio.create_task(listen(redis, seen))
    try:
        yield seen
    finally:
        listening.cancel()
        await asyncio.wait({listening})
        await redis.aclose()


def p99(values: Sequence[float]) -> float:
    """The 99th percentile; the maximum of fewer than a hundred values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


def cpu_ms_per_1000(level: Level) -> dict[str, float]:
    """CPU milliseconds for each 1,000 tokens, by process."""
    return {name: s * 1e6 / level.tokens for name, s in level.cpu_s.items()}


def report(results: Results) -> str:
    """The results as Markdown tables."""
    lines = [
        "| who | turns | added, median ms | p99 ms | messages | tokens/s | "
        "CPU ms / 1,000 tokens | KiB / stream | Redis commands / turn | of the cores |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for who, levels in results.items():
        for level in levels:
            cpu = cpu_ms_per_1000(level)
            parts = ", ".join(f"{name} {ms:.0f}" for name, ms in cpu.items())
            commands = f"{level.commands / level.turns:.0f}" if level.commands else ""
            streams = level.grown_bytes.get("workers", level.grown_bytes.get("bot", 0))
            lines.append(
                f"| {who} | {level.turns} | {statistics.median(level.added_ms):.1f} | "
                f"{p99(level.added_ms):.1f} | {len(level.added_ms)} | "
                f"{level.tokens / level.seconds:.0f} | {sum(cpu.values()):.0f} ({parts}) | "
                f"{streams / level.turns / 1024:.0f} | {commands} | "
                f"{level.cores:.2f}{_stage(level)} |"
            )
    return "\n".join(lines)


def _stage(level: Level) -> str:
    parts = [f"{name} {s / level.seconds:.2f}" for name, s in level.stage_s.items()]
    return f" ({', '.join(parts)})"


def misses(results: Results) -> list[str]:
    """What does not hold, in words."""
    found: list[str] = []
    for level in results.get(f"{WORKERS[1]} workers", ()):
        median, high = statistics.median(level.added_ms), p99(level.added_ms)
        is_slow = median > GATE_MEDIAN_MS or high > GATE_P99_MS
        if level.turns == TIMED_TURNS and is_slow:
            found.append(f"{median:.0f} / {high:.0f} ms added at {TIMED_TURNS} turns")
    cost = {
        who: sum(cpu_ms_per_1000(level).values())
        for who, levels in results.items()
        for level in levels
        if level.turns == GATE_TURNS
    }
    own = cost.get(AGGREGATED, 0.0)
    for sdk, factor in (("litellm", GATE_LITELLM), ("openai", 1.0)):
        if own * factor > cost.get(sdk, float("inf")):
            found.append(f"CPU {own:.0f} ms per 1,000 tokens beside {sdk}'s {cost[sdk]:.0f}")
    return found


async def measure(levels: Sequence[int], workers: Sequence[int]) -> Results:
    """All contenders, one after the other, on the same stage."""
    results: Results = {}
    for count in workers:
        results[f"{count} worker{'s' * (count > 1)}"] = await ours(count, levels)
    results[AGGREGATED] = await ours(2, levels, "aggregated")
    for sdk in RIVALS if RIVALS_PYTHON.exists() else ():
        results[sdk] = await rival(sdk, levels)
    return results


def main() -> int:
    """Prints the tables; exit code 1 when a gate is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few turns, two workers")
    parser.add_argument("--alike", action="store_true", help="one message a reply, and rivals")
    parser.add_argument("--json", type=Path, help="file for the raw results")
    chosen = parser.parse_args()
    levels: Sequence[int] = QUICK_LEVELS if chosen.quick else LEVELS
    workers: Sequence[int] = QUICK_WORKERS if chosen.quick else WORKERS
    if chosen.alike:
        workers = ()
    results = asyncio.run(measure(levels, workers))
    print(report(results))
    if not RIVALS_PYTHON.exists():
        print("no rivals beside it: `make rivals` installs them")
    if chosen.json is not None:
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_bytes(msgspec.json.encode(results))
    missed = misses(results)
    for words in missed:
        print(f"missed: {words}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

"""The fleet: pick-up, cost of a turn, throughput beside other queues, fairness, recovery, memory.

Run: `python benchmarks/bench_fleet.py [--quick] [--only pickup,commands,...] [--check]`. Real
servers and real worker processes. `--quick` is a look at whether all runs, minutes in place of half
an hour; its numbers say little. `--check` exits 1 when a goal is missed.

The queues beside ours (saq, streaq, taskiq) get an environment of their own in the user's cache
(`benchmarks/fleet/requirements.txt`); without a package index they are left out.
"""

import argparse
import asyncio
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.bench_pickup import measure, words
from benchmarks.fleet import behaviour, commands, scripts, throughput
from tests.support.servers import running_server

RUNNING = (0, 80, 160, 320)
WORKERS = 4
MEDIAN_MS, P99_MS = 3.0, 10.0
"""With 320 turns running."""


def pickup(*, turns: int) -> bool:
    """From admission to claim, and to the first segment read, while others run."""
    is_good = True
    for flavor in ("redis", "valkey"):
        with running_server(flavor) as server:
            for running in RUNNING:
                times = asyncio.run(measure(server.url, WORKERS, running, turns))
                print(
                    f"{flavor:7} {WORKERS} workers, {running:3} running: "
                    f"claimed {words(times.claimed)}, shown {words(times.shown)}"
                )
                p99 = sorted(times.claimed)[max(0, int(turns * 0.99) - 1)]
                is_good &= statistics.median(times.claimed) < MEDIAN_MS and p99 < P99_MS
    return is_good


PARTS: dict[str, tuple[Callable[[], bool], Callable[[], bool]]] = {
    "pickup": (lambda: pickup(turns=300), lambda: pickup(turns=30)),
    "commands": (lambda: commands.run(turns=200), lambda: commands.run(turns=30)),
    "scripts": (lambda: scripts.run(turns=4_000), lambda: scripts.run(turns=400)),
    "throughput": (
        lambda: throughput.run(jobs=2_000, rounds=3, widths=[1, 2, 4, 8]),
        lambda: throughput.run(jobs=300, rounds=1, widths=[1, 4]),
    ),
    "fairness": (lambda: behaviour.fairness(busy=10_000), lambda: behaviour.fairness(busy=500)),
    "recovery": (lambda: behaviour.recovery(times=5), lambda: behaviour.recovery(times=1)),
    "memory": (lambda: behaviour.memory(seconds=300), lambda: behaviour.memory(seconds=15)),
}
"""Each measurement at length, and as a look."""


def main() -> int:
    """Prints every part; exit code 1 with `--check` when one misses its goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short look at everything")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas between")
    parser.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    chosen = parser.parse_args()
    missed = []
    for name in chosen.only.split(","):
        print(f"-- {name}", flush=True)
        if not PARTS[name][1 if chosen.quick else 0]():
            missed.append(name)
    print(f"goals missed: {', '.join(missed) or 'none'}")
    return 1 if missed and chosen.check else 0


if __name__ == "__main__":
    sys.exit(main())

"""A worker full of streams: TLS, client, rooms and Redis in one process, beside the bare client.

Comes in: how many streams of 50 events a second, and for how long. Goes out: CPU per event, added
time from the provider's write until the rooms and the outbox are done with it, memory per stream;
the same without rooms; two processes beside one; the hop through Redis. It wants a quiet machine.

Run: `python -m benchmarks.bench_worker [--seconds 5] [--rounds 3] [--streams 100,200,500]`.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time

import uvloop

from benchmarks.goals import Goal, told
from benchmarks.processes import certify
from benchmarks.worker_streams import CLIENTS, hop, read, rooms_us, serve, spin

STREAMS = (100, 200, 500)
WHOLE_STREAMS = 200
"""That a whole worker holds, twice its slots by default; the client alone holds more."""
WHO = {"worker": "whole worker", "bare": "client alone"}
P99_MS = 50.0
QUIET_P99_MS = 10.0
KIB_PER_STREAM, MIB_AT_REST = 150.0, 70.0
ROOMS_US, ROOMS_SHARE = 6.0, 0.15
"""A tenth of httpx's client; ours takes a third of that (docs/decisions/0011)."""
HOP_P50_MS, HOP_P99_MS = 1.0, 5.0
EVEN, TWICE = 1.15, 1.8
OWN = (sys.executable, "-m", "benchmarks.bench_worker")

Facts = dict[str, float]


def _child(*words: str) -> Facts:
    done = subprocess.run([*OWN, *words], check=True, capture_output=True, text=True)
    found: Facts = json.loads(done.stdout)
    return found


def full(streams: list[int], seconds: float, rounds: int) -> dict[int, dict[str, Facts]]:
    """Every client at every number of streams, interleaved; medians."""
    found: dict[int, dict[str, list[Facts]]] = {
        count: {name: [] for name in CLIENTS} for count in streams
    }
    with tempfile.TemporaryDirectory(prefix="tf-bench-") as directory:
        certify(directory)
        server = subprocess.Popen([*OWN, "--serve", directory], stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            port = server.stdout.readline().strip()
            for _ in range(rounds):
                for count in streams:
                    for name in CLIENTS:
                        words = ["--read", name, directory, port, str(count), str(seconds)]
                        found[count][name].append(_child(*words))
        finally:
            server.kill()
            server.wait()
    return {
        count: {
            name: {key: statistics.median(one[key] for one in facts) for key in facts[0]}
            for name, facts in by_name.items()
        }
        for count, by_name in found.items()
    }


def report(found: dict[int, dict[str, Facts]]) -> list[Goal]:
    """Prints the table; the goals that it decides."""
    print("| streams | who | us CPU an event | of a core | p50 ms | p99 ms | KiB a stream |")
    print("|---|---|---|---|---|---|---|")
    goals: list[Goal] = []
    for count, by_name in found.items():
        for name, facts in by_name.items():
            figures = [facts[key] for key in ("us_per_event", "core", "p50_ms", "p99_ms")]
            cells = [str(count), name, *(f"{figure:.2f}" for figure in figures)]
            print(f"| {' | '.join(cells)} | {facts['kib_per_stream']:.0f} |", flush=True)
        worker = by_name["worker"]
        for name in CLIENTS if count <= WHOLE_STREAMS else ("bare",):
            title = f"{count} TLS streams of 50 events a second, {WHO[name]}, p99 ms"
            goals.append(Goal(goal="G7", name=title, value=by_name[name]["p99_ms"], limit=P99_MS))
        if count == STREAMS[0]:
            title = f"{count} streams, whole worker, p99 ms"
            goals.append(Goal(goal="G8", name=title, value=worker["p99_ms"], limit=QUIET_P99_MS))
        # The client's; a worker's has a recording beside it, of a megabyte at most.
        title = f"KiB of each of {count} streams"
        kib = by_name["bare"]["kib_per_stream"]
        goals.append(Goal(goal="G9", name=title, value=kib, limit=KIB_PER_STREAM))
    rest = max(facts["rest_mib"] for by_name in found.values() for facts in by_name.values())
    goals.append(Goal(goal="G9", name="MiB at rest", value=rest, limit=MIB_AT_REST))
    return goals


def beside_client(found: dict[int, dict[str, Facts]]) -> list[Goal]:
    """What normalizer and buffer cost, alone and in a worker."""
    us = rooms_us()
    bare = found[min(found)]["bare"]["us_per_event"]
    share = us / bare
    return [
        Goal(goal="G6", name="us a delta, normalizer and buffer", value=us, limit=ROOMS_US),
        Goal(goal="G6", name="of the bare client's CPU", value=share, limit=ROOMS_SHARE),
    ]


def scaling(seconds: float) -> list[Goal]:
    """One process, then two at once, each reading on its own as fast as it can."""
    alone = _child("--spin", str(seconds))
    words = [*OWN, "--spin", str(seconds)]
    running = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    both: list[Facts] = [json.loads(one.communicate()[0]) for one in running]
    cost = statistics.mean(one["us_per_event"] for one in both) / alone["us_per_event"]
    together = sum(one["events_per_s"] for one in both) / alone["events_per_s"]
    return [
        Goal(goal="G12", name="CPU an event, two over one", value=cost, limit=EVEN),
        Goal(
            goal="G12", name="events a second, two over one", value=together, limit=TWICE,
            at_least=True,
        ),
    ]  # fmt: skip


def hops(times: int) -> list[Goal]:
    """From the append of an entry to its reader."""
    taken = sorted(uvloop.run(hop(times)))
    p99 = taken[int(len(taken) * 0.99)]
    return [
        Goal(goal="G10", name="hop, p50 ms", value=statistics.median(taken), limit=HOP_P50_MS),
        Goal(goal="G10", name="hop, p99 ms", value=p99, limit=HOP_P99_MS),
    ]


def main() -> int:
    """Measures; or, as its own child, serves, reads or spins."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve")
    parser.add_argument("--read", nargs=5)
    parser.add_argument("--spin", type=float)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--streams", default=",".join(map(str, STREAMS)))
    args = parser.parse_args()
    if args.serve:
        uvloop.run(serve(args.serve))
        return 0
    if args.read:
        client, directory, port, streams, seconds = args.read
        uvloop.run(read(client, directory, int(port), int(streams), float(seconds)))
        return 0
    if args.spin:
        print(json.dumps(spin(args.spin)))
        return 0
    began_s = time.monotonic()
    found = full([int(one) for one in args.streams.split(",")], args.seconds, args.rounds)
    goals = [*report(found), *beside_client(found), *scaling(args.seconds), *hops(500)]
    print(f"\n{args.rounds} rounds of {args.seconds:g} s, {time.monotonic() - began_s:.0f} s\n")
    return 0 if told(goals) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Normalizing: ours against the floor, against other stacks, and against itself four times longer.

Run: `python benchmarks/bench_normalize.py [--rivals] [--rounds 5] [--check]`. Everything is CPU
time, medians of interleaved rounds. `--rivals` needs `requirements-rivals.txt`; `--check` exits 1
when a goal is missed. Goals are ratios within one run, so that the machine does not matter.
"""

import argparse
import functools
import json
import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import msgspec

from benchmarks import floor, rivals, streams
from benchmarks.goals import Goal, told
from benchmarks.measure import Timing, measure
from shared.turns import Api
from worker.normalize.events import TextDelta, ThinkingDelta
from worker.normalize.normalizer import StreamNormalizer
from worker.providers.streams import READERS

APIS = {
    "openai-chat": Api.OPENAI_CHAT,
    "openai-responses": Api.OPENAI_RESPONSES,
    "anthropic": Api.ANTHROPIC,
    "google": Api.GOOGLE,
}
FLOOR_GOALS = {"event": 2.5, "16k": 2.0, "random": 8.0}
"""Times the floor, by the cutting: the floor is not cut, and a hundred bytes a chunk are a lot."""
RIVAL_GOALS = {
    "openai chat": 25,
    "openai responses": 20,
    "anthropic": 6,
    "anthropic .stream()": 15,
    "google-genai": 30,
    "pydantic-ai": 12,
    "litellm": 80,
}
"""Times fewer CPU microseconds an event than these, on text with an event per chunk."""
READ_ONLY = ("httpx-sse + json",)
"""Stacks that know events and JSON, but nothing of what they mean."""
ARGUMENT_GROWTH, EVENT_GROWTH = 4.4, 4.5
"""Times the cost at four times the length; 16 would be quadratic."""


def ours(dialect: str, chunks: list[bytes]) -> Callable[[], int]:
    """Our normalizer over the chunks; how many events it gave."""

    def run() -> int:
        normalizer = StreamNormalizer(READERS[APIS[dialect]], provider=dialect, model="m")
        feed, count = normalizer.feed, 0
        for chunk in chunks:
            count += len(feed(chunk))
        return count + len(normalizer.flush())

    return run


def delivered(dialect: str, chunks: list[bytes]) -> int:
    """The characters that our normalizer delivers."""
    normalizer = StreamNormalizer(READERS[APIS[dialect]], provider=dialect, model="m")
    events = [event for chunk in chunks for event in normalizer.feed(chunk)]
    texts = [event.delta for event in events if isinstance(event, TextDelta | ThinkingDelta)]
    return sum(map(len, texts))


def bench_floor(rounds: int) -> Iterator[Goal]:
    """Every format, kind and cutting against the floor."""
    print("| stream | chunks | floor, us an event | ours, us an event | times the floor | spread |")
    print("|---|---|---|---|---|---|")
    for dialect in streams.DIALECTS:
        for kind in streams.KINDS:
            events = streams.make(dialect, kind)
            body = b"".join(events)
            runs = {how: ours(dialect, streams.cut(events, how)) for how in streams.CUTS}
            runs["floor"] = functools.partial(floor.read, dialect, body)
            timings = measure(runs, rounds)
            for how in streams.CUTS:
                yield _floor_goal(f"{dialect} {kind}", how, len(events), timings)


def _floor_goal(stream: str, how: str, count: int, timings: dict[str, Timing]) -> Goal:
    mine, base = timings[how], timings["floor"]
    ratio = mine.median / base.median
    per_event = [timing.median / count * 1e6 for timing in (base, mine)]
    cells = [stream, how, *(f"{us:.2f}" for us in per_event), f"{ratio:.2f}", mine.spread]
    print("| " + " | ".join(cells) + " |", flush=True)
    title = f"{stream}, {how}, times the floor"
    return Goal(goal="G1", name=title, value=ratio, limit=FLOOR_GOALS[how])


def bench_rivals(rounds: int, kinds: list[str], cuts: list[str]) -> Iterator[Goal]:
    """The same streams through other stacks; goals stand on text with an event per chunk."""
    found = ", ".join(f"{name} {number}" for name, number in rivals.versions().items())
    print(f"\nRivals: {found or 'none installed'}\n")
    print("| stream | chunks | stack | us an event | times ours | spread |")
    print("|---|---|---|---|---|---|")
    for dialect in streams.DIALECTS:
        for kind in kinds:
            events = streams.make(dialect, kind)
            for how in cuts:
                chunks = streams.cut(events, how)
                runs = {"ours": ours(dialect, chunks), **rivals.contenders(dialect, kind, chunks)}
                if kind != "tool":
                    check_deliveries(f"{dialect} {kind} {how}", delivered(dialect, chunks), runs)
                timings = measure(runs, rounds)
                for name, timing in timings.items():
                    ratio = timing.median / timings["ours"].median
                    cells = [f"{dialect} {kind}", how, name]
                    cells += [f"{timing.median / len(events) * 1e6:.2f}", f"{ratio:.1f}"]
                    print("| " + " | ".join([*cells, timing.spread]) + " |", flush=True)
                    if kind == "text" and how == "event" and name in RIVAL_GOALS:
                        limit = RIVAL_GOALS[name]
                        title = f"{dialect}: {name}, times ours"
                        yield Goal(goal="G2", name=title, value=ratio, limit=limit, at_least=True)


def check_deliveries(stream: str, length: int, runs: dict[str, Callable[[], int]]) -> None:
    """Refuses a comparison in which a stack delivers other text than ours."""
    for name, run in runs.items():
        if name not in ("ours", *READ_ONLY) and run() != length:
            raise SystemExit(f"{stream}: {name} delivers {run()} characters, ours {length}")


def bench_growth(rounds: int) -> Iterator[Goal]:
    """Four times the argument, four times the event: the cost must not grow much more."""
    runs: dict[str, Callable[[], int]] = {}
    for dialect in ("openai-chat", "openai-responses", "anthropic"):
        for kib in (64, 256):
            events = streams.make(dialect, "tool", size=kib * 1024)
            runs[f"{dialect} {kib}"] = ours(dialect, events)
    for mib in (1, 4):
        text = json.dumps({"choices": [{"delta": {"content": "a" * (mib << 20)}}]}).encode()
        body = b"data: " + text + b"\n\n"
        runs[f"event {mib}"] = ours(
            "openai-chat", [body[at : at + 100] for at in range(0, len(body), 100)]
        )
    timings = measure(runs, rounds)
    for name in ("openai-chat", "openai-responses", "anthropic"):
        ratio = timings[f"{name} 256"].median / timings[f"{name} 64"].median
        title = f"{name}: argument of 256 KiB over 64 KiB"
        yield Goal(goal="G3", name=title, value=ratio, limit=ARGUMENT_GROWTH)
    ratio = timings["event 4"].median / timings["event 1"].median
    title = "event of 4 MiB over 1 MiB, in 100 byte chunks"
    yield Goal(goal="G4", name=title, value=ratio, limit=EVENT_GROWTH)


def main() -> int:
    """Runs the bench and prints tables and goals."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rivals", action="store_true", help="measure other stacks too")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kinds", default="text", help="kinds of streams for rivals")
    parser.add_argument("--cuts", default="event,16k,random", help="cuttings for rivals")
    parser.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    options = parser.parse_args()
    print(f"CPython {platform.python_version()}, msgspec {msgspec.__version__}\n")
    goals = [*bench_floor(options.rounds), *bench_growth(options.rounds)]
    if options.rivals:
        kinds, cuts = options.kinds.split(","), options.cuts.split(",")
        goals += bench_rivals(options.rounds, kinds, cuts)
    print()
    is_met = told(goals)
    return 1 if options.check and not is_met else 0


if __name__ == "__main__":
    sys.exit(main())

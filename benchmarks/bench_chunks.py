"""The chunk room, the classifier and redaction: what a delta costs, and that cost grows straight.

Run: `python -m benchmarks.bench_chunks [--rounds 5] [--check]`. CPU time, medians of interleaved
rounds. Growth is the time for 64 KiB over the time for 16 KiB of the same text, made to be slow:
4 is straight, 16 a square.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial

from benchmarks.measure import measure
from shared.failures import ProviderFault
from shared.redaction import redact
from shared.turns import StopReason, ToolSpec
from worker.chunks.processor import ChunkProcessor
from worker.failures.classify import classify
from worker.normalize.events import Done, StreamEvent, TextDelta, ThinkingDelta

KEY = "corp-internal-77-k3y-zzTop"
SMALL, LARGE = 16 * 1024, 64 * 1024
GROWTH_LIMIT = 4.5
TOOLS = (ToolSpec(name="roll"), ToolSpec(name="search"))
DELTA_CHARS = 4
"""What providers send: a token."""

PROSE = "A sentence of words, and then another one. "
GUARD_UNITS = {
    "prose": PROSE,
    "brackets": "<",
    "ticks": "`",
    "open tags": "<think>",
    "tags in ticks": "`<think>",
    "cut tags": "<think ",
    "calls": "roll(",
    "objects": 'roll({"a": "',
    "markup": "<tool_call>",
    "fences": "```\nroll()\n",
}
BODY_UNITS = {
    "brackets": "[",
    "objects": '{"error":',
    "models": "models/",
    "counts": "input token count ",
    "hints": "retry in 1 ",
}
REDACT_UNITS = {
    "prose": PROSE,
    "base64": "QWxhZGRpbjpvcGVuIHNlc2FtZQ",
    "hex": "deadbeef01",
    "percent": "%41",
    "escapes": "\\u0041",
    "half a key": KEY[:11],
    "pem": "-----BEGIN PRIVATE KEY-----",
}


def guards(unit: str, delta_chars: int, chars: int, *, searches: bool) -> Callable[[], object]:
    """All guards over a text of `chars`, in deltas."""
    text = (unit * chars)[:chars]
    events: list[StreamEvent] = [
        ThinkingDelta(index=0, delta="so I"),
        *(
            TextDelta(index=1, delta=text[at : at + delta_chars])
            for at in range(0, chars, delta_chars)
        ),
        Done(stop_reason=StopReason.STOP, content=[], usage={}),
    ]

    def run() -> None:
        processor = ChunkProcessor(
            provider="custom", model="m", tools=TOOLS, verbatim_tools=searches
        )
        for event in events:
            processor.feed(event)

    return run


def classifying(unit: str, chars: int) -> Callable[[], object]:
    """The classifier over a body of `chars`."""
    fault = ProviderFault(provider="custom", status=400, body=(unit * chars)[:chars])
    return lambda: classify(fault, [KEY])


def redacting(unit: str, chars: int) -> Callable[[], object]:
    """Redaction of a text of `chars`."""
    text = (unit * chars)[:chars]
    return lambda: redact(text, [KEY])


def bench_delta(rounds: int) -> None:
    """What a token of prose costs, with and without the search for calls."""
    runs = {
        "guards": guards(PROSE, DELTA_CHARS, SMALL, searches=False),
        "guards and calls": guards(PROSE, DELTA_CHARS, SMALL, searches=True),
    }
    print("| room | us a delta | spread |\n|---|---|---|")
    for name, timing in measure(runs, rounds).items():
        per_delta_us = timing.median / (SMALL / DELTA_CHARS) * 1e6
        print(f"| {name} | {per_delta_us:.2f} | {timing.spread} |")


def bench_growth(rounds: int) -> bool:
    """Four times the text; true if no growth is over the limit."""
    make: dict[str, Callable[[int], Callable[[], object]]] = {}
    for name, unit in GUARD_UNITS.items():
        for how, delta in (("tokens", DELTA_CHARS), ("whole", LARGE)):
            make[f"guards, {name}, {how}"] = partial(guards, unit, delta, searches=True)
    for name, unit in BODY_UNITS.items():
        make[f"classify, {name}"] = partial(classifying, unit)
    for name, unit in REDACT_UNITS.items():
        make[f"redact, {name}"] = partial(redacting, unit)
    print(f"\n| text | 64 KiB, ms | growth (at most {GROWTH_LIMIT}) | |\n|---|---|---|---|")
    is_met = True
    for name, made in make.items():
        timings = measure({"small": made(SMALL), "large": made(LARGE)}, rounds)
        growth = timings["large"].median / timings["small"].median
        is_met = is_met and growth <= GROWTH_LIMIT
        verdict = "met" if growth <= GROWTH_LIMIT else "MISSED"
        print(f"| {name} | {timings['large'].median * 1e3:.1f} | {growth:.2f} | {verdict} |")
    return is_met


def main() -> int:
    """Runs the bench; with `--check` 1 when a growth is over the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    options = parser.parse_args()
    bench_delta(options.rounds)
    is_met = bench_growth(options.rounds)
    return 1 if options.check and not is_met else 0


if __name__ == "__main__":
    sys.exit(main())

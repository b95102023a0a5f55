"""Cost of the segment room per 4-character delta, as ratios to a floor measured beside it.

The floor is the least that a room with a `feed` can do: append the delta to a list and search it
with a compiled expression. Rounds alternate between all cases; CPU time, the median of the rounds.

Run: `python benchmarks/bench_segments.py [--rounds 5] [--check]`. With `--check` it exits 1 when
four times the text costs more than 4.4 times the time, the worst corpus more than twice the prose,
or a delta more than `MAX_FLOORS`. The goal is 3 floors; `docs/decisions` says what is in the way.
`--memory` shows what is held at most beside the history.
"""

import argparse
import gc
import platform
import re
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.goals import Goal, told
from shared.segments import DeliveryMode
from worker.segments.buffer import SegmentBuffer

KIB = 1024
SIZES_KIB = (25, 100, 400)
DELTA_CHARS = 4
MAX_FLOORS = 15.0
"""A rescan of the buffer costs hundreds; here most are at 3 to 6, short paragraphs at 10."""
MAX_OF_PROSE = 2.0
MAX_GROWTH = 4.4

PROSE = (
    "Caching looks simple until two writers meet: one of them reads a value, the other replaces"
    " it, and the first writes back what it had. Nobody sees an error, and the counter is off by"
    " one. A lock helps, but it costs a round trip, so most stores offer an atomic increment.\n\n"
    "**In short:** prefer the atomic operation (it is also faster), keep locks for work that spans"
    " several keys, and measure before you tune. It's rarely the cache that is slow; the query"
    " behind it is, and that one deserves an index.\n\n"
)
CODE = "    total = sum(item.price * item.count for item in basket.items if item.count)\n"
ROW = "| eu-central | 1,204,331 | 99.95 % | degraded since Tuesday, see the incident page |\n"
KANA = (
    "キャッシュは簡単に見えますが、二人が同時に書くと話が変わります。片方が値を読み、もう片方がそれを"
    "置き換え、最初の人が古い値を書き戻します。誰もエラーを見ないまま、数が一つずれます。\n\n"
    "結論として、「不可分な操作」を選び、複数の鍵にまたがる仕事だけにロックを使い、調整の前に測ること"
    "です。遅いのはキャッシュではなく、その裏の問い合わせであることが多いのです。\n\n"
)


def repeated(text: str, size: int) -> str:
    """`text` again and again, `size` characters of it."""
    return (text * (size // len(text) + 1))[:size]


CORPORA: dict[str, Callable[[int], str]] = {
    "prose": lambda size: repeated(PROSE, size),
    "code": lambda size: "```py\n" + repeated(CODE, size),
    "table": lambda size: (
        "| Region | Calls | Up | State |\n|---|--:|--:|---|\n" + repeated(ROW, size)
    ),
    "parenthesis": lambda size: "(" + repeated(re.sub(r"[()\n]", " ", PROSE), size),
    "cjk": lambda size: repeated(KANA, size),
}


class Floor:
    """The least that a room can do."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._search = re.compile(r"[\n`*~|()\[\]\"<\\]").search

    def feed(self, text: str) -> list[str]:
        """Appends and searches."""
        self.parts.append(text)
        self._search(text)
        return []

    def flush(self) -> list[str]:
        """Ends."""
        return []


def deltas(text: str) -> list[str]:
    """The text as a provider streams it."""
    return [text[at : at + DELTA_CHARS] for at in range(0, len(text), DELTA_CHARS)]


def measured(make: Callable[[], SegmentBuffer | Floor], parts: list[str]) -> float:
    """CPU seconds for feeding `parts` and ending."""
    room = make()
    gc.collect()
    begun = time.process_time()
    for part in parts:
        room.feed(part)
    room.flush()
    return time.process_time() - begun


def run(rounds: int, mode: DeliveryMode) -> dict[tuple[str, int], tuple[float, float]]:
    """Median microseconds per delta of room and floor, for each corpus and size."""
    cases = {
        (name, size): deltas(corpus(size * KIB))
        for name, corpus in CORPORA.items()
        for size in SIZES_KIB
    }
    times: dict[tuple[str, int], tuple[list[float], list[float]]] = {
        case: ([], []) for case in cases
    }
    for _ in range(rounds):
        for case, parts in cases.items():
            rooms, floors = times[case]
            floors.append(measured(Floor, parts) / len(parts))
            rooms.append(measured(lambda: SegmentBuffer("b", 1, mode=mode), parts) / len(parts))
    return {
        case: (statistics.median(rooms) * 1e6, statistics.median(floors) * 1e6)
        for case, (rooms, floors) in times.items()
    }


def held_kib(text: str) -> float:
    """The most that the room holds beside the history, in KiB."""
    parts = deltas(text)
    room = SegmentBuffer("b", 1)
    tracemalloc.start()
    most = 0
    for number, part in enumerate(parts):
        room.feed(part)
        if number % 512 == 0:
            kept = sum(sys.getsizeof(piece) for piece in room.history)
            most = max(most, tracemalloc.get_traced_memory()[0] - kept)
    tracemalloc.stop()
    return most / KIB


def report(found: dict[tuple[str, int], tuple[float, float]]) -> list[Goal]:
    """Prints the table; the goals."""
    worst = {"floors": 0.0, "prose": 0.0, "growth": 0.0}
    heads = ("us/delta", "floor", "floors", "of prose", "growth")
    print(f"{'corpus':12} {'KiB':>4}" + "".join(f"{head:>10}" for head in heads))
    for (name, size), (room, floor) in found.items():
        of_prose = room / found["prose", size][0]
        smaller = found.get((name, size // 4))
        growth = 4 * room / smaller[0] if smaller else 0.0
        for title, ratio in zip(worst, (room / floor, of_prose, growth), strict=True):
            worst[title] = max(worst[title], ratio)
        figures = (room, floor, room / floor, of_prose, growth)
        print(f"{name:12} {size:4}" + "".join(f"{figure:10.2f}" for figure in figures))
    return [
        Goal(goal="G5", name="worst, times the floor", value=worst["floors"], limit=MAX_FLOORS),
        Goal(goal="G5", name="worst, times prose", value=worst["prose"], limit=MAX_OF_PROSE),
        Goal(goal="G5", name="worst growth at four times", value=worst["growth"], limit=MAX_GROWTH),
    ]


def main() -> int:
    """Runs and reports."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mode", type=DeliveryMode, default=DeliveryMode.PARAGRAPH)
    parser.add_argument("--check", action="store_true", help="fail when a goal is missed")
    parser.add_argument("--memory", action="store_true", help="show what is held")
    chosen = parser.parse_args()
    print(f"Python {platform.python_version()}, {chosen.mode} mode, {chosen.rounds} rounds")
    good = told(report(run(chosen.rounds, chosen.mode)))
    if chosen.memory:
        for name, corpus in CORPORA.items():
            shown = " ".join(
                f"{size} KiB: {held_kib(corpus(size * KIB)):.0f}" for size in SIZES_KIB
            )
            print(f"{name:12} held KiB at most: {shown}")
    return 0 if good or not chosen.check else 1


if __name__ == "__main__":
    sys.exit(main())

"""Interleaved timing: ratios that a busy machine does not bend.

Comes in: contenders, functions without arguments that all do the same work. Goes out: for each the
median CPU seconds per run, and the spread. Every round runs every contender once, in random order,
each repeated until a sample is long enough for the clock; garbage is collected before a sample.
"""

import gc
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

SAMPLE_S = 0.04
"""Forty milliseconds are four hundred ticks of the CPU clock."""


@dataclass(frozen=True)
class Timing:
    """CPU seconds per run: the median, and the fastest and slowest round."""

    median: float
    fastest: float
    slowest: float

    @property
    def spread(self) -> str:
        """The range over the median."""
        return f"{self.fastest / self.median:.2f}..{self.slowest / self.median:.2f}"


def measure(contenders: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Timing]:
    """Times all contenders against each other."""
    gc.collect()
    gc.freeze()
    repeats = {name: _repeats(run) for name, run in contenders.items()}
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name in random.sample(list(contenders), len(contenders)):
            gc.collect()
            samples[name].append(_cpu_seconds(contenders[name], repeats[name]))
    gc.unfreeze()
    return {
        name: Timing(statistics.median(row), min(row), max(row)) for name, row in samples.items()
    }


def _repeats(run: Callable[[], object]) -> int:
    run()
    return max(1, min(2000, int(SAMPLE_S / max(_cpu_seconds(run, 1), 1e-6))))


def _cpu_seconds(run: Callable[[], object], repeats: int) -> float:
    start = time.process_time()
    for _ in range(repeats):
        run()
    return (time.process_time() - start) / repeats

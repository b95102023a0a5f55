"""`python -m benchmarks`: every measurement, one after the other. `make bench` calls it.

Comes in: names of measurements, none for all; `--quick` for a look at whether all of them run.
Goes out: one report, on stdout as it grows, and whole in `benchmarks/results/` as Markdown and
JSON: the goals G1 to G12 first, then what each measurement printed; exit code 1 when a measurement
misses its gate. Each runs in a process of its own, so that none inherits another's memory or warm
caches.
"""

import datetime as dt
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import msgspec

from benchmarks.goals import TITLES, Goal, goal_in

MEASUREMENTS: dict[str, tuple[str, str]] = {
    "bench_normalize": ("--rivals --check", "--rounds 1 --check"),
    "bench_chunks": ("--check", "--rounds 1 --check"),
    "bench_segments": ("--check", "--rounds 1 --check"),
    "bench_requests": ("--check", "--rounds 1 --check"),
    "bench_http": ("", "--seconds 1 --rounds 1"),
    "bench_worker": ("", "--seconds 1 --rounds 1 --streams 20,100"),
    "bench_pickup": ("", "--turns 20"),
    "bench_fleet": ("--check", "--quick"),
    "bench_added_time": ("", "--turns 2"),
    "bench_turn": ("", "--quick"),
    "bench_triage": ("", "--rows 5000"),
}
"""Each with its words at length, and as a look whose numbers say little."""
PACKAGES = ("msgspec", "httpx", "redis", "arq", "uvloop", "hikari", "SQLAlchemy")
RESULTS = Path(__file__).parent / "results"


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """What one measurement printed, and whether its gates hold."""

    name: str
    holds: bool
    seconds: float
    lines: list[str]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A run: when, on what, and every measurement. `load` is the machine's before and after.

    `is_quick`: its numbers show that everything runs, and nothing else.
    """

    at: str
    machine: str
    cores: int
    load: tuple[float, float]
    versions: dict[str, str]
    is_quick: bool
    goals: list[Goal]
    measurements: list[Measurement]

    def as_markdown(self) -> str:
        """For people."""
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        parts = [
            f"# Measurements of {self.at}\n",
            f"{self.machine}, {self.cores} cores, load {self.load[0]:.1f} before and "
            f"{self.load[1]:.1f} after. {versions}.\n",
            *(["A quick look: the numbers say little.\n"] if self.is_quick else []),
            "## Goals\n\n| | | value | limit | |\n|---|---|---|---|---|\n" + self._goals() + "\n",
        ]
        for one in self.measurements:
            verdict = "" if one.holds else " (misses a gate)"
            body = "\n".join(one.lines)
            fenced = body if body.lstrip().startswith("|") else f"```\n{body}\n```"
            parts.append(f"## {one.name}{verdict}\n\n{fenced}\n\n{one.seconds:.0f} s\n")
        return "\n".join(parts)

    def _goals(self) -> str:
        measured = {goal.goal for goal in self.goals}
        absent = [f"| {name} | {TITLES[name]} | not measured | | |" for name in TITLES]
        rows = [f"| {goal} |" for goal in self.goals]
        rows += [row for name, row in zip(TITLES, absent, strict=True) if name not in measured]
        return "\n".join(sorted(rows, key=lambda row: int(row[3:].split(" ")[0])))


def run(name: str, more: str) -> Measurement:
    """Runs one measurement, and shows its lines as they come."""
    print(f"\n== {name} {more}", flush=True)
    began_s = time.monotonic()
    lines: list[str] = []
    words = [sys.executable, "-u", "-m", f"benchmarks.{name}", *more.split()]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, bufsize=1) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line.rstrip("\n"))
    seconds = time.monotonic() - began_s
    return Measurement(name=name, holds=process.returncode == 0, seconds=seconds, lines=lines)


def main() -> int:
    """Runs all, or those that are named."""
    names = [name for name in sys.argv[1:] if name != "--quick"]
    is_quick = len(names) < len(sys.argv) - 1
    unknown = [name for name in names if name not in MEASUREMENTS]
    if unknown:
        print(f"no measurement {', '.join(unknown)}; there are {', '.join(MEASUREMENTS)}")
        return 2
    before = os.getloadavg()[0]
    measurements = [run(name, MEASUREMENTS[name][is_quick]) for name in names or MEASUREMENTS]
    lines = (line for one in measurements for line in one.lines)
    report = Report(
        at=f"{dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M} UTC",
        machine=f"Python {platform.python_version()}, {platform.machine()}, {platform.system()}",
        cores=os.cpu_count() or 1,
        load=(before, os.getloadavg()[0]),
        versions={name: version(name) for name in PACKAGES},
        is_quick=is_quick,
        goals=[goal for line in lines if (goal := goal_in(line)) is not None],
        measurements=measurements,
    )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "report.md").write_text(report.as_markdown(), encoding="utf-8")
    (RESULTS / "report.json").write_bytes(msgspec.json.encode(report))
    print(f"\nwritten: {RESULTS / 'report.md'}, report.json")
    return 0 if all(one.holds for one in measurements) else 1


if __name__ == "__main__":
    sys.exit(main())

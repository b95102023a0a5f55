"""Turns a second with 1, 2, 4 and 8 workers, beside other queues, in one interleaved run.

Comes in: counts. Goes out: rates, and what a job costs the server. Every round takes each
contender once at each width, in random order, on an empty server; the workers stand still while the
jobs are laid out, and the clock runs from the first tenth of them to the last hundredth.
"""

import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from redis import Redis

from tests.support.servers import RedisServer, running_server

HERE = Path(__file__).parent
CACHE = (
    Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "turnfleet" / "fleet-rivals"
)
OURS = "turnfleet"
START_SHARE, END_SHARE = 0.1, 0.99
"""A job that a blocking read gave to a worker which stands still may be lost for a minute (saq)."""
LIMIT_S = 40.0
LOOK_S = 0.002
SETTLE_S = 0.7
"""For each worker: two cores start eight of them in about five seconds."""


def rivals_python() -> str | None:
    """The interpreter of the rivals' environment, made where it is missing; None if it cannot."""
    python = CACHE / "bin" / "python"
    stamp = CACHE / ".installed"
    wanted = (HERE / "requirements.txt").read_text(encoding="utf-8")
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return str(python)
    try:
        subprocess.run([sys.executable, "-m", "venv", str(CACHE)], check=True)
        words = [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "-r",
            str(HERE / "requirements.txt"),
        ]
        subprocess.run(words, check=True)
    except subprocess.CalledProcessError:
        return None
    stamp.write_text(wanted, encoding="utf-8")
    return str(python)


def contenders() -> dict[str, list[str]]:
    """By name, the command of a contender's process without role, server and jobs."""
    found = {
        OURS: [sys.executable, str(HERE / "ours.py")],
        "arq": [sys.executable, str(HERE / "rival.py"), "arq"],
    }
    python = rivals_python()
    for name in ("saq", "streaq", "taskiq") if python else ():
        found[name] = [str(python), str(HERE / "rival.py"), name]
    return found


class Sample:
    """One contender at one width: jobs a second, and the server's work for a job."""

    def __init__(self, rate: float, commands: float, cpu_us: float) -> None:
        self.rate = rate
        self.commands = commands
        self.cpu_us = cpu_us


def measured(command: list[str], server: RedisServer, workers: int, jobs: int) -> Sample:
    """Runs one contender on an empty server."""
    with Redis(port=server.port) as redis:
        redis.flushall()
        words = [*command, "work", server.url, "0"]
        running = [
            subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for _ in range(workers)
        ]
        try:
            _until_connected(redis, workers)
            for process in running:
                process.send_signal(signal.SIGSTOP)
            subprocess.run([*command, "produce", server.url, str(jobs)], check=True)
            before = _spent(redis)
            for process in running:
                process.send_signal(signal.SIGCONT)
            first, begun_s = _until(redis, jobs * START_SHARE)
            last, ended_s = _until(redis, jobs * END_SHARE)
        finally:
            for process in running:
                process.kill()
                process.wait()
        commands, cpu_s = (now - then for now, then in zip(_spent(redis), before, strict=True))
    return Sample((last - first) / (ended_s - begun_s), commands / jobs, cpu_s * 1e6 / jobs)


def _until_connected(redis: Redis, workers: int) -> None:
    """Waits until every worker has come, and has made what it makes at its start."""
    deadline_s = time.monotonic() + LIMIT_S
    while True:
        clients: Any = redis.info("clients")
        if clients["connected_clients"] > workers:
            time.sleep(SETTLE_S * workers)
            return
        if time.monotonic() > deadline_s:
            raise TimeoutError("no worker came")
        time.sleep(LOOK_S)


def _until(redis: Redis, count: float) -> tuple[int, float]:
    deadline_s = time.monotonic() + LIMIT_S
    while True:
        counted: Any = redis.get("done")
        done = int(counted or 0)
        if done >= count:
            return done, time.monotonic()
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{done} of {count:.0f} jobs")
        time.sleep(LOOK_S)


def _spent(redis: Redis) -> tuple[float, float]:
    """Commands that clients sent (those that scripts call count too), and CPU seconds."""
    stats: Any = redis.info("stats")
    cpu: Any = redis.info("cpu")
    return stats["total_commands_processed"], cpu["used_cpu_sys"] + cpu["used_cpu_user"]


def run(*, jobs: int, rounds: int, widths: list[int]) -> bool:
    """Measures and prints; whether ours keeps nine tenths from one worker to the most."""
    commands = contenders()
    samples: dict[tuple[str, int], list[Sample]] = defaultdict(list)
    with running_server("redis", appendfsync="everysec") as server:
        for _ in range(rounds):
            cases = [(name, width) for name in commands for width in widths]
            for name, width in random.sample(cases, len(cases)):
                try:
                    sample = measured(commands[name], server, width, jobs)
                except (TimeoutError, subprocess.CalledProcessError) as exc:
                    print(f"{name} with {width}: {exc}")
                    continue
                samples[name, width].append(sample)
    print(f"jobs a second (least..most), CPU us of the server for a job; {rounds} rounds of {jobs}")
    for name in commands:
        print(f"{name:10}", " | ".join(_cell(width, samples[name, width]) for width in widths))
    ours = [statistics.median(s.rate for s in samples[OURS, width]) for width in widths]
    return ours[-1] >= 0.9 * ours[0]


def _cell(width: int, samples: list[Sample]) -> str:
    if not samples:
        return f"{width}: -"
    rates = sorted(sample.rate for sample in samples)
    cpu_us = statistics.median(sample.cpu_us for sample in samples)
    spread = f"{rates[0]:.0f}..{rates[-1]:.0f}"
    return f"{width}: {statistics.median(rates):6.0f} ({spread}) {cpu_us:4.0f} us"

"""`python -m benchmarks`: every measurement, one after the other. `make bench` calls it.

Comes in: nothing. Goes out: one report on stdout; exit code 1 when a measurement misses its gate.
"""

import importlib
import platform
import sys
from importlib.metadata import version

MEASUREMENTS = (
    "bench_normalize",
    "bench_chunks",
    "bench_segments",
    "bench_requests",
    "bench_pickup",
    "bench_added_time",
)
PACKAGES = ("msgspec", "httpx", "redis", "arq", "uvloop")


def main() -> int:
    """Runs all; each reads its own arguments, of which there are none here."""
    print(f"Python {platform.python_version()}, {platform.machine()}, {platform.system()}")
    print(", ".join(f"{name} {version(name)}" for name in PACKAGES))
    sys.argv[1:] = []
    worst = 0
    for name in MEASUREMENTS:
        print(f"\n== {name}", flush=True)
        worst = max(worst, importlib.import_module(f"benchmarks.{name}").main())
    return worst


if __name__ == "__main__":
    sys.exit(main())

"""Measurements of the fleet, each a module with a `run`; `benchmarks.bench_fleet` runs them."""

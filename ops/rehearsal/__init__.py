"""A local provider that speaks the real wire formats, scenario by scenario.

`python -m ops.rehearsal` serves it; `judges` read and check requests as strictly as the vendors
do, `voices` frame the answers, `data/` holds the scenarios and the vendors' error bodies. The demo,
the tests and the benchmarks talk to it over a socket. `ops.cli` may import it.
"""

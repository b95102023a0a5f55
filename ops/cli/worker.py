"""`turnfleet worker`: one worker process. Comes in: settings. Goes out: `python -m worker`."""

from ops.cli.probe import Probe, probe
from ops.cli.processes import become


def worker(is_asked: Probe = False) -> None:
    """Runs a worker until SIGTERM or Ctrl-C: turns in, segments of replies out."""
    if is_asked:
        probe("worker")
    else:
        become("worker")

"""`turnfleet worker`: one worker process. Comes in: settings. Goes out: `python -m worker`."""

from ops.cli.processes import become


def worker() -> None:
    """Runs a worker until SIGTERM or Ctrl-C: turns in, segments of replies out."""
    become("worker")

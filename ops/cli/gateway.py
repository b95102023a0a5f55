"""`turnfleet gateway`: one gateway process. Comes in: settings. Goes out: `python -m gateway`."""

from ops.cli.processes import become


def gateway() -> None:
    """Runs a gateway until SIGTERM or Ctrl-C: prompts in, replies out."""
    become("gateway")

"""`turnfleet gateway`: one gateway process. Comes in: settings. Goes out: `python -m gateway`."""

from ops.cli.probe import Probe, probe
from ops.cli.processes import become


def gateway(is_asked: Probe = False) -> None:
    """Runs a gateway until SIGTERM or Ctrl-C: prompts in, replies out."""
    if is_asked:
        probe("gateway")
    else:
        become("gateway")

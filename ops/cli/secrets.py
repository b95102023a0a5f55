"""`turnfleet secrets`: every secret of a new deployment. See `ops.cli.redis`."""

from ops.cli.redis import write_secrets as secrets

__all__ = ["secrets"]

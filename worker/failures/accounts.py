"""What accounts say: why nothing is asked, and what an attempt has cost.

Comes in: nothing. Goes out: the values that `worker.turn` and `worker.edges.accounts` share. Pure.
"""

import msgspec

from shared.causes import Cause
from shared.turns import AttemptUsage


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """A provider is not asked: `quota_exhausted` or `subscription_required`; `why` for logs."""

    cause: Cause
    why: str


class Entered(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt with its cost; `runs_low`: a budget passed its notice's share just now."""

    usage: AttemptUsage
    runs_low: bool = False

"""What an operator should look at now: a new cause, one that came back, a spike, a full budget.

Comes in: facts of whoever notices. Goes out: a value on the alerts stream, which the gateway posts
in the operators' channel. No text of anyone: words, numbers, and a name to ask further with. Pure;
anyone may import it.
"""

from enum import StrEnum
from typing import Final

import msgspec


class AlertKind(StrEnum):
    """Why an operator should look."""

    NEW_CAUSE = "new_cause"
    """Failures for a reason that was never seen before."""
    REGRESSED = "regressed"
    """A cause that was resolved is back."""
    SPIKE = "spike"
    """A cause is much more frequent than it was."""
    BUDGET = "budget"
    """A budget is used up: turns are declined."""
    OUTPUT_RULE = "output_rule"
    """A reply said what a rule watches for."""


QUIET_MS: Final = {
    AlertKind.NEW_CAUSE: 24 * 3_600_000,
    AlertKind.REGRESSED: 24 * 3_600_000,
    AlertKind.SPIKE: 3_600_000,
    AlertKind.BUDGET: 24 * 3_600_000,
    AlertKind.OUTPUT_RULE: 3_600_000,
}
"""How long the same alert is not raised again: a spike may last, and others are said once a day."""


OF_CAUSES: Final = frozenset({AlertKind.NEW_CAUSE, AlertKind.REGRESSED, AlertKind.SPIKE})
HASH_CHARS: Final = 12
"""Of a cause's hash; `errors list --cause` takes its beginning."""


class Alert(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing to look at. `kind` and `subject` name it; the same one is raised once in a while.

    Args:
        kind: why.
        subject: the hash of a cause, or the name of a budget or a rule.
        cause: the word for it; for a rule the turn.
        count: failures so far.
        usual: failures that are usual in the same time.
        guilds: how many servers have them.
    """

    kind: AlertKind
    subject: str
    cause: str = ""
    count: int = 0
    usual: float = 0.0
    guilds: int = 0

    @property
    def label(self) -> str:
        """The subject as it is said: enough of a hash, the whole of a name."""
        return self.subject[:HASH_CHARS] if self.kind in OF_CAUSES else self.subject

    @property
    def name(self) -> str:
        """What makes two alerts the same."""
        return f"{self.kind}:{self.subject}"

"""The form of a rule: conditions on facts, a cause, and two examples.

Comes in: `Facts`. Goes out: whether a rule matches. Pure; for `worker.failures` only.
"""

import re

import msgspec

from shared.causes import Cause
from worker.failures.facts import Facts


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A row: matches if each of the conditions that it has holds.

    Args:
        cause: what the failure then is.
        codes: any of these codes, lower case, stands in the body.
        words: this pattern is found in the text (lower case, single spaces).
        statuses: the status is one of these.
        not_codes, not_statuses: none of these.
        yes: an example that this row decides, `<status> <body>`.
        no: an example close to it that this row does not match.
    """

    cause: Cause
    yes: str
    no: str
    codes: frozenset[str] = frozenset()
    words: re.Pattern[str] | None = None
    statuses: frozenset[int] = frozenset()
    not_codes: frozenset[str] = frozenset()
    not_statuses: frozenset[int] = frozenset()

    def matches(self, facts: Facts) -> bool:
        """Whether all conditions of the row hold."""
        if facts.status in self.not_statuses or not self.not_codes.isdisjoint(facts.codes):
            return False
        if self.statuses and facts.status not in self.statuses:
            return False
        if self.codes and self.codes.isdisjoint(facts.codes):
            return False
        return self.words is None or self.words.search(facts.text) is not None


def words(*alternatives: str) -> re.Pattern[str]:
    """A pattern that finds any of the alternatives."""
    return re.compile("|".join(alternatives))


def any_of(*codes: str) -> frozenset[str]:
    """Any of these codes."""
    return frozenset(codes)

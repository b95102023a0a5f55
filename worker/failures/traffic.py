"""Whether the fleet may ask a model now, and which failures speak against it.

Comes in: a classified error. Goes out: words. Pure; the driver and its edge import it.
"""

from enum import StrEnum

import msgspec

from shared.causes import Cause, Family, facts_of


class Traffic(StrEnum):
    """What the fleet says of a request that is about to be sent.

    `SHUT` is the open breaker: the model failed again and again, and one probe at a time finds out
    when it is back. `SPENT` is the retry budget: a provider in trouble is not helped by more.
    """

    GO = "go"
    SHUT = "shut"
    SPENT = "spent"


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a request that is about to be sent; `cause` is what shut the model."""

    word: Traffic
    cause: Cause | None = None


GO = Signal(word=Traffic.GO)


AGAINST = frozenset({Family.OVERLOAD, Family.TIMEOUT, Family.UPSTREAM})
"""Families that say that the model cannot be had for a while. A wrong key or a long prompt say
nothing of it, a throttled key is the key's own, and a wrong address costs nobody time."""


def speaks_against(cause: str) -> bool:
    """Whether a failure counts for the breaker of its model."""
    return facts_of(cause).family in AGAINST

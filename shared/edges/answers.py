"""What the queue answers: words of the scripts, and turns as they are given out.

Comes in: nothing. Goes out: values of `shared.edges.queue`, which re-exports them. Edges import it.
"""

from enum import StrEnum

import msgspec

from shared.turns import AttemptToken, CredentialSource


class Appended(StrEnum):
    """What became of a segment."""

    OK = "ok"
    DUPLICATE = "duplicate"
    FENCED = "fenced"
    GAP = "gap"
    BACKPRESSURE = "backpressure"


class Finished(StrEnum):
    """What became of a terminal event. `GAP`: the server knows another number of segments."""

    OK = "ok"
    FENCED = "fenced"
    GAP = "gap"


class Cancelled(StrEnum):
    """What became of a stop: done (it waited), on its way to a worker, too late, unknown turn."""

    CANCELLED = "cancelled"
    STOPPING = "stopping"
    FINISHED = "finished"
    UNKNOWN = "unknown"


class GivenBack(StrEnum):
    """Where a turn went that its worker gave up; `GONE` had no record any more.

    `EXPIRED` had no worker: it waited too long for one.
    """

    QUEUED = "queued"
    CANCELLED = "cancelled"
    FAILED = "failed"
    DEAD = "dead"
    FENCED = "fenced"
    GONE = "gone"
    EXPIRED = "expired"


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that a worker may run.

    `seq` is the last accepted segment of this attempt: always 0, an attempt starts over.
    `superseding` says that earlier attempts have shown text, which is void now.
    """

    token: AttemptToken
    request: bytes
    seq: int
    crashes: int
    superseding: bool
    enqueued_ms: int
    claimed_ms: int


class TurnFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What lists of turns show and filter by. No text of anyone."""

    provider: str
    model: str
    credential_source: CredentialSource = CredentialSource.SERVER
    replay_of: str | None = None
    created_ms: int = 0

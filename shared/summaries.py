"""A turn that has ended, in numbers: what statistics and the usage ledger are made of.

Comes in: facts of the worker's canonical line. Goes out: a value on the errors stream, beside the
reports, that the recorder counts. No text of anyone. Pure; anyone may import it.
"""

import msgspec

from shared.turns import AttemptUsage, CredentialSource, TurnState, Usage


class TurnSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a turn ended. (turn_id, attempt) names it: sent twice, it is counted once.

    `usage` is the last attempt's, absent counts stay absent. `attempts` has every attempt of the
    claim that ended it, the last one included: each is paid for.
    """

    turn_id: str
    attempt: int
    ended_ms: int
    state: TurnState
    user_id: int
    channel_id: int
    provider: str
    model: str
    guild_id: int | None = None
    serving_provider: str | None = None
    credential_source: CredentialSource = CredentialSource.SERVER
    key_id: str | None = None
    worker_version: str = ""
    cause: str | None = None
    segments: int = 0
    usage: Usage = msgspec.field(default_factory=Usage)
    queued_ms: int | None = None
    first_byte_ms: int | None = None
    first_segment_ms: int | None = None
    elapsed_ms: int | None = None
    attempts: tuple[AttemptUsage, ...] = ()

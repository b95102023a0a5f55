"""What comes back from a worker: segments of a reply, and the events around them.

Comes in: nothing. Goes out: values that `shared.wire` puts on the out streams and a gateway reads.
Pure; anyone may import it.
"""

from enum import StrEnum

import msgspec

from shared.turns import CredentialSource, Route, StopReason, TurnState, Usage

MAX_SEGMENT_CHARS = 2000
"""Discord's limit of a message in code points (developer docs, resources/message)."""

REPLACED = "replaced"
"""A note of a cancelled turn: its user's next message took its place."""
WITHDRAWN = "withdrawn"
"""A note of a cancelled turn: its prompt was deleted, and nobody waits for a word about it."""
MERGED = "merged"
"""A note of a cancelled turn: its prompt is answered together with the next one."""
THOUGHTS = "thoughts"
"""A note of `TurnDone`: what the model thought is kept, and may be looked at."""
FALLBACK = "fallback"
"""A note of `TurnDone`: another model answered, and the channel was not told for a while."""


class DeliveryMode(StrEnum):
    """How a reply is parted: blank lines, each line, each sentence, or the message limit alone."""

    PARAGRAPH = "paragraph"
    LINE = "line"
    SENTENCE = "sentence"
    AGGREGATED = "aggregated"
    EDIT = "edit"
    """As aggregated; meanwhile a reader watches the message grow."""


class SegmentKind(StrEnum):
    """How a segment is shown: as a message, or as a drawn table or a file with a text fallback."""

    TEXT = "text"
    CODE = "code"
    TABLE = "table"
    FILE = "file"


class Segment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One piece of a reply, whole in itself.

    (turn_id, attempt, seq) names it; `seq` counts from 1. `start` and `end` are code-point offsets
    `[start, end)` into the visible text of the attempt. For `table` and `file`, `text` is the
    source (at most 64 KiB) and `fallback` the same as messages of at most 2,000 code points.
    `joint` is the white space between this text and the one before it, for a front that shows both
    in one message; None where they must stay apart. With `picture`, a `file` is the picture that is
    kept under this name, and has no text of its own. `is_last`: nothing of the reply follows it, as
    far as its worker can see; the turn's end says so for sure.
    """

    turn_id: str
    attempt: int
    seq: int
    kind: SegmentKind
    text: str
    start: int
    end: int
    filename: str | None = None
    fallback: tuple[str, ...] = ()
    joint: str | None = None
    picture: str | None = None
    is_last: bool = False


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    pass


class SegmentReady(_Event, frozen=True, kw_only=True, tag="segment"):
    """A segment is to be delivered."""

    segment: Segment


class SegmentPreview(_Event, frozen=True, kw_only=True, tag="preview"):
    """What may be shown of the next segment while it is not whole. The segment takes its place.

    The envelope's `seq` is that of the last segment before it. A preview may be left out.
    """

    text: str


class AttemptSuperseded(_Event, frozen=True, kw_only=True, tag="superseded"):
    """What `attempt` showed is void; the attempt `by` starts again at seq 1."""

    attempt: int
    by: int


class TurnDone(_Event, frozen=True, kw_only=True, tag="done"):
    """The reply is whole: `count` segments of the last attempt. `notes` are keys of notices."""

    count: int
    stop_reason: StopReason = StopReason.STOP
    state: TurnState = TurnState.DONE
    usage: Usage = msgspec.field(default_factory=Usage)
    notes: tuple[str, ...] = ()


class TurnFailed(_Event, frozen=True, kw_only=True, tag="failed"):
    """The turn ended without a whole reply; `count` segments were shown and stay.

    `headline` is a classified, public sentence; upstream text is never in here. `report_id` names
    the `ErrorReport`; `fault` says whose fault it was (`provider`, `turnfleet`, ...).
    """

    cause: str
    category: str
    count: int = 0
    state: TurnState = TurnState.FAILED
    headline: str = ""
    tips: tuple[str, ...] = ()
    fault: str = "provider"
    code: str | None = None
    report_id: str | None = None
    retryable: bool = False
    credential_source: CredentialSource = CredentialSource.SERVER


TurnEvent = SegmentReady | SegmentPreview | AttemptSuperseded | TurnDone | TurnFailed


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """A `TurnEvent` as it lies on an out stream, with what delivery needs to place it.

    `entry_id` is the stream's own id; `claim` is the fencing suffix of the attempt; `seq` is the
    position in the attempt (for terminal events: the count + 1, for a supersede 0, for a preview
    the number of segments before it).
    """

    entry_id: str
    turn_id: str
    attempt: int
    claim: str
    seq: int
    route: Route
    event: TurnEvent

"""Several envelopes shown as one message: texts that pile up, and what is beyond the cap.

Comes in: the envelopes that wait in a channel. Goes out: a `Run`. It opens nothing, and the same
envelopes always give the same run.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

import msgspec

from gateway.delivery.pieces import file_of
from gateway.steps import Piece
from shared.segments import Envelope, Segment, SegmentKind, SegmentPreview, SegmentReady

MAX_MESSAGE_UNITS: Final = 2000
"""Discord counts code points; counting UTF-16 units is never less, and right for whoever does."""
MAX_REST: Final = 400
"""Segments in the file of one reply, 800 KB at most; what is beyond becomes another file."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """So many envelopes from the first on, up to the number `upto`, as one piece."""

    count: int
    upto: int
    piece: Piece


def merged(waiting: Sequence[Envelope], *, upto: int = 0) -> Run | None:
    """Texts of one attempt that fit into one message together; None where the first stands alone.

    Args:
        waiting: the channel's envelopes, the next one first.
        upto: the last number to take, 0 for as many as fit.
    """
    texts: list[str] = []
    units = count = 0
    last = None
    for place, segment in _of_one_attempt(waiting):
        joint = segment.joint if texts else ""
        if segment.kind is not SegmentKind.TEXT or joint is None:
            break
        size = _units(joint) + _units(segment.text)
        if units + size > MAX_MESSAGE_UNITS:
            break
        texts += (joint, segment.text)
        units += size
        last, count = segment, place
        if segment.seq == upto:
            break
    if last is None or len(texts) < 4:  # joint and text of each
        return None
    return Run(count=count, upto=last.seq, piece=Piece(text="".join(texts)))


def has_end(waiting: Sequence[Envelope]) -> bool:
    """Whether it is known what is left of a reply, or enough of it for a file."""
    found = _of_one_attempt(waiting)
    seen = found[-1][0] if found else 0
    while seen < len(waiting) and _is_preview(waiting[seen], waiting[0]):
        seen += 1
    return seen < len(waiting) or len(found) >= MAX_REST


def rest_of(waiting: Sequence[Envelope], intro: str, *, upto: int = 0) -> Run | None:
    """What is left of a reply as a file; None for a single segment, which needs none.

    Pictures have no text, and stay messages of their own.

    Args:
        waiting: the channel's envelopes, the next one first.
        intro: what the message with the file says.
        upto: the last number to take, 0 for all that is there.
    """
    found = [
        (place, segment)
        for place, segment in takewhile(_is_text, _of_one_attempt(waiting)[:MAX_REST])
        if upto == 0 or segment.seq <= upto
    ]
    if len(found) < 2:
        return None
    segments = [segment for _, segment in found]
    texts = [segments[0].text]
    for segment in segments[1:]:
        texts += ("\n\n" if segment.joint is None else segment.joint, segment.text)
    piece = file_of("".join(texts), intro)
    return Run(count=found[-1][0], upto=segments[-1].seq, piece=piece)


def covers(waiting: Sequence[Envelope], upto: int) -> bool:
    """Whether the envelopes of a run that was begun earlier are all here again."""
    return any(segment.seq == upto for _, segment in _of_one_attempt(waiting))


def _of_one_attempt(waiting: Sequence[Envelope]) -> list[tuple[int, Segment]]:
    """The segments from the first on that follow each other without a gap.

    With each, how many envelopes there are up to it: previews between segments are out of date.
    """
    found: list[tuple[int, Segment]] = []
    first = waiting[0]
    for place, envelope in enumerate(waiting, start=1):
        if found and _is_preview(envelope, first):
            continue
        if not isinstance(envelope.event, SegmentReady) or not _is_same(envelope, first):
            break
        if envelope.seq != first.seq + len(found):
            break
        found.append((place, envelope.event.segment))
    return found


def _is_text(found: tuple[int, Segment]) -> bool:
    return found[1].picture is None


def _is_preview(envelope: Envelope, first: Envelope) -> bool:
    return isinstance(envelope.event, SegmentPreview) and _is_same(envelope, first)


def _is_same(envelope: Envelope, first: Envelope) -> bool:
    names = (envelope.turn_id, envelope.attempt, envelope.claim)
    return names == (first.turn_id, first.attempt, first.claim)


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2

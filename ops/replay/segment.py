"""What the segment room makes of a saved text: for operators who look at a message that broke.

Comes in: a text, a delivery mode and a cutting. Goes out: the segments as records, and the messages
that a channel would get. The worker's own room decides, so that this cannot differ from a turn.
"""

from collections.abc import Iterator

import msgspec

from shared.segments import DeliveryMode as DeliveryMode
from shared.segments import Segment
from worker.segments.buffer import SegmentBuffer
from worker.text.graphemes import utf16_units


class Segmented(msgspec.Struct, frozen=True, kw_only=True):
    """A text after the room.

    Args:
        segments: what would be delivered, in order.
        thoughts: reasoning blocks that were taken out of the text.
        details: blocks that were taken out for short-term memory.
    """

    segments: tuple[Segment, ...]
    thoughts: tuple[str, ...]
    details: tuple[str, ...]

    def records(self) -> Iterator[dict[str, object]]:
        """One record per segment."""
        for segment in self.segments:
            yield {
                "seq": segment.seq,
                "kind": segment.kind.value,
                "start": segment.start,
                "end": segment.end,
                "chars": len(segment.text),
                "utf16": utf16_units(segment.text),
                "messages": len(segment.fallback) or 1,
                "filename": segment.filename,
                "text": segment.text,
            }

    def messages(self) -> Iterator[str]:
        """What a channel gets where neither pictures nor files can be sent."""
        for segment in self.segments:
            yield from segment.fallback or (segment.text,)


def segmented(text: str, mode: DeliveryMode, *, cut: int = 0) -> Segmented:
    """Runs the room over `text`, fed in pieces of `cut` characters (0: at once)."""
    buffer = SegmentBuffer("l0", 1, mode=mode)
    size = cut or max(len(text), 1)
    segments = [
        segment for at in range(0, len(text), size) for segment in buffer.feed(text[at : at + size])
    ]
    segments += buffer.flush()
    return Segmented(
        segments=tuple(segments), thoughts=tuple(buffer.thoughts), details=tuple(buffer.details)
    )

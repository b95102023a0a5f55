"""The texts that an event is shown by.

Comes in: an event of a turn. Goes out: messages of at most 2,000 code points, none of them blank.
It opens nothing.
"""

from typing import assert_never

from gateway.notices import Notices
from shared.segments import (
    MAX_SEGMENT_CHARS,
    AttemptSuperseded,
    Segment,
    SegmentKind,
    SegmentReady,
    TurnDone,
    TurnEvent,
    TurnFailed,
)


def pieces_of(
    event: TurnEvent, notices: Notices, *, locale: str, is_command: bool = False
) -> tuple[str, ...]:
    """The texts of an event, in order; none for events that show nothing."""
    match event:
        case SegmentReady():
            return _of_segment(event.segment)
        case TurnDone():
            notice = notices.of_done(
                event, is_silent=event.count == 0, locale=locale, is_command=is_command
            )
            return () if notice is None else (notice,)
        case TurnFailed():
            return (notices.of_failed(event, locale=locale),)
        case AttemptSuperseded():
            return ()
        case _:
            assert_never(event)


def _of_segment(segment: Segment) -> tuple[str, ...]:
    match segment.kind:
        case SegmentKind.TABLE | SegmentKind.FILE if segment.fallback:
            texts = segment.fallback
        case SegmentKind.TEXT | SegmentKind.CODE | SegmentKind.TABLE | SegmentKind.FILE:
            texts = (segment.text,)
        case _:
            assert_never(segment.kind)
    return tuple(part for text in texts for part in _within_limit(text) if part.strip())


def _within_limit(text: str) -> list[str]:
    """The last check: a worker never makes a longer segment, and nothing is lost if one did."""
    parts: list[str] = []
    start = 0
    while len(text) - start > MAX_SEGMENT_CHARS:
        end = text.rfind("\n", start, start + MAX_SEGMENT_CHARS) + 1
        if end <= start:
            end = start + MAX_SEGMENT_CHARS
        parts.append(text[start:end])
        start = end
    parts.append(text[start:])
    return parts

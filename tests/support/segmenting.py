"""Runs the segment room over a text in a cutting, and reads what came out."""

from collections.abc import Iterable, Iterator

from shared.segments import DeliveryMode, Segment, SegmentKind
from worker.segments.buffer import SegmentBuffer
from worker.segments.limits import Limits

MODES = tuple(DeliveryMode)


def limits_for(body: int) -> Limits:
    """The usual proportions for messages of another size."""
    usual = Limits()
    return Limits(
        body=body,
        soft=max(body * usual.soft // usual.body, 1),
        window=max(body * usual.window // usual.body, 1),
        back=max(body * usual.back // usual.body, 1),
        hold=max(body * usual.hold // usual.body, 1),
        rest=body * 8,
    )


class Run:
    """The room after a whole reply: its segments, and what it kept."""

    def __init__(
        self,
        pieces: Iterable[str],
        mode: DeliveryMode = DeliveryMode.PARAGRAPH,
        *,
        end: str = "final",
        limits: Limits | None = None,
    ) -> None:
        self.buffer = SegmentBuffer("l1", 1, mode=mode, limits=limits)
        self.segments = [segment for piece in pieces for segment in self.buffer.feed(piece)]
        if end == "final":
            self.segments += self.buffer.flush()
        else:
            self.segments += self.buffer.flush_pending(for_tool_call=end == "tool_call")

    @property
    def texts(self) -> list[str]:
        return [segment.text for segment in self.segments]

    @property
    def kinds(self) -> list[str]:
        return [segment.kind.value for segment in self.segments]

    @property
    def messages(self) -> list[Segment]:
        """Those segments that are sent as messages."""
        return [s for s in self.segments if s.kind in {SegmentKind.TEXT, SegmentKind.CODE}]


def texts(text: str, mode: DeliveryMode = DeliveryMode.PARAGRAPH) -> list[str]:
    """The texts of the segments of `text`, fed at once."""
    return Run([text], mode).texts


def in_pieces(text: str, size: int) -> list[str]:
    """`text` in pieces of `size` characters."""
    return [text[at : at + size] for at in range(0, len(text), size)]


def cuttings(text: str, step: int = 1) -> Iterator[list[str]]:
    """Whole, one character at a time, in fours, and in two at every `step`-th place."""
    yield [text]
    yield list(text)
    yield in_pieces(text, 4)
    for place in range(1, len(text), step):
        yield [text[:place], text[place:]]

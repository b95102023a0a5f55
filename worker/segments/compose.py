"""Bodies in, numbered segments out; in aggregated mode bodies are packed into messages first.

Comes in: finished texts with the white space around them. Goes out: `Segment`. Used by the
boundaries and readers of the segment room only.
"""

import msgspec

from shared.segments import DeliveryMode, Segment, SegmentKind
from worker.segments.limits import Limits
from worker.text.graphemes import utf16_units

_MARKS = frozenset("*_~|`>")


class Piece(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A text that is ready to be shown.

    Args:
        quote: a mark that each message must begin with.
        lead: white space in front of it, `trail` behind it.
        end: offset in the visible text behind it.
    """

    kind: SegmentKind
    text: str
    end: int
    quote: str = ""
    lead: str = ""
    trail: str = ""
    filename: str | None = None
    fallback: tuple[str, ...] = ()

    @property
    def marked(self) -> str:
        """The text as the start of a message."""
        return self.text if self.text.startswith(self.quote) else self.quote + self.text


_PACKING = frozenset({DeliveryMode.AGGREGATED, DeliveryMode.EDIT})


class Composer:
    """Gives segments their numbers and offsets, without a gap and without an empty one.

    Attributes:
        silent: a guard ended the reply; what follows is not shown.
    """

    def __init__(self, turn_id: str, attempt: int, mode: DeliveryMode, limits: Limits) -> None:
        self._turn_id = turn_id
        self._attempt = attempt
        self._packs = mode in _PACKING
        self._limit = limits.body
        self._seq = 0
        self._end = 0
        self._out: list[Segment] = []
        self._white = ""  # white space since the last piece
        self._last = ""  # the last character that was given out
        self.silent = False
        self._pack: list[Piece] = []
        self._pack_text: list[str] = []
        self._pack_units = 0

    def take(self) -> list[Segment]:
        """What was finished since the last call."""
        out, self._out = self._out, []
        return out

    @property
    def pending(self) -> str:
        """The message that is being packed, as far as it is finished."""
        return "".join(self._pack_text)

    def blank(self, white: str) -> None:
        """Notes white space that stands alone."""
        self._white = _joint(self._white + white)

    def silence(self) -> None:
        """Ends the reply here: no further piece is taken."""
        self.silent = True

    def give(self, piece: Piece) -> None:
        """Takes the next piece."""
        if self.silent:
            return
        if not self._packs:
            self._emit(piece, joint=self._joint_of(piece))
        elif piece.kind in {SegmentKind.TABLE, SegmentKind.FILE}:
            self.close_pack()
            self._emit(piece)
        else:
            self._add(piece)
        self._white = piece.trail

    def attach(self, picture: str, *, filename: str, note: str) -> None:
        """Takes a picture, a segment without text at the end of what was given out."""
        if self.silent:
            return
        self._seq += 1
        self._out.append(
            Segment(
                turn_id=self._turn_id,
                attempt=self._attempt,
                seq=self._seq,
                kind=SegmentKind.FILE,
                text="",
                start=self._end,
                end=self._end,
                filename=filename,
                fallback=(note,),
                picture=picture,
            )
        )

    def close_pack(self) -> None:
        """Gives out the message that is being packed."""
        if not self._pack:
            return
        text = "".join(self._pack_text)
        self._emit(Piece(kind=self._pack_kind, text=text, end=self._pack[-1].end))
        self._pack, self._pack_text, self._pack_units = [], [], 0

    @property
    def _pack_kind(self) -> SegmentKind:
        return self._pack[0].kind if len(self._pack) == 1 else SegmentKind.TEXT

    def _add(self, piece: Piece) -> None:
        between = self._between(piece) if self._pack else ""
        units = utf16_units(piece.text)
        if self._pack_units + len(between) + units > self._limit:
            self.close_pack()
            between = ""
        self._pack.append(piece)
        start = "" if self._pack_text else piece.marked
        self._pack_text += (between, start or piece.text)
        self._pack_units += len(between) + units

    def _between(self, piece: Piece) -> str:
        joint = _joint(self._white + piece.lead)
        if joint != "\n\n" and SegmentKind.CODE in {piece.kind, self._pack_kind}:
            return "\n"
        return joint

    def _joint_of(self, piece: Piece) -> str | None:
        """What stands between this text and the last one; None where they cannot be one message.

        Quotes have a mark of their own in each message, and marks that a cut has closed and opened
        again are not the same without it.
        """
        last, self._last = self._last, piece.text[-1:]
        if self._seq == 0 or piece.quote or piece.kind is not SegmentKind.TEXT:
            return None
        joint = _joint(self._white + piece.lead)
        if not joint and (last in _MARKS or piece.text[:1] in _MARKS):
            return None
        return joint

    def _emit(self, piece: Piece, *, joint: str | None = None) -> None:
        self._seq += 1
        start, self._end = self._end, piece.end
        self._out.append(
            Segment(
                turn_id=self._turn_id,
                attempt=self._attempt,
                seq=self._seq,
                kind=piece.kind,
                text=piece.marked,
                start=start,
                end=piece.end,
                filename=piece.filename,
                fallback=piece.fallback,
                joint=joint,
            )
        )


def _joint(white: str) -> str:
    """What joins two pieces in a message with `white` between them: the same, condensed."""
    ends = white.count("\n")
    return "\n" * min(ends, 2) if ends else white[:1] and " "

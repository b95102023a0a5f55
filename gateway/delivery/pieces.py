"""What an event is shown by, and what stands in for that where it is not allowed.

Comes in: an event of a turn. Goes out: pieces, each a message of at most 2,000 code points, none of
them blank. It opens nothing.
"""

import re
from typing import Final, assert_never

import msgspec

from gateway.front import Button, OutgoingFile
from gateway.notices import Notices
from gateway.steps import Piece
from shared.segments import (
    MAX_SEGMENT_CHARS,
    AttemptSuperseded,
    Segment,
    SegmentKind,
    SegmentPreview,
    SegmentReady,
    TurnDone,
    TurnEvent,
    TurnFailed,
)

MAX_TRIES: Final = 2
"""A refused text is halved, then it goes as a file; more would be guessing."""
MAX_PREVIEW_CHARS: Final = MAX_SEGMENT_CHARS - 4
"""A preview is cut where a message ends; its segment is not."""
GOES_ON: Final = " \u2026"
TABLE_FILE: Final = "table.png"
TABLE_SOURCE_FILE: Final = "table.md"
PICTURE_FILE: Final = "picture.png"
TEXT_FILE: Final = "reply.md"
CODE_FILE: Final = "code.txt"
SOURCE_ACTION: Final = "source"
"""The custom id of "Show source" is this word, a colon and the name of the stored source."""

_FENCED = re.compile(r"(?s)\A(?:\|\|)?```[^\n]*\n(.*?)\n?```(?:\|\|)?\Z")


def pieces_of(
    event: TurnEvent,
    notices: Notices,
    *,
    locale: str,
    is_command: bool = False,
    turn_id: str | None = None,
) -> tuple[Piece, ...]:
    """The pieces of an event, in order; none for events that show nothing.

    With `turn_id` the end of a turn has its buttons, where it is said at all.
    """
    match event:
        case SegmentReady():
            return _of_segment(event.segment)
        case TurnDone():
            notice = notices.of_done(
                event, is_silent=event.count == 0, locale=locale, is_command=is_command
            )
            return () if notice is None else (_ended(notice, event, notices, turn_id, locale),)
        case TurnFailed():
            notice = notices.of_failed(event, locale=locale)
            return (_ended(notice, event, notices, turn_id, locale),)
        case SegmentPreview(text=text):
            return (Piece(text=_previewed(text), tries=MAX_TRIES),) if text.strip() else ()
        case AttemptSuperseded():
            return ()
        case _:
            assert_never(event)


def _ended(
    notice: str, event: TurnDone | TurnFailed, notices: Notices, turn_id: str | None, locale: str
) -> Piece:
    if turn_id is None:
        return Piece(text=notice)
    return Piece(text=notice, buttons=notices.buttons_of(event, turn_id, locale=locale))


def otherwise(piece: Piece) -> tuple[Piece, ...]:
    """What to show instead of a piece that is not taken: the same text, in another form.

    Files become text. A text is parted in two, and a part that is refused as well becomes a file.
    None are left in the end: the text cannot be shown. The same piece always gives the same.
    """
    if piece.plain:
        return piece.plain
    if piece.files or piece.table is not None or piece.tries >= MAX_TRIES:
        return ()
    if piece.tries == 0:
        head, tail = _halves(piece.text)
        parts = (head, tail) if tail.strip() else (head,)
        return tuple(msgspec.structs.replace(piece, text=part, tries=1) for part in parts)
    return (
        Piece(files=(OutgoingFile(name=TEXT_FILE, data=piece.text.encode()),), tries=MAX_TRIES),
    )


def resumed(pieces: tuple[Piece, ...], again: tuple[int, ...]) -> tuple[Piece, ...]:
    """The pieces as an earlier life put them otherwise, at these places one after another."""
    for at in again:
        if at < len(pieces):
            pieces = (*pieces[:at], *otherwise(pieces[at]), *pieces[at + 1 :])
    return pieces


def with_picture(piece: Piece, picture: bytes, source_id: str, label: str) -> Piece:
    """A table's piece, drawn, with a button that shows its source."""
    return msgspec.structs.replace(
        piece,
        files=(OutgoingFile(name=TABLE_FILE, data=picture),),
        buttons=(Button(custom_id=f"{SOURCE_ACTION}:{source_id}", label=label),),
        table=None,
    )


def with_file(piece: Piece, data: bytes) -> Piece:
    """A picture's piece, with the picture."""
    file = OutgoingFile(name=piece.filename, data=data)
    return msgspec.structs.replace(piece, files=(file,), picture=None)


def within(pieces: tuple[Piece, ...], room: int) -> tuple[Piece, ...]:
    """The pieces, a table that cannot be drawn as a file where `room` messages cannot hold it."""
    return tuple(
        _filed(piece, piece.table)
        if piece.table is not None and len(piece.plain) > max(room, 1)
        else piece
        for piece in pieces
    )


def _filed(piece: Piece, table: str) -> Piece:
    file = OutgoingFile(name=TABLE_SOURCE_FILE, data=table.encode())
    return msgspec.structs.replace(piece, plain=(Piece(files=(file,), plain=piece.plain),))


def file_of(text: str, intro: str) -> Piece:
    """A text that is too long for messages, as a file; its plain form is messages all the same."""
    plain = tuple(Piece(text=part) for part in _within_limit(text) if part.strip())
    return Piece(text=intro, files=(OutgoingFile(name=TEXT_FILE, data=text.encode()),), plain=plain)


def _of_segment(segment: Segment) -> tuple[Piece, ...]:
    plain = _plain(segment)
    match segment.kind:
        case SegmentKind.TEXT | SegmentKind.CODE:
            return plain
        case SegmentKind.TABLE:
            return (Piece(table=segment.text, plain=plain),) if plain else ()
        case SegmentKind.FILE if segment.picture is not None:
            name = segment.filename or PICTURE_FILE
            return (Piece(picture=segment.picture, filename=name, plain=plain),)
        case SegmentKind.FILE:
            found = _FENCED.match(segment.text)
            data = (found[1] if found else segment.text).encode()
            file = OutgoingFile(name=segment.filename or CODE_FILE, data=data)
            return (Piece(files=(file,), plain=plain),) if plain else ()
        case _:
            assert_never(segment.kind)


def _previewed(text: str) -> str:
    """A text that may still grow: never longer than a message, with a mark where it goes on."""
    shown = text[:MAX_PREVIEW_CHARS].rstrip()
    return f"{shown}{GOES_ON}"


def _plain(segment: Segment) -> tuple[Piece, ...]:
    texts = segment.fallback or (segment.text,)
    return tuple(Piece(text=part) for text in texts for part in _within_limit(text) if part.strip())


def _halves(text: str) -> tuple[str, str]:
    """A text in two, at the line end or blank that is nearest to its middle."""
    middle = len(text) // 2
    for mark in ("\n", " "):
        before, after = text.rfind(mark, 1, middle + 1), text.find(mark, middle, len(text) - 1)
        places = [at for at in (before, after) if at > 0]
        if places:
            at = min(places, key=lambda place: abs(place - middle))
            return text[:at], text[at + 1 :]
    return text[:middle] or text, text[middle:] if middle else ""


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

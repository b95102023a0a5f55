"""What the guards pass to each other: visible text, reasoning, calls.

Comes in: nothing. Goes out: values between the stages of `worker.chunks.processor`. Pure; for
`worker.chunks` only.
"""

from collections.abc import Iterable

import msgspec

from shared.messages import ArgumentState
from shared.private import told_by_size


class Visible(msgspec.Struct, frozen=True, gc=False):
    """Text of the answer."""

    __repr__ = told_by_size

    text: str


class Reasoned(msgspec.Struct, frozen=True, gc=False):
    """Text that was reasoning, taken out of the answer."""

    __repr__ = told_by_size

    text: str


class Called(msgspec.Struct, frozen=True):
    """A tool call that was written into the prose."""

    __repr__ = told_by_size

    name: str
    args: dict[str, object]
    state: ArgumentState


Piece = Visible | Reasoned | Called


def merged(pieces: Iterable[Piece]) -> list[Piece]:
    """Joins neighbours of one kind and drops empty ones."""
    result: list[Piece] = []
    texts: list[str] = []
    kind: type[Visible] | type[Reasoned] = Visible
    for piece in pieces:
        if isinstance(piece, Called) or (texts and type(piece) is not kind):
            _close(result, kind, texts)
        if isinstance(piece, Called):
            result.append(piece)
        elif piece.text:
            kind = type(piece)
            texts.append(piece.text)
    _close(result, kind, texts)
    return result


def _close(result: list[Piece], kind: type[Visible] | type[Reasoned], texts: list[str]) -> None:
    if texts:
        result.append(kind("".join(texts)))
        texts.clear()


class HoldTimer:
    """Tells when a hold is too old. The clock is the driver's, given by `tick`.

    A hold is named by a number that changes whenever another hold begins, so that many short
    holds, one after the other, are not taken for one long hold.
    """

    __slots__ = ("_hold", "_limit_s", "_since_s")

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._hold: int | None = None
        self._since_s = 0.0

    def expired(self, hold: int | None, now_s: float) -> bool:
        """Whether `hold` (None for no hold) has lasted since a tick `limit_s` ago or longer."""
        if hold is None or hold != self._hold:
            self._hold, self._since_s = hold, now_s
        return hold is not None and now_s - self._since_s >= self._limit_s

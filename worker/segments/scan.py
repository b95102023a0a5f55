"""The machine that the readers share: who reads now, what is held, what is read again.

Comes in: text, as far as it has arrived. Goes out: calls to the present reader, and the part of
the text that cannot be understood yet. Used by the segment room only.

How any cutting of the input gives the same segments: a reader consumes a token only when it cannot
grow any more, plain text is consumed up to the window's trigger at most, so that decisions of size
are taken exactly there, and decisions read the consumed text, never what has arrived beside it.
"""

from collections.abc import Callable
from typing import Protocol

from shared.segments import DeliveryMode
from worker.segments.boundaries import Boundaries
from worker.segments.cleaning import Cleaner
from worker.segments.compose import Composer
from worker.segments.limits import Limits
from worker.segments.markers import Markers
from worker.segments.window import Window

Wake = Callable[[str], object]
"""Tells whether a piece of text must be read at once (an answer that is not None)."""


class Reader(Protocol):
    """Reads one kind of text: prose, inline code, a fence, a table, a private block."""

    holds_prose: bool
    """What the window holds while it reads is prose (not code, not rows)."""

    def read(self, data: str, start: int, *, final: bool) -> int:
        """Consumes `data` from `start` on; returns where it stopped: more text decides the rest.

        It also stops where another reader takes over. With `final` all must be consumed.
        """

    def grew(self) -> None:
        """The window reached its trigger."""

    def wake(self) -> Wake | None:
        """What decides whether a piece must be read at once; None wants every piece."""


class Scan:
    """State between the readers.

    Attributes:
        reader: who reads what comes next.
        replay: text to be read again by the present reader, before anything else.
        long_run: the character of a run that is too long to be a marker.
    """

    def __init__(
        self,
        *,
        mode: DeliveryMode,
        limits: Limits,
        composer: Composer,
        cleaner: Cleaner,
        base: int = 0,
    ) -> None:
        self.mode = mode
        self.limits = limits
        self.composer = composer
        self.window = Window(base)
        self.markers = Markers()
        self.boundaries = Boundaries(self.window, self.markers, composer, limits, cleaner)
        self.reader: Reader  # set by whoever knows all readers
        self.replay = ""
        self.long_run = ""
        self.boundaries.retrigger()

    def run(self, data: str, *, final: bool) -> str:
        """Lets the readers consume `data`; returns what waits for more text."""
        at = 0
        while True:
            reader = self.reader
            stop = reader.read(data, at, final=final)
            if self.replay:
                data, self.replay, at = self.replay + data[stop:], "", 0
                continue
            same = self.reader is reader
            if same and (stop == at or stop >= len(data)):
                break
            if stop >= len(data) and not final:
                break
            at = stop
        return data[stop:]

    def append(self, run: str) -> None:
        """Takes a run of characters into the window, and what follows from its size."""
        if self.window.append(run):
            self.reader.grew()

    def plain(self, data: str, start: int, stop: int) -> int:
        """Consumes plain text up to the trigger at most; returns where it stopped."""
        window = self.window
        stop = min(stop, start + window.trigger - window.pos)
        if window.append(data[start:stop]):
            self.reader.grew()
        return stop

    def follow_run(self, data: str, start: int, between: str = "") -> int:
        """Consumes a run that is too long to be a marker; `between` breaks it."""
        reader, stop, end = self.reader, start, len(data)
        while stop < end and data[stop] == self.long_run:
            stop += 1
        if stop < end:
            self.long_run = ""
        while start < stop and self.reader is reader and not self.replay:
            if between:
                self.append(data[start] + between)
                self.window.skip(-len(between))
                start += 1
            else:
                start = self.plain(data, start, stop)
        return start

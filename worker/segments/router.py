"""Routes private blocks out of the visible text: reasoning to thoughts, details to memory.

Comes in: text from a `<` on, wherever prose or a table finds one. Goes out: the inner text of the
blocks; what stands around them goes on as if they had not been there. Tags in code never arrive
here. Used by `worker.segments.buffer` only.
"""

import re
from typing import assert_never

from worker.segments.prose import NEED_MORE
from worker.segments.scan import Reader, Scan, Wake
from worker.text.tags import Family, Tag, Unfinished, tag_at

_WAKE = re.compile(r">").search


class PrivateReader:
    """The reader of blocks that are not shown. Blocks of one family nest.

    Attributes:
        blocks: for each family, the inner texts in order.
    """

    holds_prose = True

    def __init__(self, scan: Scan, blocks: dict[Family, list[str]]) -> None:
        self._scan = scan
        self._blocks = blocks
        self._gap: GapReader
        self._prose: Reader
        self._outer: Reader
        self._family = Family.THINK
        self._depth = 0
        self._inner: list[str] = []

    def attach(self, prose: Reader, gap: "GapReader") -> None:
        """Says who reads on behind a block in prose."""
        self._prose, self._gap = prose, gap

    def open(self, data: str, start: int, *, final: bool) -> int:
        """Opens a block at the `<`, or takes it as text; an orphan closer is never shown."""
        tag = tag_at(data, start, final=final)
        match tag:
            case Unfinished():
                return NEED_MORE
            case None:
                self._scan.append("<")
                return start + 1
            case Tag():
                if not tag.closes:
                    self._outer = self._scan.reader
                    self._family, self._depth, self._inner = tag.family, 1, []
                    self._scan.reader = self
                return tag.end
            case _:
                assert_never(tag)

    def read(self, data: str, start: int, *, final: bool) -> int:
        """Consumes a private block (see `Reader`)."""
        while start < len(data) and self._scan.reader is self:
            angle = data.find("<", start)
            if angle < 0:
                self._inner.append(data[start:])
                return len(data)
            self._inner.append(data[start:angle])
            tag = tag_at(data, angle, final=final)
            match tag:
                case Unfinished():
                    return angle
                case None:
                    self._inner.append("<")
                    start = angle + 1
                case Tag():
                    self._tag(tag, data[angle : tag.end])
                    start = tag.end
                case _:
                    assert_never(tag)
        return start

    def grew(self) -> None:
        """Nothing enters the window here."""

    def wake(self) -> Wake | None:
        """What ends a tag."""
        return _WAKE

    def close(self) -> None:
        """Ends the block: at its closing tag, or where the reply ends."""
        text = "".join(self._inner).strip()
        if text:
            self._blocks[self._family].append(text)
        self._inner = []
        if self._outer is self._prose:
            self._gap.begin(self._prose)
        else:
            self._scan.reader = self._outer

    def _tag(self, tag: Tag, text: str) -> None:
        if tag.family is self._family:
            self._depth += -1 if tag.closes else 1
            if not self._depth:
                self.close()
                return
        self._inner.append(text)


class GapReader:
    """The reader of white space behind a block: it and what stands before count as the larger."""

    holds_prose = True

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self._prose: Reader
        self._white = ""

    def begin(self, prose: Reader) -> None:
        """Takes over behind a block."""
        self._prose, self._white = prose, ""
        self._scan.reader = self

    def read(self, data: str, start: int, *, final: bool) -> int:
        """Consumes white space, then gives back what is left of it (see `Reader`)."""
        stop = start
        while stop < len(data) and data[stop].isspace():
            stop += 1
        self._white += data[start:stop]
        if stop == len(data) and not final:
            return stop
        keep = self._kept()
        scan = self._scan
        scan.window.skip(len(self._white) - len(keep))
        scan.reader, scan.replay = self._prose, keep
        return stop

    def grew(self) -> None:
        """Nothing enters the window here."""

    def wake(self) -> Wake | None:
        """Every piece: the first visible character ends the gap."""
        return None

    def _kept(self) -> str:
        window = self._scan.window
        after, before = self._white.count("\n"), window.line_ends if window.blank else 0
        if after:
            indent = self._white.rsplit("\n", 1)[-1]
            return "\n" * max(0, min(after, 2) - before) + indent
        if self._white and not before and not window.prev.isspace():
            return " "
        return ""

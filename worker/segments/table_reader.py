"""Reads tables: a head, its rule, then rows until a line that is none.

Comes in: text in pieces, behind a line that looks like a head. Goes out: table segments with a
plain fallback. `worker.segments.buffer` uses it.
"""

import re

from shared.segments import DeliveryMode, SegmentKind
from worker.segments.boundaries import Cut, Expiry
from worker.segments.compose import Piece
from worker.segments.markers import Kind
from worker.segments.prose import NEED_MORE, TagOpener
from worker.segments.scan import Reader, Scan, Wake
from worker.segments.tables import aligned, cells, is_separator

_SEPARATOR_CHARS = re.compile(r"[|:\- \t]*")
_ROW_MARK = re.compile(r"[\n<`]")
_WAKE = re.compile(r"[\n\r]").search
_ROW_BREAK = re.compile(r"[\n\r][ \t]*[^| \t]").search
_MAX_INDENT = 64  # blanks in front of a row; more of them are text


class SeparatorReader:
    """The reader of the one line behind what may be the head of a table."""

    holds_prose = False

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self._prose: Reader
        self._table: TableReader
        self._head = (0, 0)
        self._raw = ""

    def attach(self, prose: Reader, table: "TableReader") -> None:
        """Says who reads on: rows if there is a rule, prose if not."""
        self._prose, self._table = prose, table

    def begin(self, start: int, stop: int) -> None:
        """Takes over behind the head `[start, stop)`."""
        self._head, self._raw = (start, stop), ""
        self._scan.reader = self

    def read(self, data: str, start: int, *, final: bool) -> int:
        """Consumes a rule, or gives what was read back to prose (see `Reader`)."""
        scan, limit = self._scan, self._scan.limits.window
        found = _SEPARATOR_CHARS.match(data, start)
        stop = found.end() if found else start
        self._raw += data[start:stop]
        at_end = stop == len(data)
        if at_end and not final and len(self._raw) <= limit:
            return stop
        complete = (at_end or data[stop] == "\n") and len(self._raw) <= limit
        head = scan.window.slice(*self._head)
        if complete and is_separator(self._raw, len(cells(head))):
            scan.window.skip(len(self._raw) + (not at_end))
            self._table.begin(head.strip(), self._raw.strip(), self._head[0])
            return stop if at_end else stop + 1
        scan.reader, scan.replay = self._prose, self._raw
        if scan.mode is not DeliveryMode.PARAGRAPH:
            scan.boundaries.candidate(self._head[1])
        return stop

    def grew(self) -> None:
        """Nothing enters the window here."""

    def wake(self) -> Wake | None:
        """Every piece: the line may end in it, or turn out to be none."""
        return None


class _RowWatch:
    """Wakes at the first line that does not begin with a bar: rows can be read many at once."""

    __slots__ = ("_at_start",)

    def __init__(self, *, at_start: bool) -> None:
        self._at_start = at_start

    def __call__(self, text: str) -> bool | None:
        if self._at_start:
            first = text.lstrip(" \t")[:1]
            if first and first != "|":
                return True
            self._at_start = not first
        if "\n" in text or "\r" in text:
            if _ROW_BREAK(text):
                return True
            self._at_start = text.rstrip(" \t")[-1] in "\n\r"
        return None


class TableReader:
    """The reader of rows. A table is no hold: it is kept until it ends, or fills a segment."""

    holds_prose = False

    def __init__(self, scan: Scan, tags: TagOpener) -> None:
        self._scan = scan
        self._tags = tags
        self._prose: Reader
        self._rows: list[str] = []
        self._size = 0
        self._bars = False  # rows begin with a bar, as the head does
        self._at_row_start = True
        self._in_code = False

    def attach(self, prose: Reader) -> None:
        """Says who reads on behind the table."""
        self._prose = prose

    def begin(self, head: str, rule: str, position: int) -> None:
        """Gives out what stands before the head at `position`, and takes over."""
        scan, window = self._scan, self._scan.window
        below = scan.markers.at(position)
        scan.boundaries.forget_behind(position)
        scan.boundaries.expire(Expiry.STRUCTURE)
        if position > window.base:
            scan.markers.stack = tuple(item for item in below if not item.dead)
            scan.boundaries.cut(position, Cut.FINAL)
        scan.markers.restart(
            tuple(item for item in below if not item.dead and item.kind is Kind.SPOILER)
        )
        scan.boundaries.restart()
        window.drop_before(window.pos)
        self._rows = [head, rule]
        self._bars = head.startswith("|")
        self._size = len(head) + len(rule)
        self._at_row_start = True
        scan.reader = self
        self._retrigger()

    def read(self, data: str, start: int, *, final: bool) -> int:
        """Consumes rows (see `Reader`)."""
        scan, size = self._scan, len(data)
        while start < size and scan.reader is self:
            if self._at_row_start:
                row = self._whole_row(data, start)
                if row == NEED_MORE:
                    row = self._row_start(data, start, final)
                if row == NEED_MORE:
                    break
                start = row
                continue
            found = _ROW_MARK.search(data, start)
            if found is None or found.start() > start:
                start = scan.plain(data, start, found.start() if found else size)
                continue
            stop = self._mark(data, start, final)
            if stop == NEED_MORE:
                break
            start = stop
        return start

    def grew(self) -> None:
        """A row longer than a message is none."""
        self.end()

    def wake(self) -> Wake | None:
        """A row's end, and everything where a row may begin."""
        if self._bars:
            return _RowWatch(at_start=self._at_row_start)
        return None if self._at_row_start else _WAKE

    def finish(self) -> None:
        """Nothing follows: takes the last line as a row if it is one."""
        if not len(self._scan.window) or self._take_row():
            self.end()

    def end(self) -> None:
        """Gives the table out, and what is held of a line that is no row back to prose."""
        scan, window = self._scan, self._scan.window
        self._give(window.base)
        self._rows = []
        scan.replay = window.rewind(window.base) + scan.replay
        window.start_line(line_ends=1)
        window.prev = "\n"
        scan.reader = self._prose
        scan.boundaries.retrigger()

    def _whole_row(self, data: str, start: int) -> int:
        """Takes a plain row that is there to its end, without reading its characters."""
        found = _ROW_MARK.search(data, start)
        if found is None or found.group() != "\n":
            return NEED_MORE
        stop, first = found.start(), data[start]
        if stop - start >= self._scan.limits.body or (first != "|" and self._bars):
            return NEED_MORE
        row = data[start:stop].strip()
        if first.isspace() or "|" not in row:
            return NEED_MORE
        self._make_room(row)
        self._scan.window.skip(stop - start)
        self._add(row)
        return stop + 1

    def _row_start(self, data: str, start: int, final: bool) -> int:
        stop, limit = start, min(len(data), start + _MAX_INDENT)
        while stop < limit and data[stop] in " \t":
            stop += 1
        if stop == len(data) and not final and stop < start + _MAX_INDENT:
            return NEED_MORE
        if stop == limit or data[stop] == "\n" or (self._bars and data[stop] != "|"):
            self.end()
            return start
        self._at_row_start = self._in_code = False
        return start

    def _mark(self, data: str, start: int, final: bool) -> int:
        char = data[start]
        if char == "\n":
            return start + 1 if self._take_row() else start
        if char == "<" and not self._in_code:
            return self._tags.open(data, start, final=final)
        if char == "`":
            self._in_code = not self._in_code
        self._scan.append(char)
        return start + 1

    def _take_row(self) -> bool:
        """Takes the held line as a row; False if it is none, and the table is over."""
        window = self._scan.window
        row = window.text.strip()
        if "|" not in row:
            self.end()
            return False
        self._make_room(row)
        self._add(row)
        return True

    def _make_room(self, row: str) -> None:
        """Gives out the rows so far if this one does not fit; the head is repeated."""
        if self._size + len(row) > self._scan.limits.rest:
            self._give(self._scan.window.base)
            del self._rows[2:]
            self._size = sum(map(len, self._rows))

    def _add(self, row: str) -> None:
        window = self._scan.window
        self._rows.append(row)
        self._size += len(row) + 1
        window.skip(1)
        window.drop_before(window.pos)
        self._at_row_start = True
        self._retrigger()

    def _retrigger(self) -> None:
        window = self._scan.window
        window.trigger = window.base + self._scan.limits.body

    def _give(self, end: int) -> None:
        scan = self._scan
        scan.composer.give(
            Piece(
                kind=SegmentKind.TABLE,
                text="\n".join(self._rows),
                end=scan.window.offset(end),
                lead="\n",
                trail="\n",
                fallback=aligned(self._rows, scan.limits.body),
            )
        )

"""Reads inline code: what stands between two equal runs of backticks.

Comes in: text in pieces, behind an opening run. Goes out: a closed span, or, when it never closes,
the same text again as prose. Used by `worker.segments.code` and `worker.segments.buffer` only.
"""

import re

from worker.segments.limits import MAX_MARKER_RUN
from worker.segments.markers import Kind, Open
from worker.segments.scan import Reader, Scan, Wake
from worker.text.graphemes import fits
from worker.text.tags import holds_tag

_TOKEN = re.compile(r"\n|`+")
_WAKE = re.compile(r"[\n\r`]").search


class SpanReader:
    """The reader of inline code.

    Ticks that never close are undone: what followed them is read again as prose, at most once per
    length of a run, and nothing of it has been given out.
    """

    holds_prose = True

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self._prose: Reader
        self._span: Open
        self._line_start = 0  # where the line stood before the span, should it be undone
        self._pipes = 0

    def begin(self, run: str, prose: Reader) -> None:
        """Takes over behind the opening run."""
        scan, window = self._scan, self._scan.window
        self._prose = prose
        self._span = Open(Kind.CODE, run, window.pos)
        self._line_start, self._pipes = window.line_start, window.pipes
        scan.append(run)
        scan.reader = self
        scan.markers.put((*scan.markers.stack, self._span), window.pos)
        scan.boundaries.retrigger()

    def read(self, data: str, start: int, *, final: bool) -> int:
        """Consumes inline code (see `Reader`)."""
        scan, size = self._scan, len(data)
        while start < size and scan.reader is self:
            if scan.long_run:
                start = scan.follow_run(data, start)
                continue
            found = _TOKEN.search(data, start)
            if found is None or found.start() > start:
                start = scan.plain(data, start, found.start() if found else size)
                continue
            run = found.group()
            if run == "\n":
                if scan.window.blank and scan.window.line_ends:
                    self._undo()  # a blank line ends what was never closed
                    return start
                self._line_end()
            elif len(run) > MAX_MARKER_RUN:
                scan.long_run = "`"
                continue
            elif found.end() == size and not final:
                break
            else:
                self._ticks(run)
            start = found.end()
        if final and start == size and scan.reader is self:
            self._undo()
        return start

    def grew(self) -> None:
        """The window reached its trigger: a span that is too long is none."""
        scan, window = self._scan, self._scan.window
        early = self._span.pos - window.base < scan.limits.back
        too_long = window.pos - self._span.pos >= scan.limits.hold
        if too_long or (early and not fits(window.text, scan.limits.body)):
            self._undo()
        else:
            scan.boundaries.grew()

    def wake(self) -> Wake | None:
        """A line end or a tick."""
        return None if self._scan.long_run else _WAKE

    def _line_end(self) -> None:
        window = self._scan.window
        self._scan.append("\n")
        if self._scan.reader is self:
            window.line_start, window.blank, window.line_ends = window.pos, True, 1

    def _ticks(self, run: str) -> None:
        scan, window, span = self._scan, self._scan.window, self._span
        scan.append(run)
        if scan.reader is not self or run != span.marker:
            return
        inner = window.slice(span.pos, window.pos)
        if "\n" in inner and holds_tag(inner):
            self._undo()  # stray ticks on two lines protect no private block
            return
        scan.reader = self._prose
        scan.boundaries.code_spans.append((span.pos, window.pos))
        scan.markers.remove(span, window.pos)
        scan.boundaries.retrigger()

    def _undo(self) -> None:
        """The ticks were text, and what came behind them is read again as prose."""
        scan, window, span = self._scan, self._scan.window, self._span
        start = span.pos + len(span.marker)
        scan.replay = window.rewind(start) + scan.replay
        window.line_start, window.pipes = self._line_start, self._pipes
        window.prev, window.blank, window.line_ends = "`", False, 0
        scan.long_run = ""
        scan.markers.rewind(start, span)
        scan.reader = self._prose
        scan.boundaries.retrigger()

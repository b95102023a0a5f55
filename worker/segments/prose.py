"""Reads prose: lines, markers, escapes, sentence ends, and where code, tables, blocks begin.

Comes in: text in pieces, from `worker.segments.scan`. Goes out: boundaries, markers, and the turn
of another reader. `worker.segments.buffer` drives it; the other readers use its names.
"""

import re
from collections.abc import Callable
from typing import Protocol

import msgspec
import regex

from shared.segments import DeliveryMode
from worker.segments.boundaries import Expiry
from worker.segments.limits import MAX_MARKER_RUN
from worker.segments.markers import Kind
from worker.segments.scan import Scan, Wake
from worker.segments.tables import looks_like_header
from worker.text.lexicon import CLOSING_MARKS, END_MARKS, OPENING_OF, PAIRED_QUOTE_MARKS
from worker.text.sentences import EndKind, judge_end

NEED_MORE = -1
"""A reader's step answers this where only more text decides what stands there."""

_MARKS = r"\n`*~|()\[\]\"<\\" + "".join(PAIRED_QUOTE_MARKS) + "".join(OPENING_OF)
_MARK = re.compile(f"[{_MARKS}]").search
_MARK_OR_END = re.compile(f"[{_MARKS}{END_MARKS}]").search
_RUNS = {
    **{char: re.compile(re.escape(char) + "+").match for char in "`*~|"},
    **dict.fromkeys(END_MARKS, re.compile(f"[{END_MARKS}]+").match),
}
_WAKE = re.compile(r"[\n\r]").search
_WAKE_SENTENCE = re.compile(f"[\\n\\r{END_MARKS}]").search
_LIST_ITEM = regex.compile(r"[ \t]{0,8}(?:[-*+]|\d{1,9}[.)])[ \t]")
_LIST_STARTS = frozenset(" \t-*+0123456789")
_INDENTED = re.compile(r"(?: {2}|\t)")
_HEADING = re.compile(r"(?:#{1,3}|-#) \S")
_WHOLE_LINE = re.compile(rf"{_HEADING.pattern}|[ \t]*+\|(?!\|)")  # a heading, or a row of a table
_LOOK_BACK_CHARS = 64
_MAX_LIST_MARK = 32  # more than any list mark with its indentation
_SUBTEXT = "-#"


class CodeOpener(Protocol):
    """Opens inline code or a fence where prose finds ticks."""

    def open(self, run: str, data: str, after: int, *, final: bool) -> int:
        """Consumes the run that ends at `after`; returns where it stopped, or `NEED_MORE`."""


class TagOpener(Protocol):
    """Opens a private block where prose or a table finds a `<`."""

    def open(self, data: str, start: int, *, final: bool) -> int:
        """Consumes the tag at `start`, or the `<`; returns the end, or `NEED_MORE`."""


class TableOpener(Protocol):
    """Reads the line behind what may be the head of a table."""

    def begin(self, start: int, stop: int) -> None:
        """Takes over behind the head `[start, stop)`."""


class SentenceMark(msgspec.Struct, gc=False):
    """A sentence end that waits for what follows it.

    Args:
        spaced: white space has followed already.
    """

    kind: EndKind
    end: int
    spaced: bool = False


Step = Callable[[str, str, int, bool], int]
"""(run, data, end of the run, final) to where the step stopped."""


class ProseReader:
    """The reader of everything that is no code, no table and not private."""

    holds_prose = True

    def __init__(
        self, scan: Scan, *, code: CodeOpener, tags: TagOpener, tables: TableOpener
    ) -> None:
        self._scan = scan
        self._code = code
        self._tags = tags
        self._tables = tables
        self._paragraphs = scan.mode is DeliveryMode.PARAGRAPH
        sentences = scan.mode is DeliveryMode.SENTENCE
        self._search = _MARK_OR_END if sentences else _MARK
        self._wake = _WAKE_SENTENCE if sentences else _WAKE
        self._blank_end: int | None = None  # a blank line that waits for the next line's kind
        self._mark: SentenceMark | None = None
        self._steps: dict[str, Step] = {
            "\n": self._line_end,
            "\\": self._escape,
            "<": self._angle,
            "`": self._ticks,
            "~": self._tildes,
            **dict.fromkeys(END_MARKS, self._end_marks),
        }

    def read(self, data: str, start: int, *, final: bool) -> int:
        """Consumes prose (see `Reader`)."""
        scan, size, search = self._scan, len(data), self._search
        while start < size:
            if scan.long_run:
                start = scan.follow_run(data, start)
                if start == size:
                    break
            blank_end = self._blank_end
            if blank_end is not None and not self._knows_line(blank_end, data, start, final):
                break
            follows = self._follow(self._mark, data[start]) if self._mark else None
            found = search(data, start)
            if found is None or found.start() > start:
                start = self._text(data, start, found.start() if found else size, follows)
            else:
                stop = self._step(data, start, follows, final)
                if stop == NEED_MORE:
                    break
                start = stop
            if scan.reader is not self:
                break
        return start

    def grew(self) -> None:
        """The window reached its trigger."""
        self._scan.boundaries.grew()

    def wake(self) -> Wake | None:
        """A line end, or whatever follows an end that waits."""
        waits = self._mark is not None or self._blank_end is not None
        return None if waits or self._scan.long_run else self._wake

    def stall(self) -> None:
        """Nothing came for a while: what is finished and balanced is a boundary."""
        scan = self._scan
        self._end_paragraph()
        if scan.reader.holds_prose:
            scan.boundaries.stall(lines_only=scan.mode is DeliveryMode.LINE)

    def finish(self) -> None:
        """Nothing follows: boundaries that waited are ones."""
        self._end_paragraph()
        mark, self._mark = self._mark, None
        if mark is not None:
            self._scan.boundaries.candidate(mark.end)

    def _end_paragraph(self) -> None:
        end, self._blank_end = self._blank_end, None
        if end is not None:
            self._scan.boundaries.candidate(end)

    def _text(self, data: str, start: int, stop: int, follows: SentenceMark | None) -> int:
        """Consumes plain text; one character only while a sentence end waits."""
        if follows is not None:
            stop = self._scan.plain(data, start, start + 1)
            follows.end = self._scan.window.pos
            return stop
        return self._scan.plain(data, start, stop if self._mark is None else start + 1)

    def _step(self, data: str, start: int, follows: SentenceMark | None, final: bool) -> int:
        run = char = data[start]
        end = start + 1
        whole = _RUNS.get(char)
        if whole is not None and (found := whole(data, start)) is not None:
            run, end = found.group(), found.end()
            if len(run) > MAX_MARKER_RUN:
                self._scan.long_run, self._mark = char, None
                return start
            if end == len(data) and not final:
                return NEED_MORE
        depth = len(self._scan.markers.stack)
        stop = self._steps.get(char, self._marker)(run, data, end, final)
        if follows is not None and stop != NEED_MORE:
            self._close(follows, opened=len(self._scan.markers.stack) > depth)
        return stop

    # Lines

    def _line_end(self, _run: str, _data: str, end: int, _final: bool) -> int:
        scan, window = self._scan, self._scan.window
        start, stop, was_blank = window.line_start, window.pos, window.blank
        if not was_blank and stop - start <= 8 and window.line().strip() == _SUBTEXT:
            scan.append(" ")  # an orphan subtext mark joins its line
            return end
        if was_blank and window.line_ends >= 2:
            window.skip(1)  # three line ends are two
            return end
        scan.append("\n")
        window.line_start = window.pos
        self._mark = None
        if was_blank:
            window.line_ends += 1
            if window.line_ends == 2:
                self._paragraph_end()
            return end
        window.blank, window.line_ends, window.last_line = True, 1, (start, stop)
        self._full_line(start, stop)
        return end

    def _paragraph_end(self) -> None:
        scan, window = self._scan, self._scan.window
        scan.boundaries.expire(Expiry.BLANK_LINE)
        start, stop = window.last_line
        if not self._paragraphs or stop <= window.base:
            return
        if start < window.base or not _HEADING.match(window.slice(start, stop)):
            self._blank_end = window.pos

    def _full_line(self, start: int, stop: int) -> None:
        scan, window = self._scan, self._scan.window
        bracket = scan.markers.find(Kind.BRACKET)
        if bracket is not None:  # a link's text does not leave its line
            scan.markers.remove(bracket, window.pos)
            scan.boundaries.retrigger()
        pipes, window.pipes = window.pipes, 0
        if pipes and start >= window.base and looks_like_header(window.slice(start, stop)):
            self._tables.begin(start, window.pos)
        elif not self._paragraphs:
            scan.boundaries.candidate(window.pos)

    def _knows_line(self, blank_end: int, data: str, start: int, final: bool) -> bool:
        """Behind a blank line: a list item or an indented line continues the paragraph."""
        if data[start] == "\n":
            return True
        goes_on = False
        if data[start] in _LIST_STARTS:
            item = _LIST_ITEM.match(data, start, partial=not final)
            if item is not None and item.partial and len(data) - start < _MAX_LIST_MARK:
                return False
            listed = item is not None and not item.partial
            goes_on = listed or _INDENTED.match(data, start) is not None
        self._blank_end = None
        if not goes_on:
            self._scan.boundaries.candidate(blank_end)
        return True

    # Sentences

    def _end_marks(self, run: str, _data: str, end: int, _final: bool) -> int:
        window = self._scan.window
        line = max(window.line_start, window.base)
        before = window.slice(max(line, window.pos - _LOOK_BACK_CHARS), window.pos)
        at_line_start = window.pos - line <= _LOOK_BACK_CHARS
        kind = judge_end(before, run, at_line_start=at_line_start)
        self._scan.append(run)
        self._mark = SentenceMark(kind, window.pos) if kind else None
        return end

    def _follow(self, mark: SentenceMark, char: str) -> SentenceMark | None:
        """Decides what waits by the next character; the mark, if that stays with the sentence."""
        window = self._scan.window
        line = max(window.line_start, window.base)
        if _WHOLE_LINE.match(window.slice(line, mark.end)) or char == "\n":
            self._mark = None  # such a line stays whole; a line end is the boundary itself
            return None
        if not mark.spaced and char in CLOSING_MARKS:
            return mark
        ended = mark.kind is EndKind.FULL
        if not ended and char.isspace():
            if mark.kind is not EndKind.PLAIN:
                mark.spaced = True
                return None
            ended = True
        self._mark = None
        if ended or (mark.spaced and mark.kind.allows(char)):
            self._scan.boundaries.candidate(mark.end)
        return None

    def _close(self, mark: SentenceMark, *, opened: bool) -> None:
        """A run behind a sentence end was read: it closes the sentence, or opens the next."""
        if not opened:
            mark.end = self._scan.window.pos
            return
        self._mark = None
        if mark.kind is EndKind.FULL:
            self._scan.boundaries.candidate(mark.end)

    # Markers

    def _marker(self, run: str, data: str, end: int, _final: bool) -> int:
        scan, window = self._scan, self._scan.window
        before, start = window.prev, window.pos
        if run[0] == "|":
            window.pipes += len(run)
        if window.append(run):
            scan.boundaries.grew()
        after = data[end] if end < len(data) else ""
        if scan.markers.read(run, before, after, start):
            scan.boundaries.retrigger()
        return end

    def _escape(self, _run: str, data: str, end: int, final: bool) -> int:
        if end == len(data) and not final:
            return NEED_MORE
        pair = end < len(data) and not data[end].isalnum() and not data[end].isspace()
        stop = end + 1 if pair else end
        self._scan.append(data[end - 1 : stop])
        return stop

    def _angle(self, _run: str, data: str, end: int, final: bool) -> int:
        return self._tags.open(data, end - 1, final=final)

    def _ticks(self, run: str, data: str, end: int, final: bool) -> int:
        return self._code.open(run, data, end, final=final)

    def _tildes(self, run: str, data: str, end: int, final: bool) -> int:
        if len(run) >= 3 and self._scan.window.blank:
            return self._code.open(run, data, end, final=final)
        return self._marker(run, data, end, final)

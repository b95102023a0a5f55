"""Reads code blocks, and decides which run of ticks opens one.

Comes in: text in pieces. Goes out: code segments of at most a message each, and from the third
message of one block on a file. `worker.segments.buffer` uses it.
"""

import re

import regex

from shared.segments import SegmentKind
from worker.segments.boundaries import Cut, Expiry
from worker.segments.compose import Piece
from worker.segments.limits import MAX_INFO_CHARS, MAX_MARKER_RUN, MAX_TICK_RUN
from worker.segments.markers import Kind
from worker.segments.prose import NEED_MORE
from worker.segments.rewrites import QUOTE_MARK, ZERO_WIDTH, fenced, file_name, split_code
from worker.segments.scan import Reader, Scan, Wake
from worker.segments.spans import SpanReader
from worker.text.graphemes import fits, fitting_length, last_boundary
from worker.text.lexicon import is_visible

_INFO = regex.compile(rf"(?P<info>[A-Za-z0-9_+\-.#]{{0,{MAX_INFO_CHARS}}})[ \t]{{0,8}}\n")
_MARKS = re.compile(r"\n|`+|~+")
_MARKS_IN_SPOILER = re.compile(r"\n|`+|~+|\|+")
_QUOTED = re.compile(r" {0,3}(>|>>>) ?")
_WAKE = re.compile(r"[`~]").search
_WAKE_QUOTED = re.compile(r"[`~\n\r]").search

MESSAGES_OF_A_BLOCK = 2
"""So many messages of one code block are shown as such; what follows is one file."""


class CodeReader:
    """The reader of fenced code; it also opens inline code.

    Discord knows fences of three backticks only, anywhere in a line, closed by the next three.
    """

    holds_prose = False

    def __init__(self, scan: Scan, spans: SpanReader) -> None:
        self._scan = scan
        self._spans = spans
        self._prose: Reader
        self._char = "`"
        self._length = 3
        self._info = ""
        self._indent = 0  # of the opening line, taken off every line
        self._spoiler = ""  # marks of a spoiler around the block
        self._given = 0  # messages of this block so far
        self._to_skip = 0  # indentation still to be taken off this line
        self._quote = ""  # the mark of a quote around the block, at every line of it
        self._at_quote = False  # this line's mark is still to be read

    def attach(self, prose: Reader) -> None:
        """Says who reads on behind code."""
        self._prose = prose

    def open(self, run: str, data: str, after: int, *, final: bool) -> int:
        """Opens a fence or inline code behind a run of ticks, or takes the run as text."""
        if len(run) >= 3:
            stop = self._open_fence(run, data, after, final)
            if stop == NEED_MORE or self._scan.reader is self:
                return stop
        if run[0] == "~" or len(run) > MAX_TICK_RUN:
            self._scan.append(run)
        else:
            self._spans.begin(run, self._prose)
        return after

    def read(self, data: str, start: int, *, final: bool) -> int:
        """Consumes code (see `Reader`)."""
        scan, size = self._scan, len(data)
        marks = _MARKS_IN_SPOILER if self._spoiler else _MARKS
        while start < size and scan.reader is self:
            if scan.long_run:
                start = scan.follow_run(data, start, between=ZERO_WIDTH)
                continue
            if self._to_skip or self._at_quote:
                stop = self._line_start(data, start, final)
                if stop == NEED_MORE:
                    break
                start = stop
                continue
            found = marks.search(data, start)
            if found is None or found.start() > start:
                start = scan.plain(data, start, found.start() if found else size)
                continue
            run = found.group()
            if run == "\n":
                self._line_end()
            elif len(run) > MAX_MARKER_RUN:
                scan.long_run = run[0]
                continue
            elif found.end() == size and not final:
                break
            else:
                self._run(run)
            start = found.end()
        return start

    def grew(self) -> None:
        """The window reached its trigger: gives out a message of code."""
        while self._scan.window.pos >= self._scan.window.trigger:
            self._give_part()

    def wake(self) -> Wake | None:
        """What may close the block: ticks, and in a quote a line that is none of it."""
        if self._scan.long_run or self._at_quote:
            return None
        return _WAKE_QUOTED if self._quote else _WAKE

    def close(self) -> None:
        """Ends the block, and gives out what is held of it."""
        scan, window = self._scan, self._scan.window
        self._at_quote = False
        while self._given < MESSAGES_OF_A_BLOCK and not fits(window.text, scan.limits.body):
            self._give_part()
        body = window.text.removesuffix(self._quote)
        if is_visible(body.replace(self._quote or "\n", "")):
            as_file = self._given >= MESSAGES_OF_A_BLOCK and not fits(body, scan.limits.body)
            self._give(body, window.pos, as_file=as_file)
        window.drop_before(window.pos)
        window.start_line(line_ends=0)
        window.prev = "\n"
        scan.markers.restart(scan.markers.stack)
        scan.reader = self._prose
        scan.boundaries.retrigger()

    def _open_fence(self, run: str, data: str, after: int, final: bool) -> int:
        """Begins a block if there is one here; otherwise changes nothing."""
        line = _INFO.match(data, after, partial=not final)
        if line is not None and line.partial:
            return NEED_MORE
        if line is None and not self._opens_without_info(data, after, final):
            return after
        window = self._scan.window
        lead = window.line()
        quote = self._quote_in_front()
        self._quote = QUOTE_MARK if quote == ">" else ""
        indent = len(lead) - len(lead.rstrip(" ")) if window.blank else 0
        self._leave_prose(quote)
        self._char, self._length, self._given = run[0], len(run), 0
        self._indent = indent
        self._info = line.group("info") if line else ""
        self._to_skip = indent if line else 0
        self._at_quote = bool(line and self._quote)
        window.start_line(line_ends=0)
        stop = line.end() if line else after
        window.skip(len(run) + stop - after)
        self._scan.reader = self
        self._retrigger()
        return stop

    def _opens_without_info(self, data: str, after: int, final: bool) -> bool:
        """At a line's start what is no info string is code already, as Discord shows it."""
        line_start = self._scan.window.blank or self._quote_in_front()
        if not line_start or after >= len(data):
            return False
        return not (final and _INFO.fullmatch(data[after:] + "\n"))

    def _quote_in_front(self) -> str:
        """The quote mark that stands alone in front of the fence: `>`, `>>>` or none."""
        window = self._scan.window
        found = _QUOTED.fullmatch(window.line())
        return found.group(1) if found and window.line_start >= window.base else ""

    def _leave_prose(self, quote: str) -> None:
        scan, window = self._scan, self._scan.window
        scan.boundaries.expire(Expiry.STRUCTURE)
        if quote:
            scan.boundaries.cut(window.line_start, Cut.FINAL)
            window.skip(len(window.rewind(window.line_start)))
        if quote == ">>>":
            scan.boundaries.continuation.quote_rest()
        scan.boundaries.cut(window.pos, Cut.FINAL)
        for item in scan.markers.stack:
            item.dead = item.dead or item.kind is Kind.EMPHASIS
        scan.markers.bury(window.pos)
        reopen = scan.boundaries.continuation.reopen
        self._spoiler = reopen if "||" in reopen else ""
        scan.boundaries.continuation.reopen = self._spoiler

    def _retrigger(self) -> None:
        window, limits = self._scan.window, self._scan.limits
        shown = self._given < MESSAGES_OF_A_BLOCK
        window.trigger = window.base + (limits.body if shown else limits.rest) + 1

    def _line_start(self, data: str, start: int, final: bool) -> int:
        """Takes the indentation off a line, or reads its quote mark."""
        if not self._at_quote:
            return self._skip_indent(data, start)
        if data[start] != ">":
            self.close()  # the quote is over, and with it the code in it
            return start
        if start + 1 == len(data) and not final:
            return NEED_MORE
        stop = start + 1 + (data[start + 1 : start + 2] == " ")
        self._at_quote = False
        window = self._scan.window
        self._scan.append(QUOTE_MARK)
        window.skip(stop - start - len(QUOTE_MARK))
        window.blank = True
        return stop

    def _skip_indent(self, data: str, start: int) -> int:
        stop = start
        while self._to_skip and stop < len(data) and data[stop] == " ":
            self._to_skip -= 1
            stop += 1
        if stop < len(data):
            self._to_skip = 0
        if stop > start:
            self._scan.window.skip(stop - start)
        return stop

    def _line_end(self) -> None:
        window = self._scan.window
        self._scan.append("\n")
        window.line_start, window.blank, self._to_skip = window.pos, True, self._indent
        self._at_quote = bool(self._quote)

    def _run(self, run: str) -> None:
        closes = run[0] == self._char and len(run) >= self._length
        if closes and (self._char == "`" or self._scan.window.blank):
            self._scan.window.skip(len(run))
            self.close()
            return
        ends_fence = run[0] == "`" and len(run) >= 3
        ends_spoiler = run[0] == "|" and len(run) >= 2
        if not (ends_fence or ends_spoiler):
            self._scan.append(run)
            return
        self._scan.append(ZERO_WIDTH.join(run))
        self._scan.window.skip(1 - len(run))

    def _give_part(self) -> None:
        scan, window = self._scan, self._scan.window
        shown = self._given < MESSAGES_OF_A_BLOCK
        text = window.text
        limit = fitting_length(text, scan.limits.body) if shown else scan.limits.rest
        cut = text.rfind("\n", 0, limit) + 1
        if not cut or not text[:cut].strip():
            cut = last_boundary(text, limit)
        self._give(text[:cut], window.base + cut, as_file=not shown)
        window.drop_before(window.base + cut)
        self._retrigger()

    def _give(self, body: str, end: int, *, as_file: bool) -> None:
        scan = self._scan
        fallback: tuple[str, ...] = ()
        quote = ""
        if as_file:
            body = body.replace("\n" + self._quote, "\n").removeprefix(self._quote)
            fallback = split_code(body, self._info, self._spoiler, scan.limits.body)
            text = fenced(body, self._info, self._spoiler)
        else:
            quote = scan.boundaries.continuation.rest_mark
            text = fenced(body, self._info, self._spoiler, self._quote)
        scan.composer.give(
            Piece(
                kind=SegmentKind.FILE if as_file else SegmentKind.CODE,
                quote=quote,
                text=text,
                end=scan.window.offset(end),
                filename=file_name(self._info) if as_file else None,
                fallback=fallback,
            )
        )
        self._given += 1

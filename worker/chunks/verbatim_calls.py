"""Finds the tool calls that a model wrote into its prose: where they stand, and where they do not.

Comes in: visible text, in any cutting. Goes out: pieces of text, and calls. Pure; a stage of
`worker.chunks.processor`, for custom endpoints and models flagged for it. What a call looks like
is the business of `call_syntax` (`name(...)`) and `tool_dialects` (markup).

A call counts in prose, in one or two backticks directly around it, or in a fence that holds
nothing but calls; any other code is passed through to its end. What may be a call is held until
it is decided, at most `MAX_CALL_CHARS`.
"""

import re
from collections.abc import Iterable

from shared.turns import ToolSpec
from worker.chunks.call_syntax import (
    MAX_CALL_CHARS,
    MAX_SPACES,
    CallReader,
    Match,
    Tools,
    Undecided,
    skip_space,
)
from worker.chunks.pieces import Called, HoldTimer, Piece, Visible, merged
from worker.chunks.tool_dialects import DIALECTS, MarkupDialect, unclosed_calls
from worker.text.scanner import FENCE_TICKS

MAX_TICKS = 16
"""A longer run of backticks is around no call; it is given out as it comes."""
HOLD_S = 4.0
"""What may become the name of a tool waits this long, as other holds of text do."""
STALL_S = 10.0
"""A call that has begun waits this long without growing: slow models write arguments for a
minute, but not with such a pause."""

_TICKS = re.compile(r"`*+")
_FENCE = re.compile(r"`{3,}")
_FENCE_INFO = re.compile(r"`{3,}+[\w+#.-]{0,40}[ \t]{0,8}\r?\n\s*+|`{3,}+\s*+")
_PARTIAL_FENCE = re.compile(r"`{3,}+[\w+#.-]{0,40}[ \t]{0,8}\r?")
_FENCE_END = re.compile(r"\s*+(?P<ticks>`*+)")
_LONGEST_OPENING = max(len(dialect.opens) for dialect in DIALECTS)
_OPENINGS = {
    dialect.opens[:size] for dialect in DIALECTS for size in range(1, len(dialect.opens) + 1)
}


class VerbatimCallParser:
    """One text. A call that the end cuts off is `truncated`: refused, and not printed."""

    def __init__(self, specs: Iterable[ToolSpec]) -> None:
        self._tools = Tools(specs)
        names = sorted(self._tools.by_name, key=len, reverse=True)
        opening = "|".join(["`+", *(re.escape(dialect.opens) for dialect in DIALECTS)])
        heads = rf"(?<![\w.])(?:{'|'.join(map(re.escape, names))})[ \t]{{0,{MAX_SPACES}}}\("
        self._start = re.compile(f"{heads}|{opening}" if names else opening)
        self._longest = max([_LONGEST_OPENING, *(len(name) + MAX_SPACES + 1 for name in names)])
        self._data = ""  # what is held, and the text that is looked at
        self._at = 0  # of `_data`, where the undecided begins
        self._before = ""  # the last character before `_data`, for the word boundary
        self._code: re.Pattern[str] | None = None  # what ends the code that we are in
        self._absorbs_ticks = False  # a run of backticks goes on whose meaning is known
        self._readers: dict[int, CallReader] = {}  # of the candidate, by place in `_data`
        self._searched = 0  # of a markup candidate: no closing marker before this place
        self._out: list[Piece] = []
        self._fed = 0
        self.hold = 0
        """Which hold it is: changes whenever text was given out."""
        self._has_begun = False
        self._hold_timer, self._stall_timer = HoldTimer(HOLD_S), HoldTimer(STALL_S)

    def feed(self, text: str) -> list[Piece]:
        """Takes text and returns the pieces that are certain."""
        self._data += text
        self._fed += 1
        return self._run(final=False)

    def tick(self, now_s: float) -> list[Piece]:
        """Makes text of what is held too long."""
        name = self.hold if self._data and not self._has_begun else None
        call = self._fed if self._data and self._has_begun else None
        is_old = self._hold_timer.expired(name, now_s)
        if not self._stall_timer.expired(call, now_s) and not is_old:
            return []
        self._give_out(len(self._data))
        return self._taken()

    def flush(self, *, dropping: bool = False) -> list[Piece]:
        """Ends the text. `dropping` (the stream failed): a cut call is neither run nor shown."""
        pieces = self._run(final=True)
        return [piece for piece in pieces if not (dropping and isinstance(piece, Called))]

    def retract(self) -> str:
        """Gives up what is held to a closer without an opener: it was reasoning."""
        held, self._data = self._data, ""
        self.hold += 1
        self._forget()
        return held

    # ---------------------------------------------------------------------------- machine

    def _run(self, *, final: bool) -> list[Piece]:
        while self._at < len(self._data) and self._step(final=final):
            pass
        return self._taken()

    def _taken(self) -> list[Piece]:
        """The pieces so far; what was given out leaves the memory."""
        if self._at:
            self._before = self._data[self._at - 1]
            self._data = self._data[self._at :]
            self._at = 0
            self.hold += 1
            self._forget()
        pieces, self._out = merged(self._out), []
        return pieces

    def _forget(self) -> None:
        """Drops what is known of the candidate; it is found again at the next feed, once."""
        self._readers.clear()
        self._searched = 0

    def _give_out(self, end: int) -> None:
        if end > self._at:
            self._out.append(Visible(self._data[self._at : end]))
            self._at = end
            self._readers.clear()

    def _step(self, *, final: bool) -> bool:
        """Decides the next piece; false if more text is needed."""
        if self._absorbs_ticks:
            self._give_out(self._at + self._run_length(self._at))
            self._absorbs_ticks = self._at == len(self._data)
            return not self._absorbs_ticks
        if self._code is not None:
            return self._pass_code(self._code, final=final)
        self._has_begun = False
        start = self._next_start()
        if start is None:
            self._give_out(len(self._data) - (0 if final else self._may_begin()))
            return False
        self._give_out(start)
        match = self._candidate(final=final)
        if isinstance(match, Match) and match.end - start <= MAX_CALL_CHARS:
            self._out.extend(match.calls)
            self._at = match.end
            self._readers.clear()
            return True
        if match is Undecided.WAIT and len(self._data) - start <= MAX_CALL_CHARS:
            self._has_begun = True
            return False
        self._refuse()
        return True

    def _next_start(self) -> int | None:
        found = self._start.search(self._data, self._at)
        is_name = found is not None and found.group()[0] not in "`<"
        if found is not None and is_name and not found.start() and _is_word(self._before):
            found = self._start.search(self._data, 1)
        return found.start() if found else None

    def _may_begin(self) -> int:
        """How much of the end can still become a call: part of a name, or of a marker."""
        for at in range(max(self._at, len(self._data) - self._longest), len(self._data)):
            part = self._data[at:]
            if part in _OPENINGS:
                return len(part)
            before = self._data[at - 1] if at else self._before
            if self._tools.may_begin(part) and not _is_word(before):
                return len(part)
        return 0

    def _pass_code(self, end: re.Pattern[str], *, final: bool) -> bool:
        found = end.search(self._data, self._at)
        ticks = 0 if final else len(self._data) - len(self._data.rstrip("`"))
        if ticks > MAX_TICKS:  # it closes a fence, and no inline code
            self._give_out(len(self._data))
            self._code = None if end is _FENCE else end
            self._absorbs_ticks = True
            return False
        if found is None or (ticks and found.end() == len(self._data)):
            self._give_out(max(self._at, len(self._data) - ticks))
            return False
        self._give_out(found.end())
        self._code = None
        return True

    def _refuse(self) -> None:
        """The candidate is text: its opening is given out, and the rest is looked at again."""
        run = self._run_length(self._at)
        if not run:
            found = self._start.match(self._data, self._at)
            self._give_out(found.end() if found else self._at + 1)
            return
        inline = rf"(?<!`)`{{{run}}}(?!`)|\n"
        self._code = _FENCE if run >= FENCE_TICKS else re.compile(inline)
        self._give_out(self._at + run)
        self._absorbs_ticks = self._at == len(self._data)

    def _run_length(self, at: int) -> int:
        found = _TICKS.match(self._data, at)
        return found.end() - at if found else 0

    # ------------------------------------------------------------------------- candidates

    def _candidate(self, *, final: bool) -> Match | Undecided:
        """What stands at `_at`."""
        run = self._run_length(self._at)
        if run > MAX_TICKS:
            return Undecided.NO
        if run and self._at + run == len(self._data) and not final:
            return Undecided.WAIT
        if run >= FENCE_TICKS:
            return self._fenced(self._at + run, final=final)
        return self._inline(run, final=final) if run else self._call_at(self._at, final=final)

    def _call_at(self, at: int, *, final: bool) -> Match | Undecided:
        """The call at one place, in any syntax."""
        for dialect in DIALECTS:
            if self._data.startswith(dialect.opens, at):
                return self._markup(dialect, at, final=final)
        found = self._tools.head.match(self._data, at) if self._tools.head else None
        if found is not None:
            if at not in self._readers:
                self._readers[at] = CallReader(self._tools.by_name[found[1]], found.end())
            return self._readers[at].read(self._data, final=final)
        rest = self._data[at : at + self._longest]
        may_grow = not final and at + len(rest) == len(self._data)
        is_partial = not rest or rest in _OPENINGS or self._tools.may_begin(rest)
        return Undecided.WAIT if may_grow and is_partial else Undecided.NO

    def _markup(self, dialect: MarkupDialect, at: int, *, final: bool) -> Match | Undecided:
        begin = at + len(dialect.opens)
        limit = self._at + MAX_CALL_CHARS
        if dialect.begins.match(self._data, begin, limit, partial=True) is None:
            return Undecided.NO
        again = self._data.find(dialect.opens, begin, limit)
        end = limit if again < 0 else again
        close = self._data.find(dialect.closes, max(begin, self._searched), end)
        if close < 0 <= again:
            return Undecided.NO  # markup does not nest
        if dialect.keeps_opening:
            begin = at
        if close >= 0:
            calls = dialect.parse(self._data[begin:close], self._tools)
            return Match(close + len(dialect.closes), tuple(calls)) if calls else Undecided.NO
        self._searched = max(begin, len(self._data) - len(dialect.closes) + 1)
        if not final:
            return Undecided.WAIT
        calls = unclosed_calls(self._data[begin:], self._tools)
        return Match(len(self._data), tuple(calls), is_cut=True) if calls else Undecided.NO

    def _calls_from(self, at: int, *, final: bool) -> Match | Undecided:
        """One or more calls with nothing but white space between them."""
        calls: list[Called] = []
        end = at
        while True:
            self._searched = 0
            match = self._call_at(skip_space(self._data, end) if calls else end, final=final)
            if match is Undecided.NO and calls:
                return Match(end, tuple(calls))
            if not isinstance(match, Match):
                return match
            calls.extend(match.calls)
            end = match.end
            if match.is_cut:
                return Match(end, tuple(calls), is_cut=True)

    def _fenced(self, behind: int, *, final: bool) -> Match | Undecided:
        """A fence that holds nothing but calls, with or without an info string."""
        info = _FENCE_INFO.match(self._data, self._at)
        partial = _PARTIAL_FENCE.match(self._data, self._at)
        waits = not final and partial is not None and partial.end() == len(self._data)
        for start in sorted({behind, info.end() if info else behind}):
            match = self._calls_from(start, final=final)
            if isinstance(match, Match) and not match.is_cut:
                match = self._fence_end(match, final=final)
            if isinstance(match, Match):
                return match
            waits = waits or match is Undecided.WAIT
        return Undecided.WAIT if waits else Undecided.NO

    def _fence_end(self, match: Match, *, final: bool) -> Match | Undecided:
        found = _FENCE_END.match(self._data, match.end)
        ticks, end = (len(found["ticks"]), found.end()) if found else (0, match.end)
        if end == len(self._data):
            return Match(end, match.calls) if final else Undecided.WAIT
        return Match(end, match.calls) if ticks >= FENCE_TICKS else Undecided.NO

    def _inline(self, run: int, *, final: bool) -> Match | Undecided:
        """One call with the same run of backticks directly around it."""
        match = self._call_at(self._at + run, final=final)
        if not isinstance(match, Match) or match.is_cut:
            return match
        closing = self._run_length(match.end)
        is_at_end = match.end + closing == len(self._data)
        if is_at_end and not final and closing <= run:
            return Undecided.WAIT
        if closing == run or (is_at_end and not closing):
            return Match(match.end + closing, match.calls)
        return Undecided.NO


def _is_word(before: str) -> bool:
    """Whether a name would continue a word or a dotted name, not begin one."""
    return before.isalnum() or before in {"_", "."}

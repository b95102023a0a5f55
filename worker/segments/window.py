"""The text that is held: what was read and not yet given out, and where its lines stand.

Comes in: characters, one run after the other. Goes out: slices, and offsets into the visible text.
Used by the readers and the boundaries of the segment room only.
"""


class Window:
    """The text `[base, pos)`, kept as parts and joined when somebody looks.

    Positions count what is held; `offset` turns them into offsets of the visible text, which has
    the characters that were left out (fences, indentation, surplus line ends) and lacks those
    that were put in (zero-width breaks).

    Attributes:
        trigger: the position at which a decision of size is due.
        line_start: where the current line begins.
        last_line: start and end of the last line that was not blank.
        blank: nothing but white space on this line so far.
        line_ends: line ends since the last visible character; the start counts as a paragraph's.
        pipes: bars on this line: it may be the head of a table.
    """

    __slots__ = (
        "_parts",
        "_shifts",
        "base",
        "blank",
        "last_line",
        "line_ends",
        "line_start",
        "pipes",
        "pos",
        "prev",
        "trigger",
    )

    def __init__(self, base: int = 0) -> None:
        self._parts: list[str] = []
        self._shifts: list[tuple[int, int]] = [(base, 0)]  # from position on: offset - position
        self.base = self.pos = self.line_start = self.trigger = base
        self.prev = ""
        self.last_line = (base, base)
        self.blank = True
        self.line_ends = 2
        self.pipes = 0

    def append(self, run: str) -> bool:
        """Takes a run of characters; True if the trigger was reached."""
        self._parts.append(run)
        self.pos += len(run)
        self.prev = run[-1]
        if self.blank and not run.isspace():
            self.blank = False
            self.line_ends = 0
        return self.pos >= self.trigger

    @property
    def text(self) -> str:
        """All that is held."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    def __len__(self) -> int:
        return self.pos - self.base

    def slice(self, start: int, end: int) -> str:
        """The held text between two positions (what lies before `base` is gone)."""
        return self.text[max(start - self.base, 0) : end - self.base]

    def line(self) -> str:
        """What is held of the current line."""
        return self.slice(self.line_start, self.pos)

    def drop_before(self, position: int) -> None:
        """Forgets the text in front of `position`."""
        if self._parts:
            rest = self.text[position - self.base :]
            self._parts = [rest] if rest else []
        self.base = position
        if len(self._shifts) == 1:
            return
        keep = 0
        for index, (start, _) in enumerate(self._shifts):
            if start > position:
                break
            keep = index
        del self._shifts[:keep]

    def rewind(self, position: int) -> str:
        """Takes back what was read from `position` on, and returns it."""
        text = self.text
        kept, back = text[: position - self.base], text[position - self.base :]
        self._parts = [kept] if kept else []
        self.pos = position
        while len(self._shifts) > 1 and self._shifts[-1][0] > position:
            self._shifts.pop()
        return back

    def start_line(self, *, line_ends: int) -> None:
        """Declares that a line begins here, `line_ends` line ends after visible text."""
        self.line_start = self.pos
        self.blank = True
        self.line_ends = line_ends
        self.pipes = 0

    def skip(self, count: int) -> None:
        """Notes that `count` characters of the visible text are left out here."""
        at, shift = self._shifts[-1]
        if at == self.pos:
            self._shifts.pop()
        self._shifts.append((self.pos, shift + count))

    def offset(self, position: int) -> int:
        """The offset of `position` in the visible text (what was left out there comes before)."""
        found = self._shifts[0][1]
        if len(self._shifts) == 1:
            return position + found
        for start, shift in self._shifts:
            if start > position:
                break
            found = shift
        return position + found

"""Where a text that arrives in pieces is code: runs of backticks, read incrementally.

Comes in: pieces of text and positions in them. Goes out: the state that holds at each position.
Pure; the rooms `worker.chunks` and `worker.segments` may import it. Rule: a run of one or two
backticks protects only if a run of the same length follows in the same paragraph; a run of three
or more protects at once, until the next such run or the end.
"""

import re
from enum import StrEnum
from typing import assert_never

MAX_UNSURE_CHARS = 180
"""How far a caller holds text that only a later backtick can make code: longer than any inline
code seen with a tag in it, short enough that a reader does not notice the wait."""

FENCE_TICKS = 3
"""From this many backticks on a run opens a fence."""

_TICKS_OR_LINE_END = re.compile(r"`+|\n")


class CodeState(StrEnum):
    """What the text at the present position is."""

    PROSE = "prose"
    CANDIDATE = "candidate"
    """Behind one or two backticks: code if they are closed, prose if they are not."""
    FENCE = "fence"
    """Behind three or more backticks: code at once."""


class CodeScanner:
    """Follows the backticks of one text.

    Typical use: walk over the data with `take`; act on a tag only where `state` is `PROSE`; where
    it is `CANDIDATE`, hold the text from the tag on and ask `closes` until it answers. After
    `False` call `drop`: the backticks were text, and the tag counts.
    """

    __slots__ = ("_blank_line", "_run", "state")

    def __init__(self) -> None:
        self.state = CodeState.PROSE
        self._run = 0  # length of the run that opened the candidate
        self._blank_line = False  # nothing but white space since the last line end

    def take(self, data: str, start: int = 0, *, final: bool = False) -> int:
        """Consumes one piece of `data` and returns where it ends.

        A piece is plain text in the present state, or one whole run of backticks, or one line end.
        `start` itself comes back if nothing can be consumed yet: at the end of the data, and at a
        run of backticks that may still grow (unless `final`).
        """
        found = _TICKS_OR_LINE_END.search(data, start)
        end = len(data) if found is None else found.start()
        if found is None or end > start:
            self.pass_over(data[start:end])
            return end
        if found.group() == "\n":
            if self._blank_line and self.state is CodeState.CANDIDATE:
                self.state = CodeState.PROSE
            self._blank_line = True
            return found.end()
        if found.end() == len(data) and not final:
            return start
        self._blank_line = False
        self._note_run(found.end() - start)
        return found.end()

    def pass_over(self, plain: str) -> None:
        """Consumes text without a backtick and without a line end."""
        if self._blank_line and plain and not plain.isspace():
            self._blank_line = False

    def closes(self, ahead: str, *, final: bool = False) -> bool | None:
        """Says whether the open candidate is closed by `ahead`, the text held from here on.

        Returns:
            True if its closing run stands in the first `MAX_UNSURE_CHARS` characters, False if it
            cannot any more, None while more text is needed. Changes nothing.
        """
        probe = CodeScanner()
        probe.state, probe._run, probe._blank_line = self.state, self._run, self._blank_line
        at = 0
        while at < min(len(ahead), MAX_UNSURE_CHARS):
            end = probe.take(ahead, at, final=final)
            if probe.state is not CodeState.CANDIDATE:
                return ahead.startswith("`", at)
            if end == at:
                break
            at = end
        return False if final or len(ahead) >= MAX_UNSURE_CHARS else None

    def drop(self) -> None:
        """Declares the backticks of the open candidate plain text."""
        if self.state is CodeState.CANDIDATE:
            self.state = CodeState.PROSE

    def _note_run(self, length: int) -> None:
        match self.state:
            case CodeState.PROSE:
                self._run = length
                fence = length >= FENCE_TICKS
                self.state = CodeState.FENCE if fence else CodeState.CANDIDATE
            case CodeState.CANDIDATE:
                if length == self._run:
                    self.state = CodeState.PROSE
            case CodeState.FENCE:
                if length >= FENCE_TICKS:
                    self.state = CodeState.PROSE
            case _:
                assert_never(self.state)

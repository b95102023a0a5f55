"""Takes reasoning out of visible text: `<think>` and its kin, Harmony's and Gemma's channels.

Comes in: visible text, in any cutting. Goes out: pieces of text and of reasoning. Pure; a stage of
`worker.chunks.processor`, on the backtick scanner of `worker.text`.

Rules: tags of four names, any case, with an optional namespace and attributes, nest; a tag in code
is text; an unclosed block is reasoning; a partial tag at the end is text; a closer without an
opener makes reasoning of what is still held, and is never printed. Inside reasoning backticks
protect nothing, so a bare `<think>` named in the reasoning hides the answer: that is counted as
`unclosed`, and nothing is promoted from reasoning into the answer.
"""

import re
from collections.abc import Container

import regex

from worker.chunks.harmony import HarmonyChannel
from worker.chunks.pieces import HoldTimer, Piece, Reasoned, Visible, merged
from worker.text.scanner import FENCE_TICKS, MAX_UNSURE_CHARS, CodeScanner, CodeState

MAX_NAME_CHARS = 64
"""A partial tag without attributes is held up to here; namespaces are shorter."""
MAX_TAG_CHARS = 180
"""A tag with attributes; templates write some tens of characters."""
HOLD_S = 4.0
"""A partial tag, or a tag behind an undecided backtick, waits as long as the room behind waits."""

_TAG = regex.compile(
    r"<(?P<close>/?)(?:[A-Za-z][\w.-]*:)?(?:think|thinking|thought|reasoning)"
    r"(?:\s[^<>]*)?(?P<empty>/?)>"
    r"|<\|(?P<token>start|channel|message|end|return|call|constrain)\|>"
    r"|(?P<gemma><\|channel>thought|<channel\|>)",
    regex.IGNORECASE,
)
_GEMMA_END = "<channel|>"
_MARKS = re.compile(r"[<`\n]")
"""Without one of these a text begins no tag, no code and no line: most deltas have none."""


class ThinkTagStripper:
    """One text. `reaches_back` is set when an orphan closer wants what later guards hold.

    Counts: `stripped` blocks, `orphans`, and, after `flush`, `unclosed`.

    Args:
        tools: names of the tools whose calls are taken out of Harmony's channels.
    """

    def __init__(self, tools: Container[str] = ()) -> None:
        self.stripped = 0
        self.orphans = 0
        self.unclosed = False
        self.reaches_back = False
        self._held = ""  # begins with a `<` that may be a tag
        self._holds = 0
        self._timer = HoldTimer(HOLD_S)
        self._code = CodeScanner()
        self._ticks = 0  # of a run of backticks that may still grow; they were given out
        self._plain_end = 0  # of the data: up to here the scanner knows that it is plain
        self._depth = 0
        self._is_plain = True  # visible, and nothing is held or counted
        self._channel = HarmonyChannel(tools)
        self._space = _Space()
        self._out: list[Piece] = []
        self._since_tag = 0  # where, in `_out`, the text since the last tag begins

    def feed(self, text: str) -> list[Piece]:
        """Takes text and returns the pieces that are certain."""
        if not self._is_plain or _MARKS.search(text) is not None:
            return self._run(text, final=False)
        self.reaches_back = False
        self._code.pass_over(text)
        text = self._space.collapsed(text)
        return [Visible(text)] if text else []

    def tick(self, now_s: float) -> list[Piece]:
        """Decides what is held too long as if nothing followed."""
        hold = self._holds if self._held else None
        return self._run("", final=True) if self._timer.expired(hold, now_s) else []

    def flush(self, *, dropping: bool = False) -> list[Piece]:
        """Ends the text: what is held is text, an open block is reasoning.

        With `dropping` (the stream failed) a call that was cut off is not given.
        """
        pieces = self._run("", final=True)
        self.unclosed = self._depth > 0
        return pieces if dropping else [*pieces, *self._channel.flush()]

    def _run(self, text: str, *, final: bool) -> list[Piece]:
        data, at = self._held + text, 0
        self._out, self._since_tag, self.reaches_back = [], 0, False
        self._plain_end = 0
        while at < len(data):
            after = self._step(data, at, final=final)
            if after == at:
                break
            at = after
        if final:
            self._end_ticks()
        if len(data) != at and (at or not self._held):
            self._holds += 1
        self._held = data[at:]
        self._is_plain = self._is_visible() and not self._held and not self._ticks
        return merged(self._out)

    def _step(self, data: str, at: int, *, final: bool) -> int:
        """Consumes one piece: up to a `<`, a tag, a run of backticks, a line end."""
        if data[at] != "`":
            self._end_ticks()
        if data[at] == "<":
            return self._angle(data, at, final=final)
        if self._channel.in_header and not self._depth:
            if self._channel.continues(data[at]):
                return at + 1
            self._leave_header()
        if not self._is_visible():
            bracket = data.find("<", at)
            end = len(data) if bracket < 0 else bracket
        elif data[at] == "`":
            end = self._ticks_end(data, at)
        else:
            end = self._code_end(data, at)
            bracket = data.find("<", at, end)
            end = end if bracket < 0 else bracket
        self._emit(data[at:end])
        return end

    def _is_visible(self) -> bool:
        return not self._depth and self._channel.is_visible

    # ------------------------------------------------------------------------------- code

    def _code_end(self, data: str, at: int) -> int:
        """Where the piece of plain text, or the line end, at `at` ends for the scanner."""
        if at < self._plain_end:
            return self._plain_end
        end = self._code.take(data, at)
        if data[at] != "\n":
            self._plain_end = end
        return end

    def _ticks_end(self, data: str, at: int) -> int:
        """Counts backticks. They are text in any case, so that only their meaning waits."""
        end = at
        while end < len(data) and data[end] == "`":
            end += 1
        self._ticks += end - at
        return end

    def _end_ticks(self) -> None:
        """The run of backticks is over: it opens or closes code."""
        if self._ticks:
            # From three on the scanner makes no difference, and a run may be as long as the text.
            self._code.take("`" * min(self._ticks, FENCE_TICKS), final=True)
            self._ticks = 0

    # ------------------------------------------------------------------------------- tags

    def _angle(self, data: str, at: int, *, final: bool) -> int:
        if self._is_visible() and self._code.state is CodeState.FENCE:
            return self._literal(data, at, at + 1)
        found = _TAG.match(data, at, at + MAX_TAG_CHARS, partial=True)
        if found is not None and found.partial:
            if len(data) - at < _partial_limit(data, at) and not final:
                return at
            found = None
        if self._channel.in_header and not (found and found["token"]):
            self._leave_header()
        if found is None:
            return self._literal(data, at, at + 1)
        if self._channel.is_call and not found["token"]:
            return self._literal(data, at, found.end())
        if self._is_visible() and self._code.state is CodeState.CANDIDATE:
            is_code = self._code.closes(data[at : at + MAX_UNSURE_CHARS], final=final)
            if is_code is None:
                return at
            if is_code:
                return self._literal(data, at, found.end())
            self._code.drop()
        self._obey(found)
        return found.end()

    def _leave_header(self) -> None:
        """What was taken for a header of Harmony's is text."""
        header = self._channel.leave_header()
        self._code.take(header)
        self._emit(header)

    def _literal(self, data: str, at: int, end: int) -> int:
        """What begins with `<` is text; the scanner may not jump over a line end in it."""
        if self._is_visible():
            end = min(end, self._code_end(data, at))
        self._emit(data[at:end])
        return end

    def _obey(self, tag: "regex.Match[str]") -> None:
        token = tag["token"]
        if token:
            self._out += self._channel.obey(token.lower())
        elif not tag["close"] and (tag["gemma"] or "").lower() != _GEMMA_END:
            self._depth += 0 if tag["empty"] else 1
        elif self._depth:
            self._depth -= 1
            if not self._depth:
                self.stripped += 1
                self._space.note_removed()
        else:
            self._turn_back()
        self._since_tag = len(self._out)

    def _turn_back(self) -> None:
        """A closer without an opener: what was said since the last tag was reasoning."""
        late = [
            Reasoned(piece.text) if isinstance(piece, Visible) else piece
            for piece in self._out[self._since_tag :]
        ]
        self.reaches_back = self.reaches_back or self._since_tag == 0
        self._out[self._since_tag :] = late
        self.orphans += 1
        self._space.note_removed()

    # ------------------------------------------------------------------------------- text

    def _emit(self, text: str) -> None:
        if not self._depth:
            text = self._channel.read(text)
        if self._depth or self._channel.is_reasoning:
            self._out.append(Reasoned(text))
        else:
            self._out.append(Visible(self._space.collapsed(text)))


def _partial_limit(data: str, at: int) -> int:
    """How long the partial tag at `at` may grow: only attributes go beyond a name."""
    name = data[at : at + MAX_NAME_CHARS]
    return MAX_TAG_CHARS if any(map(str.isspace, name)) else MAX_NAME_CHARS


class _Space:
    """White space around a removed block: the larger side stays.

    What stands before the block was given out already, so as much goes from behind it: blanks if
    the text before ends in white space, line breaks as many as it ends in; at the start all.
    """

    __slots__ = ("_after_block", "_at_start", "_breaks", "_ends_blank")

    def __init__(self) -> None:
        self._after_block = False
        self._at_start = True  # nothing but white space was shown yet
        self._ends_blank = True  # the shown text is empty or ends in white space
        self._breaks = 0  # line breaks at the end of the shown text

    def note_removed(self) -> None:
        self._after_block = True

    def collapsed(self, text: str) -> str:
        """The text without the white space that a removed block before it leaves over."""
        if self._after_block:
            text = self._without_surplus(text)
        if not text:
            return text
        body = text.rstrip()
        self._ends_blank = len(body) < len(text)
        self._at_start = self._at_start and not body
        self._breaks = text.count("\n", len(body)) + (0 if body else self._breaks)
        return text

    def _without_surplus(self, text: str) -> str:
        at = 0
        for char in text:
            if not char.isspace():
                break
            if char == "\n":
                if self._breaks <= 0 and not self._at_start:
                    break
                self._breaks -= 1
            elif not self._ends_blank:
                break
            at += 1
        self._after_block = at == len(text)
        return text[at:]

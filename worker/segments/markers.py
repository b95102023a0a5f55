"""What is open: brackets, quotation marks, spoilers, emphasis, inline code.

Comes in: runs of marker characters with their neighbours. Goes out: the stack of open constructs,
now and at any position that is still held, so that a cut knows what to close and reopen. Used by
the segment room only. A mark that holds is one row in `_READERS`.
"""

from collections.abc import Callable
from enum import StrEnum

import msgspec

from worker.segments.limits import MAX_NESTED_PAIRS
from worker.text.lexicon import OPENING_OF, PAIRED_QUOTE_MARKS, is_word_char


class Kind(StrEnum):
    """Kinds of open constructs."""

    PAREN = "paren"
    BRACKET = "bracket"
    QUOTE = "quote"
    PAIR = "pair"
    EMPHASIS = "emphasis"
    SPOILER = "spoiler"
    CODE = "code"


class Open(msgspec.Struct, eq=False, gc=False):
    """A construct that was opened at `pos` by (or will be closed with) `marker`.

    Args:
        holds: it still defers boundaries.
        dead: it turned out to be plain text, or ended where a cut closed it.
        carried: a cut has closed it and opened it again.
        tight: a spoiler that looks like one (`||x`), not like "a || b".
        depth: how many parentheses are open.
    """

    kind: Kind
    marker: str
    pos: int
    holds: bool = True
    dead: bool = False
    carried: bool = False
    tight: bool = True
    depth: int = 1


Stack = tuple[Open, ...]

_EMPHASIS = {"*": ("*",), "**": ("**",), "***": ("**", "*"), "~~": ("~~",)}
_SPACED_CLOSERS = frozenset({"**", "~~"})
_SAD_FACES = frozenset(":;")


class Markers:
    """The stack of open constructs, and its history over the held text."""

    __slots__ = ("_base", "_log", "stack")

    def __init__(self) -> None:
        self.stack: Stack = ()
        self._base: Stack = ()
        self._log: list[tuple[int, Stack]] = []  # from the position on, the stack

    def read(self, run: str, before: str, after: str, pos: int) -> bool:
        """Takes the run that starts at `pos` between two characters; True if the stack changed."""
        stack = _READERS[run[0]](self.stack, run, before, after, pos)
        if stack is self.stack:
            return False
        self.put(stack, pos + len(run))
        return True

    def put(self, stack: Stack, now: int) -> None:
        """Replaces the stack at the position `now`."""
        self.stack = stack
        self._log.append((now, stack))

    def find(self, kind: Kind) -> Open | None:
        """The open construct of a kind."""
        return _find(self.stack, kind)

    def remove(self, gone: Open, now: int) -> None:
        """Takes one construct off the stack at `now`."""
        self.put(_without(self.stack, gone), now)

    def holder(self) -> Open | None:
        """The first construct that defers boundaries."""
        for item in self.stack:
            if item.holds and not item.dead:
                return item
        return None

    def at(self, position: int) -> Stack:
        """What was open at `position`."""
        found = self._base
        if not self._log and not found:
            return found
        for start, stack in self._log:
            if start > position:
                break
            found = stack
        return _alive(found)

    def moved_marks(self) -> list[tuple[int, Stack, Stack]]:
        """The changes over the held text: position, stack before, stack after."""
        before = [self._base, *(stack for _, stack in self._log)]
        return [(at, old, new) for (at, new), old in zip(self._log, before, strict=False)]

    def forget_before(self, position: int) -> None:
        """Drops the history in front of `position`, and what is dead."""
        self._base = self.at(position)
        if not self._log:
            self.stack = self._base
            return
        passed = 0
        for start, _ in self._log:
            if start > position:
                break
            passed += 1
        del self._log[:passed]
        self.stack = _alive(self.stack)

    def bury(self, now: int) -> None:
        """Takes what is dead off the stack at `now`."""
        self.put(_alive(self.stack), now)

    def rewind(self, position: int, gone: Open | None = None) -> None:
        """Takes back the history after `position`, as if `gone` had never been opened."""
        kept = (entry for entry in self._log if entry[0] <= position)
        self._log = [(at, _without(stack, gone)) for at, stack in kept]
        self.stack = self.at(position)

    def restart(self, stack: Stack) -> None:
        """Begins a new history with `stack`."""
        self.stack = self._base = stack
        self._log = []


def _alive(stack: Stack) -> Stack:
    return tuple([item for item in stack if not item.dead]) if stack else stack


def _find(stack: Stack, kind: Kind) -> Open | None:
    for item in stack:
        if item.kind is kind:
            return item
    return None


def _without(stack: Stack, gone: Open | None) -> Stack:
    return tuple([item for item in stack if item is not gone])


def _open_paren(stack: Stack, run: str, before: str, after: str, pos: int) -> Stack:
    if before in _SAD_FACES:
        return stack
    paren = _find(stack, Kind.PAREN)
    if paren is None:
        return (*stack, Open(Kind.PAREN, "(", pos))
    paren.depth += 1
    return stack


def _close_paren(stack: Stack, run: str, before: str, after: str, pos: int) -> Stack:
    paren = _find(stack, Kind.PAREN)
    if paren is None:
        return stack  # a smile closes nothing: the count is clamped at zero
    paren.depth -= 1
    return stack if paren.depth else _without(stack, paren)


def _open_bracket(stack: Stack, run: str, before: str, after: str, pos: int) -> Stack:
    if _find(stack, Kind.BRACKET) is not None:
        return stack
    return (*stack, Open(Kind.BRACKET, "[", pos))


def _close_bracket(stack: Stack, run: str, before: str, after: str, pos: int) -> Stack:
    bracket = _find(stack, Kind.BRACKET)
    return stack if bracket is None else _without(stack, bracket)


def _straight_quote(stack: Stack, run: str, before: str, after: str, pos: int) -> Stack:
    quote = _find(stack, Kind.QUOTE)
    if quote is not None:
        return _without(stack, quote)
    if before.isdigit():
        return stack  # an inch mark
    return (*stack, Open(Kind.QUOTE, '"', pos))


def _open_pair(stack: Stack, run: str, before: str, after: str, pos: int) -> Stack:
    if sum(item.kind is Kind.PAIR for item in stack) >= MAX_NESTED_PAIRS:
        return stack
    return (*stack, Open(Kind.PAIR, PAIRED_QUOTE_MARKS[run], pos))


def _close_pair(stack: Stack, run: str, before: str, after: str, pos: int) -> Stack:
    for item in reversed(stack):
        if item.kind is Kind.PAIR and item.marker == run:
            return _without(stack, item)
    return stack


def _bars(stack: Stack, run: str, before: str, after: str, pos: int) -> Stack:
    if len(run) not in (2, 3):
        return stack
    spoiler = _find(stack, Kind.SPOILER)
    if spoiler is not None:
        return _without(stack, spoiler)
    spaced = not after or after.isspace() or is_word_char(before, cjk_counts=True)
    return (*stack, Open(Kind.SPOILER, "||", pos, tight=not spaced))


def _emphasis(stack: Stack, run: str, before: str, after: str, pos: int) -> Stack:
    marks = _EMPHASIS.get(run)
    if marks is None:
        return stack
    cjk = run[0] == "~"
    ours = [item for item in stack if item.kind is Kind.EMPHASIS and item.marker in marks]
    opens = after and not after.isspace() and not is_word_char(before, cjk_counts=cjk)
    # Discord takes white space in front of a double mark that closes, not of a single one.
    spaced = before.isspace() and (opens or run not in _SPACED_CLOSERS)
    if ours and before and not spaced and not is_word_char(after, cjk_counts=cjk):
        return tuple(item for item in stack if item not in ours)
    if not opens:
        return stack
    taken = {item.marker for item in ours}
    fresh = [Open(Kind.EMPHASIS, mark, pos) for mark in marks if mark not in taken]
    return (*stack, *fresh) if fresh else stack


_READERS: dict[str, Callable[[Stack, str, str, str, int], Stack]] = {
    "(": _open_paren,
    ")": _close_paren,
    "[": _open_bracket,
    "]": _close_bracket,
    '"': _straight_quote,
    "|": _bars,
    "*": _emphasis,
    "~": _emphasis,
    **dict.fromkeys(PAIRED_QUOTE_MARKS, _open_pair),
    **dict.fromkeys(OPENING_OF, _close_pair),
}

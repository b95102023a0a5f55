"""Takes the tail of the reasoning off the answer, where a provider glued it on without a tag.

Comes in: visible text, in any cutting, and the reasoning that came before it. Goes out: pieces of
text and of reasoning. Pure; a stage of `worker.chunks.processor`.

Armed only when reasoning came first and broke off in mid-sentence; then the beginning of the text,
in lower case up to a sentence end that is glued to an answer, was reasoning ("...figurin" and then
"g it out.Hello!"). A boundary is no domain, file, address, number or abbreviation; backticks
protect. Held are at most `MAX_HELD_CHARS` characters, and `HOLD_S` seconds.
"""

import re
from enum import Enum, auto

from worker.chunks.pieces import HoldTimer, Piece, Reasoned, Visible

MAX_HELD_CHARS = 180
"""Tails of reasoning are a sentence at most; more would hold up real text."""
HOLD_S = 1.5
"""A reader does not notice this at the start of a reply."""
_TAIL_CHARS = 80
"""Of the reasoning: its last word and the marks behind it."""

_ENDS = ".!?。！？…"
_CLOSERS = "」』）)]"
_EITHER = "\"'”’*_"  # closes a sentence if white space follows, else opens the answer
_OPENERS = "*_([{\"'“”‘’「『（"
_ABBREVIATIONS = frozenset(
    "e.g i.e etc vs mr mrs ms dr cf approx u.s u.k p.s a.m p.m no st".split()  # noqa: SIM905 - one line reads better
)
# Endings that make `word.ending` a domain or a file rather than two sentences.
_DOTTED = frozenset(
    word
    for line in (
        "com net org io dev ai app gg tv me co uk de fr jp eu edu gov info xyz js ts jsx tsx mjs",
        "py rs go rb c h cpp hpp cs java kt md txt json yaml yml toml ini cfg csv tsv xml html",
        "htm css scss sh bat exe dll so zip tar gz png jpg jpeg gif svg webp mp3 mp4 pdf log sql",
        "db lock env",
    )
    for word in line.split()
)
_LONGEST_ENDING = max(map(len, _DOTTED))
_WORD_BEFORE = re.compile(r"[\w.@/:\\-]{0,180}\Z")
_WORD_AFTER = re.compile(r"[\w-]*")
_TICK_OR_END = re.compile(f"[`{re.escape(_ENDS)}]")


class _Verdict(Enum):
    """What a mark in the held text is."""

    SPILL = auto()
    """The end of the reasoning, glued to the answer."""
    ANSWER = auto()
    """A sentence end with white space behind it: the text is an ordinary answer."""
    NAME = auto()
    """Part of a name, a number, an abbreviation; the search goes on."""
    UNKNOWN = auto()
    """The word behind it may still grow."""


class SpillGuard:
    """The beginning of one text. `stripped_chars` counts what was taken off.

    `is_over` once text other than white space was given out: from then on nothing is held or
    changed. Whoever notes more reasoning flushes first: it ends what is held.
    """

    def __init__(self) -> None:
        self.stripped_chars = 0
        self._reasoning = ""
        self._is_armed = False
        self.is_over = False
        self._held = ""
        self._timer = HoldTimer(HOLD_S)

    def note_reasoning(self, text: str) -> None:
        """Takes reasoning that the provider sent as such."""
        if not self.is_over and text:
            self._reasoning = (self._reasoning + text)[-_TAIL_CHARS:]
            self._is_armed = not _ends_sentence(self._reasoning)

    def feed(self, text: str) -> list[Piece]:
        """Takes text and returns what is decided."""
        if self.is_over or not self._is_armed:
            self.is_over = self.is_over or bool(text.strip())
            return [Visible(text)]
        self._held += text
        return self._decide(final=False)

    def tick(self, now_s: float) -> list[Piece]:
        """Decides a hold that is too old as if nothing followed."""
        hold = 0 if self._held else None
        return self.flush() if self._timer.expired(hold, now_s) else []

    def flush(self) -> list[Piece]:
        """Decides what is held, as if nothing followed."""
        return self._decide(final=True) if self._held else []

    def retract(self) -> str:
        """Gives up what is held to a closer without an opener: it was reasoning."""
        held, self._held = self._held, ""
        return held

    def _decide(self, *, final: bool) -> list[Piece]:
        window = self._held[:MAX_HELD_CHARS]
        core = window.lstrip()
        if core and core[0].islower():
            verdict, at = self._search(core, final=final)
        else:
            verdict, at = (_Verdict.ANSWER if core else _Verdict.UNKNOWN), 0
        if verdict is _Verdict.SPILL:
            return self._strip(len(window) - len(core) + at)
        is_full = len(self._held) >= MAX_HELD_CHARS
        return self._release() if final or is_full or verdict is _Verdict.ANSWER else []

    def _search(self, core: str, *, final: bool) -> tuple[_Verdict, int]:
        """Finds the first mark that decides, and where the text behind it begins."""
        in_code, at = False, 0
        while (found := _TICK_OR_END.search(core, at)) is not None:
            at = found.end()
            if found.group() == "`":
                in_code = not in_code
                continue
            while at < len(core) and core[at] in _ENDS + _CLOSERS:
                at += 1
            if in_code or at == len(core):
                continue
            verdict = self._judge(core, found.start(), at)
            if verdict is not _Verdict.NAME and not (verdict is _Verdict.UNKNOWN and final):
                return verdict, at
        return _Verdict.UNKNOWN, at

    def _judge(self, core: str, mark: int, end: int) -> _Verdict:
        found = _WORD_BEFORE.search(core, max(0, mark - MAX_HELD_CHARS), mark)
        before = found.group() if found else ""
        following = core[end]
        behind = core[end:].lstrip(_EITHER)[:1]
        if not behind:
            return _Verdict.UNKNOWN
        if behind.isspace():
            return _Verdict.NAME if before.lower() in _ABBREVIATIONS else _Verdict.ANSWER
        if core[mark] != ".":
            return _Verdict.SPILL
        if (
            len(before) < 2
            or before.lower() in _ABBREVIATIONS
            or not set(before).isdisjoint("@/\\:.")
        ):
            return _Verdict.NAME  # U.S.Army, e.g.this, a.b/C.D, 1.5
        if following.isdigit() or following in "-_=":
            return _Verdict.NAME
        if following.isupper() or following in _OPENERS or not following.isascii():
            return _Verdict.SPILL
        return self._judge_lower(core, end)

    def _judge_lower(self, core: str, end: int) -> _Verdict:
        """A dot before lower case: a name, unless the reasoning broke off within a word."""
        found = _WORD_AFTER.match(core, end)
        after = found.group() if found else ""
        if end + len(after) == len(core) and len(after) <= _LONGEST_ENDING:
            return _Verdict.UNKNOWN
        if after.lower() in _DOTTED or not self._broke_in_word():
            return _Verdict.NAME
        return _Verdict.SPILL

    def _broke_in_word(self) -> bool:
        """Whether a word was torn, "figurin" and "g it out": the strongest sign of all."""
        return self._reasoning[-1:].isalnum() and not self._held[0].isspace()

    def _strip(self, end: int) -> list[Piece]:
        spilled, answer = self._held[:end], self._held[end:]
        self.stripped_chars += len(spilled)
        self.is_over, self._held = True, ""
        return [Reasoned(spilled), Visible(answer)]

    def _release(self) -> list[Piece]:
        text, self._held = self._held, ""
        self.is_over = bool(text.strip())
        if not self.is_over:
            self._reasoning += text  # no word goes on behind it
        return [Visible(text)]


def _ends_sentence(text: str) -> bool:
    core = text.rstrip().rstrip(_CLOSERS + _EITHER)
    return core[-1:] in tuple(_ENDS)

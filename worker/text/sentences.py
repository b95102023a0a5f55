"""Where sentences end: not in numbers, abbreviations, addresses, list numbers.

Comes in: text. Goes out: offsets behind sentence ends. Pure; `worker.chunks` and
`worker.segments` may import it.
"""

import re
from collections.abc import Iterator
from enum import StrEnum

import regex

from worker.text.lexicon import CLOSING_MARKS, END_MARKS, FULL_MARKS

_ABBREVIATION = re.compile(
    r"mr|mrs|ms|dr|prof|rev|fr|sr|jr|inc|ltd|co|corp|llc|vs|etc|cf|viz|ibid|phd|md|st|ave|blvd|rd"
    r"|ln|sra|srta|sres|dra|mme|mlle|approx|dept|est|gen|gov|hon",
    re.I,
)
_NUMBERED = re.compile(r"no|p|pp|fig|vol|ch|sec|art|pt|nr|ref|eq", re.I)
_ACRONYM = regex.compile(r"(?:\p{L}\.)+\p{L}")
_ENDS = re.compile(r"[" + END_MARKS + r"]+|\n")
_LOOK_BACK_CHARS = 64  # the word before a mark; longer ones are no abbreviation


class EndKind(StrEnum):
    """What must follow a run of end marks so that it ends a sentence."""

    FULL = "full"
    """Nothing: full-width marks."""
    PLAIN = "plain"
    """White space."""
    BEFORE_NO_LOWER = "lower"
    """White space, and then no lower-case letter: an ellipsis may be a pause."""
    BEFORE_NO_DIGIT = "digit"
    """White space, and then no digit: "No. 5", "Fig. 3"."""

    def allows(self, following: str) -> bool:
        """Whether the first character behind the white space lets the sentence end."""
        match self:
            case EndKind.BEFORE_NO_LOWER:
                return not following.islower()
            case EndKind.BEFORE_NO_DIGIT:
                return not following.isdigit()
            case _:
                return True


def judge_end(before: str, marks: str, *, at_line_start: bool) -> EndKind | None:
    """What the run `marks` behind `before` is; None if it ends no sentence.

    Args:
        before: text of the same line in front of the marks (its last 64 characters do).
        marks: a whole run of end marks.
        at_line_start: `before` reaches back to the start of the line.
    """
    if not FULL_MARKS.isdisjoint(marks):
        return EndKind.FULL
    if marks != ".":
        return EndKind.BEFORE_NO_LOWER if set(marks) <= {".", "…"} else EndKind.PLAIN
    word = before.rsplit(None, 1)[-1] if before and not before[-1].isspace() else ""
    core = word.lstrip("([{\"'“‘*_~|«「")
    if not core:
        return EndKind.PLAIN
    if _ABBREVIATION.fullmatch(core) or _ACRONYM.fullmatch(core):
        return None
    if len(core) == 1 and core.isupper() and core != "I":
        return None
    if core.isdigit() and at_line_start and before.strip() == word:
        return None  # the number of a list item stays with its text
    return EndKind.BEFORE_NO_DIGIT if _NUMBERED.fullmatch(core) else EndKind.PLAIN


def sentence_ends(text: str, start: int = 0, *, final: bool = False) -> Iterator[int]:
    """Gives the offsets behind the sentence and line ends of `text`, closing marks included.

    Marks in front of `start` are not looked at.

    What decides an end must stand in `text`; `final` says that nothing follows.
    """
    for found in _ENDS.finditer(text, start):
        at, end = found.span()
        if text[at] == "\n":
            yield end
            continue
        line = max(text.rfind("\n", 0, at) + 1, at - _LOOK_BACK_CHARS)
        kind = judge_end(
            text[line:at],
            found.group(),
            at_line_start=line == 0 or text[line - 1] == "\n",
        )
        if kind is None:
            continue
        while end < len(text) and text[end] in CLOSING_MARKS:
            end += 1
        if _ends_at(text, end, kind, final):
            yield end


def _ends_at(text: str, end: int, kind: EndKind, final: bool) -> bool:
    if kind is EndKind.FULL:
        return True
    rest = text[end:].lstrip()
    if end == len(text):
        return final
    if not text[end].isspace():
        return False
    if not rest:
        return final or kind is EndKind.PLAIN
    return kind.allows(rest[0])

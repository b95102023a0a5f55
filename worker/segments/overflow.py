"""Where prose is cut that has no boundary within the size of a message.

Comes in: the held text and what must stay whole. Goes out: an offset, or the wish to wait. Pure;
used by `worker.segments.boundaries` only.
"""

import re
from collections.abc import Callable, Iterator

import msgspec

from worker.segments.limits import Limits
from worker.text.graphemes import fitting_length
from worker.text.lexicon import is_visible
from worker.text.sentences import sentence_ends

Span = tuple[int, int]

# What a cut would break or turn into something else (Discord, 2.1): addresses, custom emoji,
# mentions, timestamps, commands, masked links (also unfinished ones), short codes, escape pairs,
# a model's own control tokens.
_ATOMIC = re.compile(
    r"https?://\S+"
    r"|<(?:a?:\w{2,32}:\d+|[@#][!&]?\d+|t:-?\d+(?::\w)?|/[\w -]{1,100}:\d+|id:\w+|https?://[^>\s]+)>"
    r"|\[[^\[\]\n]{0,400}\]\([^()\s]*(?:\([^()\s]*\)[^()\s]*)?\)"
    r"|<\|[\w ]{1,40}\|>"
    r"|:\w{2,32}:"
    r"|\\[^\w\s]"
    r"|\[[^\[\]\n]{0,400}(?:\](?:\([^)\s]*)?)?$"
)
_LOOK_BACK_CHARS = 64  # closing marks behind a sentence end that lies before the range

_BLANKS = re.compile(r"\s+")


class Wait(msgspec.Struct, frozen=True, gc=False):
    """No good cut yet: ask again when the text has `length` characters."""

    length: int


class Held(msgspec.Struct, frozen=True):
    """A text that is to be cut.

    Args:
        text: what is held.
        holder: offset of the first construct that defers cuts, None without one.
        code_spans: inline code in it.
        openers: behind each opening mark, where it begins.
        hard_cut: the last place at or before an offset that parts no character and no marker.
    """

    text: str
    holder: int | None
    code_spans: list[Span]
    openers: dict[int, int]
    hard_cut: Callable[[str, int], int]


def atoms(text: str) -> list[Span]:
    """The stretches of `text` that must stay whole."""
    return [found.span() for found in _ATOMIC.finditer(text)]


def find_cut(held: Held, limits: Limits) -> int | Wait:
    """The offset at which to cut: sentence end, white space, border of an atom, character."""
    text, holder = held.text, held.holder
    body = fitting_length(text, limits.body)
    full = len(text) >= body
    if holder is not None and holder < limits.back and not full:
        return Wait(min(holder + limits.hold, limits.body))
    right = len(text) if holder is None or holder < limits.back else holder
    whole = atoms(text) + held.code_spans
    soft = min(limits.soft, right)
    cut = _at_sentence(held, whole, soft, limits.back, min(right, body))
    if cut is None:
        cut = _at_blank(text, whole, soft, limits.back, min(right, body))
    if cut is None:
        cut = _at_character(held, whole, min(soft, body), body)
    if not full and (cut is None or not is_visible(text[:cut])):
        return Wait(limits.body)
    return cut if cut is not None else held.hard_cut(text, min(len(text), body))


def atom_around(whole: list[Span], cut: int) -> Span | None:
    """The atom that `cut` would part."""
    for start, end in whole:
        if start < cut < end:
            return start, end
    return None


def before_openers(end: int, openers: dict[int, int]) -> int:
    """The end of a sentence without the marks that open what follows: `。**` before a word."""
    while end in openers:
        end = openers[end]
    return end


def _at_sentence(held: Held, whole: list[Span], soft: int, low: int, high: int) -> int | None:
    for end in _ends_between(held, whole, soft, high):
        return end
    last = None
    for end in _ends_between(held, whole, low, soft - 1):
        last = end
    return last


def _ends_between(held: Held, whole: list[Span], low: int, high: int) -> Iterator[int]:
    for behind in sentence_ends(held.text, max(low - _LOOK_BACK_CHARS, 0)):
        end = before_openers(behind, held.openers)
        if end > high:
            break
        if end >= low and atom_around(whole, end) is None:
            yield end


def _at_blank(text: str, whole: list[Span], soft: int, low: int, high: int) -> int | None:
    last = None
    for found in _BLANKS.finditer(text, low - 1, high):
        at = found.start()
        if at < low or atom_around(whole, at) is not None:
            continue
        if at > soft:
            return at if last is None else last
        last = at
    return last


def _at_character(held: Held, whole: list[Span], at: int, body: int) -> int | None:
    """In front of the atom at `at`; None inside one that fills the message so far."""
    atom = atom_around(whole, at)
    if atom is None:
        return held.hard_cut(held.text, at)
    if is_visible(held.text[: atom[0]]):
        return atom[0]
    return None

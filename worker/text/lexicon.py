"""The characters that the text rooms know by name: quotation marks, sentence marks, blanks.

Comes in: nothing. Goes out: tables and predicates over characters. Pure; `worker.chunks` and
`worker.segments` may import it.
"""

import regex

PAIRED_QUOTE_MARKS = {
    "「": "」",
    "『": "』",
    "｢": "｣",
    "«": "»",
    "‹": "›",
    "“": "”",
    "〈": "〉",
    "《": "》",
}
"""Opening to closing marks. ‘ ’ and ' are missing on purpose: they are apostrophes."""

OPENING_OF = {closing: opening for opening, closing in PAIRED_QUOTE_MARKS.items()}

END_MARKS = ".!?…。！？．｡"
"""What may end a sentence."""

FULL_MARKS = frozenset("。！？．｡")
"""Those that end one without white space behind them."""

CLOSING_MARKS = frozenset(")]}\"'”’»›」』｣】）〉》*_~|")
"""What stays with the sentence that ended before it."""

_CJK = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]")

# Discord answers 50006 to a message of these alone (spec: reports 31): white space, format and
# control characters, fillers, variation selectors and the braille blank.
_INVISIBLE = regex.compile(
    r"[\s\p{Cf}\p{Cc}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0]*"
)


def is_visible(text: str) -> bool:
    """Whether a reader would see anything of `text`."""
    first = text[:1]
    return (first.isascii() and first.isalnum()) or _INVISIBLE.fullmatch(text) is None


def is_word_char(char: str, *, cjk_counts: bool) -> bool:
    """Whether `char` (or the empty string at an edge) is part of a word beside a marker.

    Chinese, Japanese and Korean have no spaces between words: for `*` their letters count as
    borders, so that emphasis works inside a line, for `~~` (a drawn-out sound in kana) not.
    """
    if not char or not (char == "_" or char.isalnum()):
        return False
    return cjk_counts or _CJK.match(char) is None

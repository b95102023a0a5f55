"""Takes what people said out of what a provider says about a request: errors quote prompts.

Comes in: a text of a failure, and the texts of the request that failed. Goes out: the same text
with `[redacted:prompt]` where it quotes one of them. Linear in both. Pure; the driver of a turn
uses it.

Compared is what remains when white space, backslashes, JSON escapes, HTML entities and case are
taken away, since that is what happens to a quotation on its way. Not covered: a paraphrase, and
quotations of less than `MIN_QUOTE_CHARS` out of something longer.
"""

import html
import re
from collections.abc import Iterable
from typing import Final

MARK: Final = "[redacted:prompt]"
MIN_QUOTE_CHARS: Final = 16
"""Shorter runs are phrases that prompts and error messages have in common."""
MIN_WHOLE_CHARS: Final = 6
"""A text that is as short as this is looked for whole, as a word; shorter ones say nothing."""

_TOKEN = re.compile(
    r"\\+u(?P<unit>[0-9a-fA-F]{4})|(?P<gone>\\+[nrt]?|[\s\u200b\ufeff]+)|(?P<entity>&#?\w{2,8};)",
)
"""What a character may have become. Runs of backslashes are any depth of JSON in JSON."""


class _Plain:
    """A text without its wrapping, each character with its place in the text that came in."""

    __slots__ = ("spans", "text")

    def __init__(self, text: str) -> None:
        chars: list[str] = []
        self.spans: list[tuple[int, int]] = []
        at = 0
        for match in _TOKEN.finditer(text):
            self._add(chars, text[at : match.start()], at)
            self._unwrap(chars, match)
            at = match.end()
        self._add(chars, text[at:], at)
        self.text = "".join(chars)

    def _add(self, chars: list[str], text: str, start: int) -> None:
        for place, char in enumerate(text, start):
            low = char.lower()
            chars.append(low if len(low) == 1 else char)
            self.spans.append((place, place + 1))

    def _unwrap(self, chars: list[str], match: re.Match[str]) -> None:
        if match["gone"] is not None:
            return
        text = chr(int(match["unit"], 16)) if match["unit"] else html.unescape(match["entity"])
        for char in text.lower():
            if not char.isspace():
                chars.append(char)
                self.spans.append(match.span())


def without_quotes(text: str, said: Iterable[str]) -> str:
    """The text with a mark in the place of each quotation of what was said.

    >>> without_quotes("no: 'What is   a lighthouse?'", ["what is a lighthouse?"])
    "no: '[redacted:prompt]'"
    """
    plain = _Plain(text)
    is_quoted = bytearray(len(plain.text))
    grams = _grams_of(plain.text)
    for one in dict.fromkeys(said):
        needle = _Plain(one).text
        if len(needle) < MIN_QUOTE_CHARS:
            _mark_whole(plain.text, needle, is_quoted)
        elif grams:
            _mark_runs(needle, grams, is_quoted)
    return _replaced(text, plain, is_quoted)


def _grams_of(text: str) -> dict[str, list[int]]:
    grams: dict[str, list[int]] = {}
    for at in range(len(text) - MIN_QUOTE_CHARS + 1):
        grams.setdefault(text[at : at + MIN_QUOTE_CHARS], []).append(at)
    return grams


def _mark_runs(needle: str, grams: dict[str, list[int]], is_quoted: bytearray) -> None:
    for at in range(len(needle) - MIN_QUOTE_CHARS + 1):
        # Taken out: a text that repeats itself would mark the same places again and again.
        for place in grams.pop(needle[at : at + MIN_QUOTE_CHARS], ()):
            is_quoted[place : place + MIN_QUOTE_CHARS] = b"\1" * MIN_QUOTE_CHARS


def _mark_whole(text: str, needle: str, is_quoted: bytearray) -> None:
    if len(needle) < MIN_WHOLE_CHARS:
        return
    at = text.find(needle)
    while at >= 0:
        is_quoted[at : at + len(needle)] = b"\1" * len(needle)
        at = text.find(needle, at + len(needle))


def _replaced(text: str, plain: _Plain, is_quoted: bytearray) -> str:
    parts: list[str] = []
    done = at = 0
    while (at := is_quoted.find(1, at)) >= 0:
        end = is_quoted.find(0, at)
        end = len(is_quoted) if end < 0 else end
        parts += (text[done : plain.spans[at][0]], MARK)
        done, at = plain.spans[end - 1][1], end
    return "".join((*parts, text[done:])) if parts else text

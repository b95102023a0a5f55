"""Finds a known secret in a text, whatever it was wrapped in. For `shared.redaction` only.

Comes in: a text and secrets. Goes out: spans of the text. An endpoint may echo a key upper-cased,
reversed, wrapped over lines, percent-encoded, as base64 of a header that holds it, cut in half,
or two of these at once. So the text is looked at through *views*: each undoes one wrapping and
knows where its characters stood before. Secrets are looked for in every view up to `ROUNDS`
wrappings deep. A hit is any common run of `MIN_RUN` characters, which covers keys that the
endpoint itself cut short. Each view costs time linear in its text. Pure.

Not covered: compression, encryption, a key split by foreign text. Hence no public sink shows
upstream text at all.
"""

import binascii
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

ROUNDS = 2
"""Wrappings that are undone: double percent-encoding and base64 inside JSON escapes are seen in
the wild, three layers are not."""
MIN_RUN = 12
"""Common characters that make a hit: below it, prose and public prefixes would collide."""
MIN_ENCODED = 8
"""Secrets shorter than this are looked for as they are only: their base64 is as short as a word."""
MIN_SECRET = 4
"""Shorter than this, a secret would blank out ordinary text; it is ignored."""

_GRAM = 6
"""Every run of 2 * _GRAM - 1 = 11 characters holds a piece of _GRAM that starts at a multiple of
_GRAM in the secret, so an index of these few pieces misses no run of `MIN_RUN`."""

_INVISIBLE = "\0\u200b\u200c\u200d\u2060\ufeff\u00ad"
_SPACE = re.compile(rf"[\s{_INVISIBLE}]+")

Span = tuple[int, int]
Trace = Callable[[int, int], Span]


class _View:
    """A text with a way back: `root_span` gives the place of a range in the text that came in.

    `spreads` is true under base64: its hit covers the whole run of the alphabet around it, since
    the characters at both ends mix the secret's bits with others.
    """

    __slots__ = ("_parent", "_trace", "readable", "spreads", "text")

    def __init__(
        self,
        text: str,
        parent: "_View | None" = None,
        trace: Trace | None = None,
        *,
        spreads: bool = False,
        readable: re.Pattern[bytes] | None = None,
    ) -> None:
        self.text = text
        self._parent = parent
        self._trace = trace
        self.spreads: bool = spreads or (parent is not None and parent.spreads)
        self.readable: re.Pattern[bytes] = readable or (parent.readable if parent else _READABLE)

    def root_span(self, start: int, end: int) -> Span:
        view = self
        while view._parent is not None and view._trace is not None:
            start, end = view._trace(start, end)
            view = view._parent
        return start, end


def find_secrets(text: str, secrets: Iterable[str]) -> list[Span]:
    """Gives the spans of `text` that hold a secret, or a run of `MIN_RUN` characters of one."""
    known = [secret for secret in dict.fromkeys(secrets) if len(secret) >= MIN_SECRET]
    if not known or not text:
        return []
    spans = list(_plain_finds(text, [secret for secret in known if len(secret) < MIN_ENCODED]))
    if len(text) < MIN_ENCODED:
        return spans
    index = _index_of(tuple(secret for secret in known if len(secret) >= MIN_ENCODED))
    readable = _READABLE_ASCII if "".join(known).isascii() else _READABLE
    for view in _views(_View(text, readable=readable)):
        for start, end in index.runs(view.text):
            span = view.root_span(start, end)
            spans.append(_spread(text, *span) if view.spreads else span)
    return spans


def _plain_finds(text: str, short: list[str]) -> Iterator[Span]:
    folded = _fold(text)
    for secret in short:
        for match in re.finditer(re.escape(_fold(secret)), folded):
            yield match.span()


def _fold(text: str) -> str:
    """Lower case with unchanged length, so that positions stay."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := c.lower()) == 1 else c for c in text)


class _Index:
    """The secrets, forwards and backwards, cut into pieces to compare a view's pieces with."""

    def __init__(self, secrets: tuple[str, ...]) -> None:
        self._places: dict[str, list[tuple[str, int]]] = {}
        for secret in secrets:
            wire = secret.encode("utf-8", "surrogatepass").decode("latin-1")
            for form in dict.fromkeys((secret, wire)):
                for needle in (_fold(form), _fold(form)[::-1]):
                    for at in range(0, len(needle) - _GRAM + 1, _GRAM):
                        self._places.setdefault(needle[at : at + _GRAM], []).append((needle, at))

    def runs(self, text: str) -> Iterator[Span]:
        """Gives each maximal run that text and secret have in common, if it is long enough."""
        if not self._places:
            return
        folded = _fold(text)
        places = self._places
        size = len(folded) - _GRAM + 1
        grams = {gram for at in range(size) if (gram := folded[at : at + _GRAM]) in places}
        for gram in grams:
            for needle, offset in places[gram]:
                yield from _runs_at(folded, needle, offset)


@lru_cache(maxsize=64)
def _index_of(secrets: tuple[str, ...]) -> _Index:
    """The index of a process's secrets and of one attempt's: each serves many texts."""
    return _Index(secrets)


def _runs_at(folded: str, needle: str, offset: int) -> Iterator[Span]:
    enough = min(MIN_RUN, len(needle))
    gram = needle[offset : offset + _GRAM]
    at = folded.find(gram)
    while at >= 0:
        start, low = at, offset
        while start and low and folded[start - 1] == needle[low - 1]:
            start, low = start - 1, low - 1
        end, high = at + _GRAM, offset + _GRAM
        while end < len(folded) and high < len(needle) and folded[end] == needle[high]:
            end, high = end + 1, high + 1
        if end - start >= enough:
            yield start, end
            at = folded.find(gram, end)
        else:
            at = folded.find(gram, at + 1)


# ------------------------------------------------------------------------------------- views


def _views(root: _View) -> Iterator[_View]:
    frontier = list(_with_squeezed(root))
    yield from frontier
    for left in reversed(range(ROUNDS)):
        unwrappers = (*_UNWRAPPERS, _reversed) if left else _UNWRAPPERS
        frontier = [
            view
            for outer in frontier
            for unwrap in unwrappers
            for inner in unwrap(outer)
            for view in _with_squeezed(inner)
        ]
        yield from frontier


def _with_squeezed(view: _View) -> Iterator[_View]:
    """The view itself, and, where it has any, the one without white space and invisible signs."""
    yield view
    yield from _substituted(view, _SPACE, lambda _: "")


def _substituted(
    view: _View, pattern: re.Pattern[str], decode: Callable[[re.Match[str]], str]
) -> Iterator[_View]:
    """The view in which each match of `pattern` became one character, or none."""
    text, count = pattern.subn(decode, view.text)
    if not count:
        return
    starts: list[int] = []
    ends: list[int] = []

    def trace(start: int, end: int) -> Span:
        if not starts:  # built for a view with a hit only
            last = 0
            for match in pattern.finditer(view.text):
                a, b = match.span()
                starts.extend(range(last, a))
                ends.extend(range(last + 1, a + 1))
                if decode(match):
                    starts.append(a)
                    ends.append(b)
                last = b
            starts.extend(range(last, len(view.text)))
            ends.extend(range(last + 1, len(view.text) + 1))
        return starts[start], ends[end - 1]

    yield _View(text, view, trace)


def _reversed(view: _View) -> Iterator[_View]:
    """The text backwards: not for the last round, since the index holds the secrets backwards."""
    size = len(view.text)
    yield _View(view.text[::-1], view, lambda start, end: (size - end, size - start))


_PERCENT = re.compile(r"%([0-9A-Fa-f]{2})")
_BACKSLASH = re.compile(r"\\u([0-9A-Fa-f]{4})|\\x([0-9A-Fa-f]{2})|\\([\"\\/])")
_ENTITY = re.compile(r"&#(\d{1,7});|&#[xX]([0-9A-Fa-f]{1,6});|&(amp|lt|gt|quot|apos);")
_NAMED = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
_HIGHEST_CODE_POINT = 0x10FFFF


def _percent(view: _View) -> Iterator[_View]:
    return _substituted(view, _PERCENT, lambda m: chr(int(m[1], 16)))


def _backslash(view: _View) -> Iterator[_View]:
    return _substituted(view, _BACKSLASH, lambda m: m[3] or chr(int(m[1] or m[2], 16)))


def _entity(view: _View) -> Iterator[_View]:
    def decode(match: re.Match[str]) -> str:
        if match[3]:
            return _NAMED[match[3]]
        number = int(match[1]) if match[1] else int(match[2], 16)
        return chr(min(number, _HIGHEST_CODE_POINT))

    return _substituted(view, _ENTITY, decode)


class _Decoder:
    """An encoding that writes `octets` bytes as `chars` characters, `zero` for no bits."""

    __slots__ = ("_decode", "_zero", "chars", "octets")

    def __init__(self, chars: int, octets: int, zero: str, decode: Callable[[str], bytes]) -> None:
        self.chars = chars
        self.octets = octets
        self._zero = zero
        self._decode = decode

    def decode(self, run: str) -> bytes:
        """Decodes a run of any length, a started group at its end as far as it has whole bytes."""
        filled = run + self._zero * (-len(run) % self.chars)
        return self._decode(filled)[: len(run) * self.octets // self.chars]


_READABLE = re.compile(rb"[\x20-\x7e\s\0\x80-\xff]{8,}+")
_READABLE_ASCII = re.compile(rb"[\x20-\x7e\s\0]{8,}+")


def _runs_view(
    view: _View, runs: list[re.Match[str]], decoder: _Decoder, shift: int
) -> Iterator[_View]:
    """The view of all runs of an alphabet, decoded from their character number `shift` on.

    Only what reads as text is kept, which is next to nothing where the run was no such encoding.
    """
    pieces: list[str] = []
    places: list[tuple[int, int, int]] = []  # place in the view, of the run, in the decoded run
    size = 0
    for match in runs:
        decoded = decoder.decode(match[0][shift:])
        for readable in view.readable.finditer(decoded):
            places.append((size, match.start() + shift, readable.start()))
            pieces.append(readable[0].decode("latin-1"))
            size += len(pieces[-1]) + 1
    if not pieces:
        return

    def trace(start: int, end: int) -> Span:
        begin, begin_run, begin_byte = places[bisect_right(places, (start, math.inf)) - 1]
        last, last_run, last_byte = places[bisect_right(places, (end - 1, math.inf)) - 1]
        return (
            begin_run + (begin_byte + start - begin) * decoder.chars // decoder.octets,
            last_run - (-(last_byte + end - last) * decoder.chars // decoder.octets),
        )

    yield _View("\n".join(pieces), view, trace, spreads=decoder is not _HEX)


_BASE64_RUN = re.compile(r"[A-Za-z0-9+/_-]{10,}+")
_BASE32_RUN = re.compile(r"[A-Za-z2-7]{13,}+")
_HEX_RUN = re.compile(r"[0-9A-Fa-f]{16,}+")
_HEX_PAIRS = re.compile(r"(?:\b0x|\\x)?[0-9A-Fa-f]{2}(?:(?:[ :,-]| ?, ?0x|\\x)[0-9A-Fa-f]{2}){7,}+")
_DECIMALS = re.compile(r"(?<![\d.])\d{1,3}(?:[ ,;]{1,2}\d{1,3}){7,}+")
_NUMBER = re.compile(r"\d{1,3}")
_BYTES = 256
_HEX_SEPARATORS = re.compile(r"0x|\\x|[ :,-]")
_URL_SAFE = str.maketrans("-_", "+/")

_BASE32_DIGITS = str.maketrans(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz234567",
    "0123456789abcdefghijklmnop0123456789abcdefghijklmnopqrstuv",
)


def _from_base32(run: str) -> bytes:
    """Through `int`, linear for a base that is a power of two; `base64.b32decode` loops."""
    return int(run.translate(_BASE32_DIGITS), 32).to_bytes(len(run) * 5 // 8, "big") if run else b""


_BASE64 = _Decoder(4, 3, "A", lambda run: binascii.a2b_base64(run.translate(_URL_SAFE)))
_BASE32 = _Decoder(8, 5, "A", _from_base32)
_HEX = _Decoder(2, 1, "0", bytes.fromhex)
_ALPHABETS = ((_BASE64_RUN, _BASE64), (_BASE32_RUN, _BASE32), (_HEX_RUN, _HEX))


def _alphabets(view: _View) -> Iterator[_View]:
    for pattern, decoder in _ALPHABETS:
        runs = list(pattern.finditer(view.text))
        if runs:
            for shift in range(decoder.chars):
                yield from _runs_view(view, runs, decoder, shift)


def _hex_pairs(view: _View) -> Iterator[_View]:
    """Hex with separators: `63:6F:72`, `0x63, 0x6f`, the bytes of a dump."""
    for match in _HEX_PAIRS.finditer(view.text):
        digits: list[int] = []
        last = match.start()
        for separator in _HEX_SEPARATORS.finditer(view.text, match.start(), match.end()):
            digits.extend(range(last, separator.start()))
            last = separator.end()
        digits.extend(range(last, match.end()))
        decoded = bytes.fromhex("".join(view.text[at] for at in digits)).decode("latin-1")

        def trace(start: int, end: int, digits: list[int] = digits) -> Span:
            return digits[2 * start], digits[2 * end - 1] + 1

        yield _View(decoded, view, trace)


def _decimals(view: _View) -> Iterator[_View]:
    """Bytes as decimal numbers: how JavaScript writes a buffer, `[115, 107, 45, ...]`."""
    for match in _DECIMALS.finditer(view.text):
        numbers = list(_NUMBER.finditer(view.text, match.start(), match.end()))
        decoded = "".join(chr(int(one[0])) if int(one[0]) < _BYTES else " " for one in numbers)

        def trace(start: int, end: int, numbers: list[re.Match[str]] = numbers) -> Span:
            return numbers[start].start(), numbers[end - 1].end()

        yield _View(decoded, view, trace)


_UNWRAPPERS: tuple[Callable[[_View], Iterator[_View]], ...] = (
    _percent,
    _backslash,
    _entity,
    _alphabets,
    _hex_pairs,
    _decimals,
)

_ALPHABET_END = re.compile(r"[A-Za-z0-9+/_=-]*+")
_ALPHABET = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-")


def _spread(text: str, start: int, end: int) -> Span:
    while start and text[start - 1] in _ALPHABET:
        start -= 1
    rest = _ALPHABET_END.match(text, end)
    return start, rest.end() if rest else end


def merged(spans: list[Span]) -> list[Span]:
    """Joins spans that overlap or touch, in order."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined

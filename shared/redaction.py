"""Takes secrets out of text before it leaves the process: logs, reports, spools, terminals.

Comes in: untrusted text and the secrets that this attempt and process know. Goes out: the text
with markers `[redacted:<kind>]`, and how many of each kind. Pure; anyone may import it.

Order: known secrets in any disguise (`shared.disguises`), then shapes of credentials in general,
then truncation by `clip`, never inside a marker. Redaction first: a cut would hide half a key
from the patterns and print the other half. Every quantifier is bounded, so the time is linear in
the text. Best effort: public sinks show no upstream text at all.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache

import msgspec

from shared.disguises import Span, find_secrets, merged
from shared.secrets import Secret

MAX_TEXT_CHARS = 64 * 1024
"""Longer text is cut: a stack trace or an error body beyond it helps nobody."""
CUT_MARGIN_CHARS = 1024
"""Dropped at such a cut as well: a secret that the cut halved is longer than this nowhere."""
CUT_MARKER = "[cut]"
SNIPPET_WINDOW_CHARS = 8 * 1024
"""What is read for a snippet: redaction of this much takes 25 ms, of 64 KiB a fifth of a second,
too long for an event loop with a hundred streams."""
MAX_DEPTH = 12
"""Of nested metadata; no provider nests deeper, and recursion must end."""
TOO_DEEP = "[too deep]"
_MAX_PASSES = 6
"""A replacement may put two halves of a shape side by side; one more pass finds it. Each pass
leaves fewer characters outside markers, two are usual."""

_MARK = re.compile(r"\[redacted:[a-z-]{2,20}\]")
_ONLY_MARKS = re.compile(r"(?:\[redacted:[a-z-]{2,20}\])+")

# What may not stand before a shape, so that `task-list` and `risk-free` stay words.
_B = r"(?<![A-Za-z0-9])"
# The letters of an escape are none of a word: `%22sk-...` in an address, `\\nsk-...` in JSON text.
_B_OR_ESCAPE = (
    rf"(?:{_B}|(?<=%[0-9A-Fa-f]{{2}})"
    r"|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4})|(?<=\\x[0-9A-Fa-f]{2}))"
)
_ESCAPE_SIGN = re.compile(r"[%\\]")
_VALUE = r"""([^\s"',;}{]{%d,4000})"""
_ASSIGN = r"""["']?\s{0,8}(?:=>|[:=])\s{0,8}["']?"""

# Looser than secret scanners on purpose: those minimise false alarms, redaction minimises misses.
# Kind and pattern; a group, where there is one, is what goes. On overlaps the earlier row names it.
_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE if kind in {"header", "param", "field"} else 0))
    for kind, pattern in (
        (
            "private-key",
            r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----"
            r"(?:[^-]|-(?!----END )){0,8000}+(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?",
        ),
        (
            "url-password",
            r"(?i:\b[a-z][a-z0-9+.-]{1,30}+://[^\s/@:\"'<>]{0,256}+:([^\s/@\"'<>]{1,512})@)",
        ),
        ("url-user", r"(?i:\bhttps?://([^\s/@:\"'<>]{16,512}+)@)"),
        ("webhook", r"(?i:/api/(?:v\d{1,3}/)?webhooks/\d{15,21}/([\w-]{20,300}))"),
        ("webhook", r"(?i:/interactions/\d{15,21}/([\w-]{20,300}))"),
        (
            "discord-token",
            _B + r"[A-Za-z0-9_-]{22,30}+\.[A-Za-z0-9_-]{6,7}\.[A-Za-z0-9_-]{27,45}(?![\w-])",
        ),
        ("provider-key", _B + r"(?:sk|pk|rk)-[A-Za-z0-9_-]{16,400}"),
        (
            "provider-key",
            _B + r"(?:sk|pk|rk)-[A-Za-z0-9_-]{0,40}+[*\u2022.]{3,100}[A-Za-z0-9_-]{0,40}",
        ),
        ("provider-key", _B + r"AIza[A-Za-z0-9_-]{20,60}"),
        (
            "provider-key",
            _B + r"(?:xai-|gsk_|pplx-|r8_|hf_|nvapi-|fw_|csk-|tgp_v1_|jina_|co_|AQ\.)"
            r"[A-Za-z0-9_-]{20,200}",
        ),
        ("cloud-key", _B + r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?![A-Za-z0-9])"),
        (
            "vcs-token",
            _B + r"(?:gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_\w{20,255}|glpat-[\w-]{20,64})",
        ),
        (
            "chat-token",
            _B + r"(?:xox[abeprs]-[A-Za-z0-9-]{10,250}|\d{8,10}:A[A-Za-z0-9_-]{34})(?![\w-])",
        ),
        (
            "jwt",
            _B
            + r"ey[A-Za-z0-9_-]{10,2000}+\.ey[A-Za-z0-9_-]{10,4000}+(?:\.[A-Za-z0-9_-]{0,1000})?",
        ),
        (
            "header",
            r"\b(?:proxy-)?authorization"
            + _ASSIGN
            + r"(?:(?:bearer|basic|token|bot|apikey)\s{1,8})?"
            + _VALUE % 4,
        ),
        ("header", r"\b(?:bearer|basic)\s{1,8}([A-Za-z0-9._~+/=-]{16,4000})"),
        (
            "header",
            r"\b(?:x-(?:goog-)?api-key|api-key|x-auth-token|set-cookie|cookie)"
            + _ASSIGN
            + _VALUE % 4,
        ),
        (
            "param",
            r"[?&;](?:key|api[_-]?key|access_token|refresh_token|token|sig|signature|secret"
            r"|password|auth|x-amz-signature|x-goog-signature)=([^&\s\"'<>#]{4,4000})",
        ),
        (
            "field",
            r"(?:api[_-]?key|secret|passw(?:or)?d|credential|private[_-]?key|access[_-]?token"
            r"|refresh[_-]?token|auth[_-]?token|bot[_-]?token)[\w.-]{0,20}+" + _ASSIGN + _VALUE % 6,
        ),
    )
)

_SHAPES_AMONG_ESCAPES = tuple(
    (kind, re.compile(shape.pattern.replace(_B, _B_OR_ESCAPE), shape.flags))
    for kind, shape in _SHAPES
)
"""The same for texts with escapes: they take twice the time, which most texts need not."""

_SECRET_NAME = re.compile(
    r"api[_-]?key|secret|passw(?:or)?d|credential(?![_-]?source)|private[_-]?key|authorization"
    r"|cookie|(?:access|refresh|auth|bot|interaction)[_-]?token|webhook[_-]?url",
    re.IGNORECASE,
)


class Redacted(msgspec.Struct, frozen=True, kw_only=True):
    """A redacted text and how many pieces of each kind went.

    `key` is a known secret: that it was there is a finding, the endpoint echoes credentials.
    """

    text: str
    counts: dict[str, int] = msgspec.field(default_factory=dict)


def redact(text: str, secrets: Iterable[Secret | str] = ()) -> str:
    """Replaces known secrets in any disguise, and whatever has the shape of a credential.

    Idempotent. Text over `MAX_TEXT_CHARS` is cut, with `CUT_MARKER` at the end.
    """
    return redact_counted(text, secrets).text


def redact_counted(text: str, secrets: Iterable[Secret | str] = ()) -> Redacted:
    """Redacts like `redact`, and tells how many pieces of each kind were replaced."""
    known = _revealed(secrets)
    counts: Counter[str] = Counter()
    cut = len(text) > MAX_TEXT_CHARS
    if cut:
        text = text[:MAX_TEXT_CHARS]
    passes_left = _MAX_PASSES
    while passes_left and (after := _pass(text, known, counts)) != text:
        text = after
        passes_left -= 1
    if cut:
        text = _without_end(text, CUT_MARGIN_CHARS) + CUT_MARKER
    return Redacted(text=text, counts=dict(counts))


def redact_value(value: object, secrets: Iterable[Secret | str] = ()) -> object:
    """Redacts metadata: keys and values of dicts, lists and strings, however nested.

    A string under a name like `api_key` goes whole, since alone it has no shape to be known by.
    Other values than dict, list, tuple, str, bytes, number, bool and None become their type's name.
    """
    return _walk(value, _revealed(secrets), 0)


def clip(text: str, limit_chars: int) -> str:
    """Shortens a redacted text to `limit_chars`, an ellipsis at the end, never inside a marker."""
    if len(text) <= limit_chars:
        return text
    return _without_end(text, len(text) - limit_chars + 1) + "\u2026"


def snippet(text: str, secrets: Iterable[Secret | str] = (), limit_chars: int = 2000) -> str:
    """The beginning of untrusted text for a record or the modal: redacted, then cut.

    Cheap enough for an event loop, since only `SNIPPET_WINDOW_CHARS` are looked at.
    """
    window = redact(text[:SNIPPET_WINDOW_CHARS], secrets)
    if len(text) > SNIPPET_WINDOW_CHARS:
        window = _without_end(window, CUT_MARGIN_CHARS) + CUT_MARKER
    return clip(window, limit_chars)


def clean(text: str) -> str:
    """Drops NUL and turns lone surrogates into U+FFFD: no database and no UTF-8 takes them."""
    text = text.replace("\0", "")
    if text.isascii():
        return text
    joined = text.encode("utf-16", "surrogatepass")
    return joined.decode("utf-16", "replace")


def _revealed(secrets: Iterable[Secret | str]) -> list[str]:
    return [one.reveal() if isinstance(one, Secret) else one for one in secrets]


def _pass(text: str, known: list[str], counts: Counter[str]) -> str:
    spans = [(start, end, "key") for start, end in merged(find_secrets(text, known))]
    text = _replace(text, spans, counts)
    rows = _SHAPES_AMONG_ESCAPES if _ESCAPE_SIGN.search(text) else _SHAPES
    shapes = [
        (*match.span(match.lastindex or 0), kind)
        for kind, pattern in rows
        for match in pattern.finditer(text)
    ]
    return _replace(text, shapes, counts)


def _replace(text: str, found: list[tuple[int, int, str]], counts: Counter[str]) -> str:
    """Puts markers over the spans. Markers that stand already are never cut, nor covered alone."""
    if not found:
        return text
    marks = [match.span() for match in _MARK.finditer(text)]
    out: list[str] = []
    last = 0
    for start, end, kind in _joined(_around_marks(found, marks)):
        if _ONLY_MARKS.fullmatch(text, start, end):
            continue
        out += [text[last:start], f"[redacted:{kind}]"]
        counts[kind] += 1
        last = end
    return "".join([*out, text[last:]])


def _around_marks(
    found: list[tuple[int, int, str]], marks: list[Span]
) -> list[tuple[int, int, str]]:
    """Widens spans so that no marker is cut; a span inside a marker is dropped."""
    if not marks:
        return found
    begins = {at: start for start, end in marks for at in range(start + 1, end)}
    ends = {at: end for start, end in marks for at in range(start + 1, end)}
    return [
        (begins.get(start, start), ends.get(end, end), kind)
        for start, end, kind in found
        if begins.get(start, -1) != begins.get(end, -2)
    ]


def _joined(found: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Joins spans that overlap; the first names it, of two at one place the earlier row."""
    joined: list[tuple[int, int, str]] = []
    for start, end, kind in sorted(found, key=lambda span: span[0]):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]), joined[-1][2])
        else:
            joined.append((start, end, kind))
    return joined


def _without_end(text: str, chars: int) -> str:
    """The text without its last characters, and without a marker that they would cut."""
    end = max(0, len(text) - chars)
    for match in _MARK.finditer(text):
        if match.start() < end < match.end():
            return text[: match.start()]
    return text[:end]


def _walk(value: object, known: list[str], depth: int) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return redact(clean(value), known)
    if depth >= MAX_DEPTH:
        return TOO_DEEP
    if isinstance(value, Mapping):
        return {
            _named(str(name), tuple(known)): _walk_named(str(name), one, known, depth)
            for name, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [_walk(one, known, depth + 1) for one in value]
    if isinstance(value, bytes):
        return redact(clean(value.decode("utf-8", "replace")), known)
    return f"[{type(value).__name__}]"


@lru_cache(maxsize=1024)
def _named(name: str, known: tuple[str, ...]) -> str:
    """A redacted key. Names of fields are few and come again with every line."""
    return redact(clean(name), known)


def _walk_named(name: str, value: object, known: list[str], depth: int) -> object:
    if isinstance(value, str | bytes) and value and _SECRET_NAME.search(name):
        return "[redacted:field]"
    return _walk(value, known, depth + 1)

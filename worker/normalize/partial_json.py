"""Text of tool arguments to values: the live preview, and the strict verdict at the end.

Comes in: argument text as far as it has come. Goes out: a preview (`parse_partial_json`), which is
for looking only, or a dict with its `ArgumentState` (`final_arguments`), where only `OK` may run.
Two functions on purpose: the preview closes a cut string, the verdict drops it.
"""

import json
import re

import jiter

from shared.messages import ArgumentState
from worker.normalize.payloads import write_strictly
from worker.normalize.storable import scrub

MAX_ARGUMENT_DEPTH = 200
"""What jiter reads; far below where recursive readers of the value give up."""

MAX_REPAIR_TOKENS = 100_000
"""A tenth of a second. What stands behind that in a cut text counts as cut off, too."""

_Verdict = tuple[dict[str, object], ArgumentState]


def parse_partial_json(text: str) -> dict[str, object]:
    """The object that `text` is the beginning of, with open strings and containers closed.

    Nothing is guessed: an unfinished key, escape, literal or number is left out. What is not the
    beginning of an object gives `{}`. Never raises.
    """
    try:
        value: object = jiter.from_json(
            text.encode(), partial_mode="trailing-strings", allow_inf_nan=False
        )
    except ValueError:  # also on an unpaired surrogate, and beyond 200 levels
        return {}
    if not isinstance(value, dict):
        return {}
    return _judged(scrub(value))[0] if _may_hold_nul(text) else value


class ArgumentText:
    """The argument text of one call: append-only, shared by the call's events.

    Only the last preview is cached. One a event would hold every prefix of the argument in memory.
    """

    __slots__ = ("_parts", "_seen", "_seen_end", "length")

    def __init__(self) -> None:
        self.length = 0
        self._parts: list[str] = []
        self._seen: dict[str, object] = {}
        self._seen_end = 0

    def append(self, text: str) -> int:
        """Adds what came next and returns the new length."""
        self._parts.append(text)
        self.length = length = self.length + len(text)
        return length

    def upto(self, end: int) -> str:
        """The first `end` characters."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0][:end] if self._parts else ""

    def view(self, end: int) -> dict[str, object]:
        """The preview of the first `end` characters, parsed when it is first asked for."""
        if end != self._seen_end:
            self._seen, self._seen_end = parse_partial_json(self.upto(end)), end
        return self._seen


def final_arguments(text: str) -> _Verdict:
    """Judges the whole argument text of a call, at the end of the stream.

    Returns:
        The arguments and what may be done with them. A cut text keeps what was finished before the
        cut; no key and no element is invented. Everything but `OK` must not run.
    """
    if not text or text.isspace():
        return {}, ArgumentState.OK
    try:
        # Refuses what nests deeper than 200 levels. What it takes is nearly every argument; what
        # it refuses is looked at below.
        value: object = jiter.from_json(text.encode(), allow_inf_nan=False)
    except ValueError:
        return _forgiven(text)
    return _judged(scrub(value) if _may_hold_nul(text) else value)


def _forgiven(text: str) -> _Verdict:
    """The verdict on text that is no strict JSON: a harmless flaw, a cut, or garbage."""
    if _is_too_deep(text):
        return {}, ArgumentState.INVALID
    try:
        value = _loads(text)
    except ValueError:
        return _repaired(text)
    return _judged(scrub(value))


def _judged(value: object) -> _Verdict:
    if isinstance(value, dict):
        return value, ArgumentState.OK
    if value is None:  # some servers write `null` for a call without arguments
        return {}, ArgumentState.OK
    if isinstance(value, str) and value.lstrip()[:1] == "{":  # encoded twice: unwrapped once
        arguments, state = final_arguments(value)
        if state is ArgumentState.OK:
            return arguments, state
    return {}, ArgumentState.NOT_OBJECT


def parse_object(data: bytes) -> tuple[dict[str, object], str] | None:
    """A strict JSON object that came whole, and its compact JSON; None if it has any flaw."""
    try:
        value: object = jiter.from_json(data, allow_inf_nan=False)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    text = write_strictly(value)
    return None if _may_hold_nul(text) else (value, text)


def is_complete(text: str) -> bool:
    """True if `text` is one complete JSON object, or a string that may hold one."""
    try:
        return isinstance(_loads(text), dict | str)
    except (ValueError, RecursionError):
        return False


def _may_hold_nul(text: str) -> bool:
    """True if the escape of NUL stands in the text; backwards, since that is seven times faster."""
    return text.rfind("\\u0000") >= 0


def _loads(text: str) -> object:
    # Raw newlines and tabs in strings are frequent with Anthropic's fine-grained tool streaming
    # and harmless (pi#1424); NaN and Infinity are no JSON.
    return json.loads(text, strict=False, parse_constant=_refuse)


def _refuse(constant: str) -> object:
    raise ValueError(constant)


def _is_too_deep(text: str) -> bool:
    """True beyond `MAX_ARGUMENT_DEPTH` levels of containers; brackets in strings do not count."""
    if text.count("{") + text.count("[") <= MAX_ARGUMENT_DEPTH:
        return False
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        bracket = match.group()
        if bracket in "{[":
            depth += 1
            if depth > MAX_ARGUMENT_DEPTH:
                return True
        elif bracket in "}]":
            depth -= 1
    return False


_STRING = r'"[^"\\]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\]*+)*+"'
_STRING_OR_BRACKET = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[{}\[\]]', re.DOTALL)
_TOKEN = re.compile(
    rf"""[ \t\n\r]*+(?:
        (?P<string>{_STRING})
        |(?P<open>[{{\[])
        |(?P<close>[}}\]])
        |(?P<comma>,)
        |(?P<colon>:)
        |(?P<scalar>true|false|null|-?(?:0|[1-9]\d*+)(?:\.\d++)?+(?:[eE][+-]?\d++)?+)
    )""",
    re.VERBOSE,
)
_CUT_TAIL = re.compile(
    r'"[^"\\]*+(?:\\.[^"\\]*+)*+\\?'  # it is dropped, so its escapes do not matter
    r"|t(?:r(?:ue?)?)?|f(?:a(?:l(?:se?)?)?)?|n(?:u(?:ll?)?)?"
    r"|-(?:(?:0|[1-9]\d*+)(?:\.\d*+)?(?:[eE][+-]?\d*+)?)?"
    r"|(?:0|[1-9]\d*+)(?:\.\d*+)?(?:[eE][+-]?\d*+)?",
    re.DOTALL,
)
_CLOSER = {"{": "}", "[": "]"}


def _repaired(text: str) -> _Verdict:
    """The finished part of a text that is no complete JSON."""
    scan = _CutScan(text)
    if not scan.run():
        return {}, ArgumentState.INVALID
    if scan.root_end:
        return _without_resends(text, scan.root_end)
    if not scan.safe_end or text.lstrip()[0] != "{":
        return {}, ArgumentState.TRUNCATED
    closers = "".join(_CLOSER[bracket] for bracket in reversed(scan.stack[: scan.safe_depth]))
    try:
        arguments, _ = _judged(scrub(_loads(text[: scan.safe_end] + closers)))
    except ValueError:
        return {}, ArgumentState.INVALID
    return arguments, ArgumentState.TRUNCATED


def _without_resends(text: str, end: int) -> _Verdict:
    """A complete object with itself behind it is a resend; anything else behind it is garbage."""
    whole = text[:end].strip()
    if whole[0] != "{" or not text[end:].strip() or text[end:].replace(whole, "").strip():
        return {}, ArgumentState.INVALID
    try:
        return _judged(scrub(_loads(whole)))
    except ValueError:
        return {}, ArgumentState.INVALID


class _CutScan:
    """Walks over the tokens of a text that was cut, and remembers where a value was finished last.

    After that place containers were only opened (closing one finishes a value), so the brackets
    that were open there are the first `safe_depth` of `stack`.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.stack: list[str] = []
        self.safe_end = 0
        self.safe_depth = 0
        self.root_end = 0
        """Where the outermost value ended; 0 while it is open."""
        self._at = 0
        self._wants: str = "value"

    def run(self) -> bool:
        """Scans to the cut; False if a character stands where it cannot stand."""
        for _ in range(MAX_REPAIR_TOKENS):
            if self.root_end:
                break
            match = _TOKEN.match(self.text, self._at)
            if match is None:
                return self._ends_in_a_cut()
            kind = match.lastgroup or ""
            step = _STEPS.get((self._wants, kind))
            if step is None:
                return False
            if kind == "scalar" and _CUT_TAIL.fullmatch(self.text, match.start(kind)):
                return True  # 12 may become 123: a scalar at the very end is not finished
            self._at = match.end()
            if not step(self, match.group().lstrip()):
                return False
        return True

    def _ends_in_a_cut(self) -> bool:
        tail = self.text[self._at :].lstrip(" \t\n\r")
        if not tail:
            return True
        if tail[0] != '"' and self._wants in ("key", "first key"):
            return False
        return self._wants not in ("colon", "comma") and _CUT_TAIL.fullmatch(tail) is not None

    def _open(self, bracket: str) -> bool:
        self.stack.append(bracket)
        self._wants = "first key" if bracket == "{" else "first value"
        return True

    def _close(self, bracket: str) -> bool:
        return bracket == _CLOSER[self.stack.pop()] and self._finish("")

    def _finish(self, _: str) -> bool:
        if self.stack:
            self.safe_end, self.safe_depth = self._at, len(self.stack)
            self._wants = "comma"
        else:
            self.root_end = self._at
        return True

    def _after_key(self, _: str) -> bool:
        self._wants = "colon"
        return True

    def _after_colon(self, _: str) -> bool:
        self._wants = "value"
        return True

    def _after_comma(self, _: str) -> bool:
        self._wants = "key" if self.stack[-1] == "{" else "value"
        return True


_STEPS = {
    ("value", "string"): _CutScan._finish,
    ("value", "scalar"): _CutScan._finish,
    ("value", "open"): _CutScan._open,
    ("first value", "string"): _CutScan._finish,
    ("first value", "scalar"): _CutScan._finish,
    ("first value", "open"): _CutScan._open,
    ("first value", "close"): _CutScan._close,
    ("first key", "string"): _CutScan._after_key,
    ("first key", "close"): _CutScan._close,
    ("key", "string"): _CutScan._after_key,
    ("colon", "colon"): _CutScan._after_colon,
    ("comma", "comma"): _CutScan._after_comma,
    ("comma", "close"): _CutScan._close,
}
"""What may follow: (what is wanted, kind of token) to the step. Anything else is garbage."""

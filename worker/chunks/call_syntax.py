"""One tool call as a model writes it into prose: `name(arguments)`.

Comes in: text that begins with the call, whole or cut. Goes out: where it ends and what it says,
or that more text is needed, or that it is none. Pure; for `worker.chunks` only.

Arguments are a JSON object; one JSON string, where one required parameter is a string; nothing,
where none is required; or keyword arguments with literal values and known names.
"""

import json
import re
from collections.abc import Iterable
from enum import Enum, auto

import msgspec
import regex

from shared.messages import ArgumentState
from shared.turns import ToolSpec
from worker.chunks.pieces import Called
from worker.normalize.partial_json import MAX_ARGUMENT_DEPTH, final_arguments

MAX_CALL_CHARS = 8192
"""Over this a candidate is text, whole or not: far above a call in prose, and memory is bounded."""
MAX_SPACES = 8
"""Between name and parenthesis; more is prose."""

_KEY = r"[A-Za-z_]\w{0,63}"
_LITERAL = (
    r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
    r"|'[^'\\]*+(?:\\.[^'\\]*+)*+'"
    r"|-?\d++(?:\.\d++)?+|true|false|null|True|False|None"
)
_KWARGS = regex.compile(
    rf"\s*+(?:{_KEY}\s*+=\s*+(?:{_LITERAL})\s*+(?:,\s*+|(?=\))))++\)", regex.DOTALL
)
_KEY_START = re.compile(rf"{_KEY}\s*+(?:=|\Z)")
_KWARG = re.compile(rf"\s*({_KEY})\s*=\s*({_LITERAL})\s*(?:,|\Z)", re.DOTALL)
_PYTHON = {"True": True, "False": False, "None": None}
_LONGEST_KEY = 80  # with white space and the equals sign
_FIRST_CHECKS = 512
"""Up to here each growth is checked, then each doubling: checking all is quadratic."""


class Undecided(Enum):
    """What a candidate is when it is not a call yet."""

    WAIT = auto()
    """More text decides."""
    NO = auto()
    """It is no call, whatever follows."""


class Match(msgspec.Struct, frozen=True):
    """Calls that end at `end`; `is_cut` if the text ended inside the last one."""

    end: int
    calls: tuple[Called, ...]
    is_cut: bool = False


class Tool(msgspec.Struct, frozen=True):
    """What the grammar needs to know of an exposed tool."""

    name: str
    required: tuple[str, ...]
    types: dict[str, object]

    @property
    def sole_string(self) -> str | None:
        """The one required parameter, if there is one and it is a string."""
        if len(self.required) == 1 and self.types.get(self.required[0]) == "string":
            return self.required[0]
        return None


class Tools:
    """The exposed tools by name, and the pattern that finds `name(`."""

    __slots__ = ("by_name", "head", "prefixes")

    def __init__(self, specs: Iterable[ToolSpec]) -> None:
        self.by_name = {spec.name: _tool(spec) for spec in specs}
        names = "|".join(re.escape(name) for name in sorted(self.by_name, key=len, reverse=True))
        self.head = re.compile(rf"(?<![\w.])({names})[ \t]{{0,{MAX_SPACES}}}\(") if names else None
        self.prefixes = {name[:size] for name in self.by_name for size in range(1, len(name) + 1)}

    def may_begin(self, text: str) -> bool:
        """Whether a text may be the beginning of `name(`, the parenthesis still missing."""
        name = text.rstrip(" \t")
        return name in self.prefixes and (
            name == text or (name in self.by_name and len(text) - len(name) <= MAX_SPACES)
        )


def _tool(spec: ToolSpec) -> Tool:
    required = spec.parameters.get("required")
    properties = spec.parameters.get("properties")
    types = {
        str(name): schema.get("type") if isinstance(schema, dict) else schema
        for name, schema in (properties if isinstance(properties, dict) else {}).items()
    }
    names = required if isinstance(required, list | tuple) else ()
    return Tool(spec.name, tuple(map(str, names)), types)


class CallReader:
    """Reads the call whose arguments begin at one place of a growing text.

    Make one per candidate; `read` is asked again with the longer text, and goes on where it was.
    """

    __slots__ = ("_begin", "_check_at", "_scan", "_tool")

    def __init__(self, tool: Tool, begin: int) -> None:
        self._tool = tool
        self._begin = begin  # behind the parenthesis
        self._scan: JsonScan | None = None
        self._check_at = 0

    def read(self, text: str, *, final: bool) -> Match | Undecided:
        """The call, as far as `text` shows it."""
        start = skip_space(text, self._begin)
        if start == len(text):
            return Undecided.NO if final else Undecided.WAIT
        match text[start]:
            case ")":
                return Undecided.NO if self._tool.required else self._called(start + 1, {})
            case "{":
                return self._read_object(text, start, final=final)
            case '"':
                return self._read_string(text, start, final=final)
            case _:
                return self._read_keywords(text, start, final=final)

    def _called(self, end: int, args: dict[str, object]) -> Match:
        return Match(end, (Called(self._tool.name, args, ArgumentState.OK),))

    def _cut(self, text: str, args: dict[str, object], *, final: bool) -> Match | Undecided:
        if not final:
            return Undecided.WAIT
        call = Called(self._tool.name, args, ArgumentState.TRUNCATED)
        return Match(len(text), (call,), is_cut=True)

    def _closed(
        self, text: str, end: int, args: dict[str, object], *, final: bool
    ) -> Match | Undecided:
        """The call whose one argument ended at `end`, if a parenthesis follows."""
        close = skip_space(text, end)
        if close == len(text):
            return self._cut(text, args, final=final)
        return self._called(close + 1, args) if text[close] == ")" else Undecided.NO

    def _read_object(self, text: str, start: int, *, final: bool) -> Match | Undecided:
        if self._scan is None:
            self._scan = JsonScan(start)
        end = self._scan.advance(text)
        if end is Undecided.NO:
            return Undecided.NO
        if isinstance(end, int):
            args, state = final_arguments(text[start:end])
            is_object = state is ArgumentState.OK
            return self._closed(text, end, args, final=final) if is_object else Undecided.NO
        args = final_arguments(text[start:])[0] if final else {}
        return self._cut(text, args, final=final)

    def _read_string(self, text: str, start: int, *, final: bool) -> Match | Undecided:
        name = self._tool.sole_string
        found = _STRING.match(text, start) if name else None
        if name is None or found is None:
            return Undecided.NO
        if not found["closed"]:
            return self._cut(text, {}, final=final)
        try:
            value = json.loads(found.group(), strict=False)
        except ValueError:
            return Undecided.NO
        return self._closed(text, found.end(), {name: value}, final=final)

    def _read_keywords(self, text: str, start: int, *, final: bool) -> Match | Undecided:
        size = len(text) - start
        if size < self._check_at and not final:
            return Undecided.WAIT
        if _KEY_START.match(text, start) is None:
            return Undecided.NO
        # The library looks for what a match must contain up to the end, hence the end.
        found = _KWARGS.match(text, start, start + MAX_CALL_CHARS, partial=True)
        if found is None:
            return Undecided.NO
        if found.partial:
            self._check_at = 2 * size if size > _FIRST_CHECKS else 0
            has_begun = "=" in text[start : start + _LONGEST_KEY]
            return self._cut(text, {}, final=final) if has_begun or not final else Undecided.NO
        args = _keywords(text[start : found.end() - 1], self._tool)
        return Undecided.NO if args is None else self._called(found.end(), args)


class JsonScan:
    """Walks over the JSON object that begins at one place of a growing text.

    `advance` goes on where it stopped; only a string that is not closed yet is read again.
    """

    __slots__ = ("_at", "_is_closed", "_stack", "_wants")

    def __init__(self, start: int) -> None:
        self._at = start
        self._is_closed = False
        self._stack = ""
        self._wants = "value"

    def advance(self, text: str) -> int | Undecided:
        """Where the object ends; `WAIT` if it is not closed, `NO` if it is no JSON."""
        if self._is_closed:
            return self._at
        while (found := _TOKEN.match(text, self._at)) is not None:
            kind = found.lastgroup or ""
            is_open_ended = found["text"] is not None and not found["closed"]
            if is_open_ended or (kind == "scalar" and found.end() == len(text)):
                return Undecided.WAIT if kind in _ALLOWED[self._wants] else Undecided.NO
            if not self._step(kind, found[kind]):
                return Undecided.NO
            self._at = found.end()
            if not self._stack:
                self._is_closed = True
                return self._at
        return Undecided.WAIT if skip_space(text, self._at) == len(text) else Undecided.NO

    def _step(self, kind: str, piece: str) -> bool:
        """Takes one token; false if it cannot stand here."""
        if kind not in _ALLOWED[self._wants]:
            return False
        match kind:
            case "open":
                self._stack += piece
                self._wants = "first key" if piece == "{" else "first value"
            case "close":
                if _CLOSER[self._stack[-1]] != piece:
                    return False
                self._stack = self._stack[:-1]
                self._wants = "comma"
            case "comma":
                self._wants = "key" if self._stack[-1] == "{" else "value"
            case "colon":
                self._wants = "value"
            case _:
                if kind == "scalar" and _SCALAR.fullmatch(piece) is None:
                    return False
                self._wants = "colon" if "key" in self._wants else "comma"
        return len(self._stack) <= MAX_ARGUMENT_DEPTH


_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?P<closed>"?)', re.DOTALL)
_TOKEN = re.compile(
    rf"""\s*+(?:(?P<text>{_STRING.pattern})|(?P<open>[{{\[])|(?P<close>[}}\]])|(?P<comma>,)
    |(?P<colon>:)|(?P<scalar>[-+.\w]++))""",
    re.DOTALL | re.VERBOSE,
)
_SCALAR = re.compile(r"true|false|null|-?(?:0|[1-9]\d*+)(?:\.\d++)?+(?:[eE][+-]?\d++)?+", re.ASCII)
_CLOSER = {"{": "}", "[": "]"}
_ALLOWED: dict[str, frozenset[str]] = {
    "value": frozenset({"text", "scalar", "open"}),
    "first value": frozenset({"text", "scalar", "open", "close"}),
    "first key": frozenset({"text", "close"}),
    "key": frozenset({"text"}),
    "colon": frozenset({"colon"}),
    "comma": frozenset({"comma", "close"}),
}


def skip_space(text: str, at: int) -> int:
    """The next place that is no white space."""
    found = _SPACE.match(text, at)
    return found.end() if found else at


_SPACE = re.compile(r"\s*+")


def _keywords(inner: str, tool: Tool) -> dict[str, object] | None:
    """The arguments of `key=literal, ...`; None if a key is no parameter of the tool."""
    args: dict[str, object] = {}
    for found in _KWARG.finditer(inner):
        if found[1] not in tool.types:
            return None
        value = _literal(found[2])
        if isinstance(value, _Bad):
            return None
        args[found[1]] = value
    return args


class _Bad:
    """A literal that has the shape of one and is none (an unknown escape)."""


def _literal(raw: str) -> object:
    if raw in _PYTHON:
        return _PYTHON[raw]
    if raw[0] == "'":
        body = raw[1:-1].replace("\\'", "'")
        raw = '"' + re.sub(r'(?<!\\)"', '\\"', body) + '"'
    try:
        return json.loads(raw, strict=False)
    except ValueError:
        return _Bad()

"""Where in a TOML text something stands: lines and columns of its keys and values.

Comes in: a text that `tomllib` accepted. Goes out: a position by path. `tomllib` gives values
without places, so this walks the text again; it judges nothing. Pure; `reading` imports it.
"""

import re
from typing import Final, NamedTuple

Path = tuple[str | int, ...]
"""`("routes", "main", "models", 1)`: keys, and numbers of elements."""

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_SPACE: Final = re.compile(r"[ \t]*")
_BETWEEN: Final = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SCALAR: Final = re.compile(r"[^,\]}\r\n#]+")
_STRINGS: Final = (
    re.compile(r'"""(?:\\.|[^\\])*?"{3,5}', re.DOTALL),
    re.compile(r"'''.*?'{3,5}", re.DOTALL),
    re.compile(r'"(?:\\.|[^"\\\n])*"'),
    re.compile(r"'[^'\n]*'"),
)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)")
_ESCAPED: Final = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "e": "\x1b"}


class Position(NamedTuple):
    """A place in a text, both counted from 1; columns count code points, as editors do."""

    line: int
    column: int


class Positions:
    """The places of a text.

    Args:
        text: valid TOML.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._keys: dict[Path, int] = {}
        self._values: dict[Path, int] = {}
        self._arrays: dict[Path, int] = {}
        self._walk()

    def of_key(self, path: Path) -> Position:
        """Where a key or the header of a table stands; of something unsaid, its table."""
        return self._position(self._nearest(path, self._keys))

    def of_value(self, path: Path) -> Position:
        """Where a value stands; of a table, its header."""
        if path in self._values:
            return self._position(self._values[path])
        return self.of_key(path)

    def _nearest(self, path: Path, places: dict[Path, int]) -> int:
        while path:
            if path in places:
                return places[path]
            if path in self._values:
                return self._values[path]
            path = path[:-1]
        return 0

    def _position(self, at: int) -> Position:
        before = self._text[:at]
        return Position(before.count("\n") + 1, at - before.rfind("\n"))

    def _walk(self) -> None:
        table: Path = ()
        while True:
            self._skip(_BETWEEN)
            if self._at >= len(self._text):
                return
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> Path:
        begin = self._at
        is_array = self._text.startswith("[[", self._at)
        self._at += 2 if is_array else 1
        named = self._dotted()
        self._at += 2 if is_array else 1
        path = self._resolved(named)
        if is_array:
            number = self._arrays.get(path, -1) + 1
            self._arrays[path] = number
            self._keys.setdefault(path, begin)
            path = (*path, number)
        for length in range(1, len(path) + 1):
            self._keys.setdefault(path[:length], begin)
        return path

    def _resolved(self, named: list[str]) -> Path:
        """A header's names with the numbers of the arrays that they go through."""
        path: Path = ()
        for number, name in enumerate(named):
            path = (*path, name)
            if path in self._arrays and number < len(named) - 1:
                path = (*path, self._arrays[path])
        return path

    def _pair(self, table: Path) -> None:
        begin = self._at
        path = (*table, *self._dotted())
        for length in range(len(table) + 1, len(path) + 1):
            self._keys.setdefault(path[:length], begin)
        self._at += 1  # the equals sign, where `_dotted` stopped
        self._skip(_SPACE)
        self._value(path)

    def _dotted(self) -> list[str]:
        names = []
        while True:
            self._skip(_SPACE)
            names.append(self._key())
            self._skip(_SPACE)
            if self._text[self._at] != ".":
                return names
            self._at += 1

    def _key(self) -> str:
        if self._text[self._at] in "\"'":
            return self._string()
        found = _BARE_KEY.match(self._text, self._at)
        if found is None:
            raise ValueError("the text is no valid TOML")
        self._at = found.end()
        return found[0]

    def _string(self) -> str:
        for pattern in _STRINGS:
            if (found := pattern.match(self._text, self._at)) is not None:
                self._at = found.end()
                quote = found[0][0]
                return _unescaped(found[0].strip(quote)) if quote == '"' else found[0].strip(quote)
        raise ValueError("the text is no valid TOML")

    def _value(self, path: Path) -> None:
        self._values[path] = self._at
        first = self._text[self._at]
        if first in "\"'":
            self._string()
        elif first == "[":
            self._elements(path)
        elif first == "{":
            self._members(path)
        else:
            self._skip(_SCALAR)

    def _elements(self, path: Path) -> None:
        number = 0
        self._at += 1
        while self._next_is_open("]"):
            self._value((*path, number))
            number += 1

    def _members(self, path: Path) -> None:
        self._at += 1
        while self._next_is_open("}"):
            self._pair(path)

    def _next_is_open(self, closer: str) -> bool:
        """Goes to the next element; false, behind the closer, where there is none."""
        self._skip(_BETWEEN)
        if self._text[self._at] == ",":
            self._at += 1
            self._skip(_BETWEEN)
        if self._text[self._at] == closer:
            self._at += 1
            return False
        return True

    def _skip(self, pattern: re.Pattern[str]) -> None:
        if (found := pattern.match(self._text, self._at)) is not None:
            self._at = found.end()


def _unescaped(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        word = found[1]
        return (
            chr(int(word[1:], 16))
            if word[0] in "uU" and len(word) > 1
            else _ESCAPED.get(word, word)
        )

    return _ESCAPE.sub(one, text)

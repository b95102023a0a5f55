"""The text of `turnfleet.toml` to a `Configuration`, or to everything that is wrong with it.

Comes in: a text and its name. Goes out: a value, or problems, each with line, column, what is wrong
and what to do. Pure; `loading` and `turnfleet config check` import it.
"""

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any, Final, get_args, get_origin

import msgspec

from shared.configuration.checks import Finding, findings
from shared.configuration.positions import Path, Position, Positions
from shared.configuration.schema import Configuration
from shared.wording import deed_for, in_words, plain_kind

MAX_BYTES: Final = 1024 * 1024
"""A file of a thousand personas is a tenth of it."""

_TOML_PLACE: Final = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")
_TOML_DEEDS: Final = (
    ("overwrite", "keep one of the two"),
    ("declare", "join the two tables, or rename one"),
    ("table declaration", "close the header with `]`"),
    ("after a key", "write `key = value`; a key with other signs stands in quotes"),
    ("newline", "put the rest on a line of its own, or in quotes"),
    ("Expected '", "close the string"),
    ("Unterminated", "close the string"),
    ("Illegal character", "end the string on its line, or use three quotes"),
    ("Invalid value", "text stands in quotes; true, false and numbers do not"),
    ("array", "close the list with `]`"),
    ("", "compare it with docs/configuration.md"),
)
_UNKNOWN: Final = "there is no such "
_MSGSPEC_PLACE: Final = re.compile(r" - at `\$([^`]*)`$")
_INDEX: Final = re.compile(r"\[(\d+)\]")


class Problem(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """One thing that is wrong.

    Args:
        line, column: from 1.
        file: the name that was given.
        path: the setting, dotted.
        what: what is wrong.
        deed: what to do.
    """

    line: int
    column: int
    file: str
    path: str
    what: str
    deed: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}"
        return f"{where}: {self.path + ': ' if self.path else ''}{self.what}; {self.deed}"


class Wrong(msgspec.Struct, frozen=True, kw_only=True):
    """A text that is no configuration; the problems in the order of the text."""

    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


def read_configuration(text: str, file: str = "turnfleet.toml") -> Configuration | Wrong:
    r"""Reads a configuration; it finds all that is wrong at once, a syntax error alone.

    >>> print(read_configuration('[limits]\nuser_depht = 3', "t.toml"))
    t.toml:2:1: limits.user_depht: there is no such setting; did you mean `user_depth`?
    """
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        return _alone(file, Position(1, 1), "the file is over 1 MiB", "part it, or shorten prompts")
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        return _syntax(text, file, str(exc))
    places = Positions(text)
    found: list[Finding] = []
    configuration: Configuration | None = _Reader(found).struct(Configuration, values, ())
    if not found and configuration is not None:
        found += findings(configuration)
    if found or configuration is None:
        return Wrong(problems=tuple(sorted(_problem(one, places, file) for one in found)))
    return configuration


class _Reader:
    """Converts values by the annotations of the schema, and notes every finding on the way."""

    def __init__(self, found: list[Finding]) -> None:
        self._found = found

    def struct(self, kind: Any, value: object, path: Path) -> Any:
        """A struct of `kind`, None where something in it is wrong."""
        if not isinstance(value, dict):
            self._note(path, f"a table is expected, not {_kind_of(value)}", "write a table")
            return None
        fields = {field.name: field for field in msgspec.structs.fields(kind)}
        before = len(self._found)
        for name in value.keys() - fields.keys():
            self._unknown((*path, name), name, sorted(fields))
        parts = {}
        for name, field in fields.items():
            if name in value:
                parts[name] = self.value(field.type, value[name], (*path, name))
            elif field.required:
                self._note(path, f"`{name}` is missing", f"add `{name} = ...`", of_key=True)
        return kind(**parts) if len(self._found) == before else None

    def value(self, kind: Any, value: object, path: Path) -> Any:
        """A value of any annotation."""
        inner = plain_kind(kind)
        origin, arguments = get_origin(inner), get_args(inner)
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            return self.struct(inner, value, path)
        if origin is dict and _is_struct(arguments[1]):
            return self._table(arguments[1], value, path)
        if origin is tuple and _is_struct(arguments[0]):
            return self._list(arguments[0], value, path)
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as exc:
            self._refused(exc, inner, value, path)
            return None

    def _table(self, kind: Any, value: object, path: Path) -> Any:
        if not isinstance(value, dict):
            self._note(path, f"a table is expected, not {_kind_of(value)}", _example(path))
            return {}
        return {name: self.struct(kind, one, (*path, name)) for name, one in value.items()}

    def _list(self, kind: Any, value: object, path: Path) -> Any:
        if not isinstance(value, list):
            self._note(path, f"a list is expected, not {_kind_of(value)}", f"write [[{path[-1]}]]")
            return ()
        return tuple(self.struct(kind, one, (*path, at)) for at, one in enumerate(value))

    def _refused(self, exc: msgspec.ValidationError, kind: Any, value: object, path: Path) -> None:
        text = str(exc)
        where = _MSGSPEC_PLACE.search(text)
        if where is not None:
            text = text[: where.start()]
            path = (*path, *(int(number) for number in _INDEX.findall(where[1])))
        self._note(path, in_words(text), deed_for(text, kind))

    def _unknown(self, path: Path, name: str, known: list[str]) -> None:
        near = difflib.get_close_matches(name, known, n=1)
        deed = f"did you mean `{near[0]}`?" if near else f"use one of {', '.join(known)}"
        self._note(path, _UNKNOWN + ("table" if len(path) == 1 else "setting"), deed, of_key=True)

    def _note(self, path: Path, what: str, deed: str, *, of_key: bool = False) -> None:
        self._found.append(Finding(path=path, what=what, deed=deed, of_key=of_key))


def dotted(path: Path) -> str:
    """A path as a person writes it.

    >>> dotted(("routes", "main", "models", 1))
    'routes.main.models[1]'
    """
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def _problem(finding: Finding, places: Positions, file: str) -> Problem:
    of: Callable[[Path], Position] = places.of_key if finding.of_key else places.of_value
    line, column = of(finding.path)
    return Problem(
        line=line,
        column=column,
        file=file,
        path=dotted(finding.path),
        what=finding.what,
        deed=finding.deed,
    )


def _syntax(text: str, file: str, message: str) -> Wrong:
    place = _TOML_PLACE.search(message)
    words = message[: place.start()] if place else message
    position = _end_of(text)
    if place is not None and place[1] is not None:
        position = Position(int(place[1]), int(place[2]))
    deed = next(deed for part, deed in _TOML_DEEDS if part in words)
    return _alone(file, position, f"this is no TOML: {words[:1].lower()}{words[1:]}", deed)


def _end_of(text: str) -> Position:
    return Position(text.count("\n") + 1, len(text) - text.rfind("\n"))


def _alone(file: str, position: Position, what: str, deed: str) -> Wrong:
    one = Problem(
        line=position.line, column=position.column, file=file, path="", what=what, deed=deed
    )
    return Wrong(problems=(one,))


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


_NAMES: Final[Mapping[type, str]] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "a table",
}


def _kind_of(value: object) -> str:
    return _NAMES.get(type(value), "a date")


def _example(path: Path) -> str:
    return f"write [{dotted(path)}.NAME] and its settings below"

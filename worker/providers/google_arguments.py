"""Google's streamed arguments: values for JSON paths to one object.

Comes in: `partialArgs` of a function call (Vertex, opt-in). Goes out: the arguments as a dict.
Imported by `google` only. Strings with the same path append; everything else replaces.
"""

import itertools
import re

import msgspec

from worker.normalize.partial_json import MAX_ARGUMENT_DEPTH
from worker.normalize.payloads import write_json

MAX_GAP = 8
"""Elements that a path may skip in a list. Paths come in order, so a gap is one lost event or two;
without a bound, twenty bytes of path could fill a list of any length."""

_STEP = re.compile(r"""\[(\d{1,9})\]|\[['"]([^'"\]]*)['"]\]|([^.\[\]]+)""")


class PartialArg(msgspec.Struct, gc=False, rename="camel"):
    """A piece of an argument."""

    json_path: str = ""
    string_value: str | None = None
    number_value: int | float | None = None
    bool_value: bool | None = None
    null_value: object = None
    will_continue: bool | None = None


class _Text(list[str]):
    """A string under assembly: `+=` on a growing string costs its whole length each time."""


class Assembly:
    """The arguments of one call while they stream.

    Args:
        is_open: the last piece said that more of it follows.
    """

    def __init__(self) -> None:
        self.is_open = False
        self.size = 0
        """Characters of all values so far, for the limit on arguments."""
        self._root: dict[str, object] = {}

    def add(self, pieces: list[PartialArg]) -> None:
        """Puts pieces in their places; one without a place or a value is left out."""
        for piece in pieces:
            steps = _steps(piece.json_path)
            value = _value(piece)
            if 0 < len(steps) <= MAX_ARGUMENT_DEPTH and value is not msgspec.UNSET:
                self.size += 1 + (len(value) if isinstance(value, str) else 0)
                _put(self._root, steps, value)
            self.is_open = bool(piece.will_continue)

    def text(self) -> str:
        """The arguments as JSON."""
        return write_json(_plain(self._root))


def _steps(path: str) -> list[str | int]:
    """`$.a.b[0].c` to its steps."""
    found = _STEP.findall(path.removeprefix("$"))
    return [int(number) if number else quoted or name for number, quoted, name in found]


def _value(piece: PartialArg) -> object:
    for value in (piece.string_value, piece.number_value, piece.bool_value):
        if value is not None:
            return value
    return msgspec.UNSET if piece.null_value is None else None  # the word NULL_VALUE


def _put(root: dict[str, object], steps: list[str | int], value: object) -> None:
    place: object = root
    for step, following in itertools.pairwise(steps):
        inner = _get(place, step)
        if not isinstance(inner, dict | list) or isinstance(inner, _Text):
            inner = [] if isinstance(following, int) else {}
            if not _set(place, step, inner):
                return
        place = inner
    old = _get(place, steps[-1])
    if isinstance(old, _Text) and isinstance(value, str):
        old.append(value)
    else:
        _set(place, steps[-1], _Text([value]) if isinstance(value, str) else value)


def _get(place: object, step: str | int) -> object:
    if isinstance(place, list) and isinstance(step, int):
        return place[step] if step < len(place) else None
    return place.get(str(step)) if isinstance(place, dict) else None


def _set(place: object, step: str | int, value: object) -> bool:
    if isinstance(place, dict):
        place[str(step)] = value
        return True
    if not isinstance(place, list) or not isinstance(step, int) or step > len(place) + MAX_GAP:
        return False
    place.extend([None] * (step + 1 - len(place)))
    place[step] = value
    return True


def _plain(value: object) -> object:
    if isinstance(value, _Text):
        return "".join(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value

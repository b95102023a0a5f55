"""JSON payloads of a stream to typed values: strictly where it goes, leniently where it must.

Comes in: the data of an event. Goes out: a Struct of the dialect, or `Undecodable`. Imported by
`normalizer` and by the dialects in `worker.providers`.

The strict way is one typed msgspec decoder. What it refuses (unpaired surrogates, raw control
characters, invalid UTF-8, a member of an unexpected type) goes through the standard `json` into
the same Struct, so that a dialect has one handler whatever the way.
"""

import json
import re
from typing import Generic, TypeVar, cast

import msgspec

from shared.errors import WireError
from worker.normalize.storable import join_halves

MAX_MISFITS = 8
"""Members of an unexpected type that are dropped from one payload; more is no payload of ours."""

TOO_DEEP = '"nested too deep"'
"""JSON, but no object: as the arguments of a call it does not run."""

M = TypeVar("M")


class Undecodable(WireError):
    """The payload is no JSON object of this wire format."""


class Payload(Generic[M]):
    """The two decoders of one payload type, built once. Every field of it has a default."""

    def __init__(self, type_: type[M]) -> None:
        self.type = type_
        self.decode = msgspec.json.Decoder(type_).decode
        """The strict way. Raises `msgspec.DecodeError` or `RecursionError`."""

    def decode_leniently(self, data: bytes) -> M:
        """Decodes what the strict way refused; a member of a wrong type counts as absent.

        Strings may hold unpaired surrogates afterwards.

        Raises:
            Undecodable: it is no JSON, or does not fit the type even without its misfits.
        """
        try:
            return self._fitted(read_json(data))
        except RecursionError as exc:
            raise Undecodable from exc

    def _fitted(self, value: object) -> M:
        for _ in range(MAX_MISFITS):
            try:
                return msgspec.convert(value, self.type)
            except msgspec.ValidationError as exc:
                if not _drop_misfit(value, str(exc)):
                    break
            except UnicodeEncodeError:  # msgspec cannot look up a name with half a pair in it
                value = _with_whole_names(value)
        raise Undecodable


def read_json(data: bytes) -> object:
    """Any JSON, forgiving what models and proxies get wrong inside strings.

    Raises:
        Undecodable: it is no JSON, or nests too deep to be read.
    """
    try:
        value: object = json.loads(data.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError) as exc:
        raise Undecodable from exc
    return value


def read_object(data: bytes) -> dict[str, object]:
    """Any JSON object; an empty one where it is none."""
    try:
        value = read_json(data)
    except Undecodable:
        return {}
    return value if isinstance(value, dict) else {}


def word_of(value: object) -> str:
    """A string as it is; the empty one for anything else."""
    return value if isinstance(value, str) else ""


def objects_of(value: object) -> list[dict[str, object]]:
    """The objects of a list; none where it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def write_json(value: object) -> str:
    """Compact JSON. Unpaired surrogates pass; what nests too deep gives `TOO_DEEP`."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return TOO_DEEP


_encode = msgspec.json.Encoder().encode


def write_strictly(value: object) -> str:
    """Compact JSON of a value without unpaired surrogates; ten times faster than `write_json`."""
    return _encode(value).decode()


_PATH = re.compile(r" - at `\$((?:\.\w+|\[\d+\])+)`$")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")


def _drop_misfit(value: object, message: str) -> bool:
    """Removes the member that msgspec names as ill-typed; False if it names none."""
    path = _PATH.search(message)
    if path is None:
        return False
    *way, last = [name or int(number) for name, number in _STEP.findall(path[1])]
    for step in way:
        value = _member(value, step)
    if isinstance(value, list):
        del value[int(last)]
    else:
        cast("dict[str | int, object]", value).pop(last, None)
    return True


def _with_whole_names(value: object) -> object:
    """The value with the names of members mended; strings stay, for they may go on elsewhere."""
    if isinstance(value, list):
        return [_with_whole_names(item) for item in value]
    if isinstance(value, dict):
        return {join_halves(name): _with_whole_names(item) for name, item in value.items()}
    return value


def _member(value: object, step: str | int) -> object:
    """One step of a path that msgspec has walked itself, so it leads through containers only."""
    return (
        value[int(step)] if isinstance(value, list) else cast("dict[str, object]", value)[str(step)]
    )

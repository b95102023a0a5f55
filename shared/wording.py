"""What msgspec says of a wrong value, in words of an operator.

Comes in: its messages, and the annotation that was asked for. Goes out: what is wrong, and what to
do. Pure; `shared.config` says so of variables, `shared.configuration.reading` of the file.
"""

import re
import types
from collections.abc import Mapping
from typing import Annotated, Any, Final, Union, cast, get_args, get_origin

_PATTERNS: Final = {
    "^(env:": "write env:VARIABLE or file:/path; the key itself never stands here",
    "^https?://": "write an address such as https://host/v1",
    "^https://": "write an address that begins with https://",
    "^(off|": "use off, low, medium or high",
    "^[a-z]{2,3}": "write a language such as en, de or pt-BR",
}
_FORMS: Final[Mapping[Any, str]] = {
    str: 'write it in quotes: "..."',
    bool: "write true or false, without quotes",
    int: "write a whole number without quotes",
    float: "write a number without quotes",
    tuple: "write a list: [..., ...]",
}


def plain_kind(kind: Any) -> Any:
    """The annotation without `Annotated` and without None."""
    if get_origin(kind) is Annotated:
        return plain_kind(get_args(kind)[0])
    if get_origin(kind) in {Union, types.UnionType}:
        return plain_kind(next(one for one in get_args(kind) if one is not type(None)))
    return kind


def in_words(message: str) -> str:
    """Msgspec's sentence without the names of Python's types."""
    words = {
        "`str | null`": "text",
        "`str`": "text",
        "`int | null`": "a whole number",
        "`int`": "a whole number",
        "`float | null`": "a number",
        "`float`": "a number",
        "`bool | null`": "true or false",
        "`bool`": "true or false",
        "`array | null`": "a list",
        "`array`": "a list",
        "`object`": "a table",
    }
    for name, word in words.items():
        message = message.replace(name, word)
    if "matching regex" in message:
        return "this does not have the form that is expected"
    return message[:1].lower() + message[1:]


def deed_for(message: str, kind: Any) -> str:
    """What to write instead, for the annotation `kind` as `plain_kind` gives it."""
    for pattern, deed in _PATTERNS.items():
        if pattern in message:
            return deed
    if message.startswith("Invalid enum value"):
        known = [str(one.value) for one in cast("Any", kind)]
        return f"use {(' or ' if len(known) == 2 else ', ').join(known)}"
    if "length" in message:
        return "make it longer" if ">=" in message else "make it shorter"
    bound = re.search(r"(>=|<=|>|<) ([\d.-]+)", message)
    if bound is not None:
        sign = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}[bound[1]]
        return f"use {sign} {bound[2]}"
    return _FORMS.get(get_origin(kind) or kind, "look it up in docs/configuration.md")

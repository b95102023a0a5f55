import json

import pytest

from shared.messages import ArgumentState
from worker.normalize.partial_json import (
    MAX_ARGUMENT_DEPTH,
    MAX_REPAIR_TOKENS,
    ArgumentText,
    final_arguments,
    is_complete,
    parse_object,
    parse_partial_json,
)

OK, TRUNCATED = ArgumentState.OK, ArgumentState.TRUNCATED
INVALID, NOT_OBJECT = ArgumentState.INVALID, ArgumentState.NOT_OBJECT


@pytest.mark.parametrize(
    ("text", "arguments", "state"),
    [
        ('{"a":1}', {"a": 1}, OK),
        ("", {}, OK),
        (" \n", {}, OK),
        ("null", {}, OK),
        ('"{\\"a\\":1}"', {"a": 1}, OK),
        ('{"a":1}{"a":1}', {"a": 1}, OK),
        ('{"a":"x\ny"}', {"a": "x\ny"}, OK),
        ('{"a":"\\ud83d\\ude00"}', {"a": "😀"}, OK),
        ('{"a":"\\ude00"}', {"a": "\ufffd"}, OK),
        ('{"a\\u0000":["\\u0000b"]}', {"a": ["b"]}, OK),
        ("[1]", {}, NOT_OBJECT),
        ("12", {}, NOT_OBJECT),
        ('"text"', {}, NOT_OBJECT),
        ('"{a}"', {}, NOT_OBJECT),
        ('{"a":1,"b":"x', {"a": 1}, TRUNCATED),
        ('{"a":1,"b":12', {"a": 1}, TRUNCATED),
        ('{"a":1,"b":12.', {"a": 1}, TRUNCATED),
        ('{"a":1,"b":tru', {"a": 1}, TRUNCATED),
        ('{"a":1,"b":true', {"a": 1}, TRUNCATED),
        ('{"a":1,"b":', {"a": 1}, TRUNCATED),
        ('{"a":1,"b', {"a": 1}, TRUNCATED),
        ('{"a":1,', {"a": 1}, TRUNCATED),
        ('{"a":1 ', {"a": 1}, TRUNCATED),
        ('{"a":[1,{"b":[],"c":[{', {"a": [1, {"b": []}]}, TRUNCATED),
        ('{"a":{"b":{', {}, TRUNCATED),
        ('{"a":{},"b":[', {"a": {}}, TRUNCATED),
        ("{", {}, TRUNCATED),
        ('"{\\"a', {}, TRUNCATED),
        ("[1,2", {}, TRUNCATED),
        ("-", {}, TRUNCATED),
        ('{"a":"\\u12', {}, TRUNCATED),
        ('{"a":"\\', {}, TRUNCATED),
        ('{"a":1}{"b":2}', {}, INVALID),
        ('{"a":1} x', {}, INVALID),
        ("nullnull", {}, INVALID),
        ('{"a":' + "1" * 5000 + ',"b', {}, INVALID),
        ('{"a":' + "1" * 5000 + "}{", {}, INVALID),
        ('{"a":' + "1" * 5000 + "} " + '{"a":' + "1" * 5000 + "}", {}, INVALID),
        ('{"a":NaN}', {}, INVALID),
        ('{"a":01}', {}, INVALID),
        ("{a:1", {}, INVALID),
        ("{1", {}, INVALID),
        ('{"a" 1', {}, INVALID),
        ('{"a":1 "b"', {}, INVALID),
        ('{"a":1]', {}, INVALID),
        ('{"a":1,x', {}, INVALID),
        ("tu", {}, INVALID),
        ("{'a':1}", {}, INVALID),
        ('{"a":"\\x"}', {}, INVALID),
        ('{"a":"\\x","b', {}, INVALID),
    ],
)
def test_verdict(text: str, arguments: dict[str, object], state: ArgumentState):
    assert final_arguments(text) == (arguments, state)


@pytest.mark.parametrize("depth", [MAX_ARGUMENT_DEPTH - 2, MAX_ARGUMENT_DEPTH + 1, 100_000])
@pytest.mark.parametrize("flaw", ["", "\n"])
def test_nesting_has_a_bound(depth: int, flaw: str):
    text = '{"a":"' + flaw + '","b":' + "[" * depth + "]" * depth + "}"
    _, state = final_arguments(text)
    assert state is (OK if depth < MAX_ARGUMENT_DEPTH else INVALID)


def test_repair_of_a_long_cut_text_stops_at_its_bound():
    arguments, state = final_arguments('{"a":[' + "1," * MAX_REPAIR_TOKENS)
    assert state is TRUNCATED
    (kept,) = arguments.values()
    assert isinstance(kept, list)
    assert len(kept) == MAX_REPAIR_TOKENS // 2 - 2


def test_brackets_in_strings_do_not_nest():
    text = json.dumps({"a": "[" * 1000, "b": [[]] * 200}) + "x"
    assert final_arguments(text[:-1].replace("}", "\n}")) == (json.loads(text[:-1]), OK)
    assert final_arguments(text.replace('"a": "', '"a": "\t'))[1] is INVALID
    assert final_arguments('{"a":1,"b":"' + "[" * 1000) == ({"a": 1}, TRUNCATED)


def test_cut_text_never_invents_anything():
    value = {"a": [1, {"b": 'x\\" y'}, None, True], "c": {"d": -1.5e3, "e": {}}, "f": "é😀"}
    text = json.dumps(value)
    for end in range(1, len(text)):
        arguments, state = final_arguments(text[:end])
        assert state is TRUNCATED
        assert is_part_of(arguments, value), text[:end]
        assert is_part_of(arguments, parse_partial_json(text[:end]))


def is_part_of(part: object, whole: object) -> bool:
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and is_part_of(item, whole[key]) for key, item in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) <= len(whole) and all(map(is_part_of, part, whole))
    return part == whole


def test_preview_refuses_what_is_no_beginning_of_an_object():
    assert parse_partial_json("[1, 2") == {}
    assert parse_partial_json('{"a":NaN') == {}
    assert parse_partial_json('{"a":' + "[" * 10_000) == {}
    assert parse_partial_json("\ud83d") == {}


def test_view_is_parsed_once_and_of_its_own_prefix():
    text = ArgumentText()
    assert text.upto(0) == ""
    first, second = text.append('{"a":"x'), text.append('y"}')
    assert text.view(first) == {"a": "x"}
    assert text.view(second) == {"a": "xy"}
    assert text.view(second) is text.view(second)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"a": [1, 2]}', ({"a": [1, 2]}, '{"a":[1,2]}')),
        (b'{"a":"\\u00e9"}', ({"a": "é"}, '{"a":"é"}')),
        (b'{"a":"\\u0000"}', None),
        (b'{"a":"\\ude00"}', None),
        (b"[1]", None),
        (b"", None),
    ],
)
def test_whole_object_is_parsed_only_without_flaws(data: bytes, expected: object):
    assert parse_object(data) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [('{"a":1}', True), ('"{}"', True), ("12", False), ('{"a"', False), ("[" * 5000, False)],
)
def test_completeness(text: str, expected: bool):
    assert is_complete(text) is expected

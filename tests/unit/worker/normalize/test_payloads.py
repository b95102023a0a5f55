import json

import msgspec
import pytest

from worker.normalize.payloads import (
    MAX_MISFITS,
    TOO_DEEP,
    Payload,
    Undecodable,
    read_object,
    write_json,
)


class Inner(msgspec.Struct):
    text: str | None = None
    number: int | None = None


class Outer(msgspec.Struct):
    inner: Inner | None = None
    items: list[Inner] | None = None


PAYLOAD = Payload(Outer)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"inner":{"text":5,"number":1}}', Outer(inner=Inner(number=1))),
        (b'{"inner":[],"items":[null,{"text":"a"},7]}', Outer(items=[Inner(text="a")])),
        (b'{"inner":{"text":"\\ud83d"}}', Outer(inner=Inner(text="\ud83d"))),
        (b'{"inner":{"text":"a\nb"}}', Outer(inner=Inner(text="a\nb"))),
        (b'{"\\ud83d":[{"\\ude00":5}],"inner":{"text":"a"}}', Outer(inner=Inner(text="a"))),
        (b'{"inner":{"text":"\xff"}}', Outer(inner=Inner(text="\ufffd"))),
    ],
)
def test_flaws_cost_no_more_than_themselves(data: bytes, expected: Outer):
    with pytest.raises(msgspec.DecodeError):
        PAYLOAD.decode(data)
    assert PAYLOAD.decode_leniently(data) == expected


@pytest.mark.parametrize(
    "data",
    [b'{"inner":', b"5", b'{"a":' + b"[" * 100_000, b'{"items":[' + b"1," * MAX_MISFITS + b"1]}"],
)
def test_what_is_no_payload_is_undecodable(data: bytes):
    with pytest.raises(Undecodable):
        PAYLOAD.decode_leniently(data)


def test_reading_an_object_gives_an_empty_one_for_anything_else():
    assert read_object(b'{"a":1}') == {"a": 1}
    assert read_object(b"[1]") == read_object(b"{") == {}


def test_what_nests_too_deep_is_no_payload_and_no_object():
    deep: object = []
    for _ in range(5000):
        deep = [deep]
    assert write_json(deep) == TOO_DEEP
    assert json.loads(TOO_DEEP) == "nested too deep"


def test_what_cannot_be_mended_for_its_depth_is_undecodable():
    half_a_name = b'{"\\ud83d":' + b"[" * 900 + b"]" * 900 + b"}"
    with pytest.raises(Undecodable):
        PAYLOAD.decode_leniently(half_a_name)


def test_compact_json_passes_surrogates():
    assert write_json({"a": ["\ud83d", 1]}) == '{"a":["\ud83d",1]}'

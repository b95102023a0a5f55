import pytest

from tests.support import cuttings
from worker.normalize.sse import (
    MAX_LINE_BYTES,
    MAX_RESPONSE_BYTES,
    MAX_STRAY_BYTES,
    MAX_STRAY_JSON_BYTES,
    PIECES_PER_BLOCK,
    SSEDecoder,
    SSEvent,
)


def decode(*chunks: bytes) -> list[SSEvent]:
    decoder = SSEDecoder()
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return events + decoder.flush()


def test_event_without_a_name_is_a_message():
    assert [event.name for event in decode(b"data: 1\n\nevent: ping\ndata: 2\n\n")] == [
        "message",
        "ping",
    ]


def test_carriage_return_at_chunk_end_completes_the_line():
    decoder = SSEDecoder()
    assert decoder.feed(b"data: 1\r\r") == [SSEvent(b"", b"1")]
    assert decoder.feed(b"") == []
    assert decoder.feed(b"\ndata: 2\r\n\r\n") == [SSEvent(b"", b"2")]


@pytest.mark.parametrize(
    ("pending", "expected"),
    [
        pytest.param(b"data: [DONE]", [b"[DONE]"], id="marker"),
        pytest.param(b'data: {"a":1}\n', [b'{"a":1}'], id="whole JSON"),
        pytest.param(b'data: {"a":\ndata: 1}', [b'{"a":\n1}'], id="whole JSON over two lines"),
        pytest.param(b'data: {"a":', [], id="cut JSON"),
        pytest.param(b"data: ping", [], id="no JSON"),
        pytest.param(b"\xef\xbb", [], id="half a byte order mark"),
        pytest.param(b"", [], id="nothing"),
    ],
)
def test_unfinished_event_at_the_end_counts_only_if_it_is_whole(
    pending: bytes, expected: list[bytes]
):
    for chunks in cuttings.common(pending):
        assert [event.data for event in decode(*chunks)] == expected


def test_fields_are_read_by_the_book():
    assert decode(b"id: 7\nid: a\0b\nevent:e\ndata:1\ndata\ndata:  2\nretry: 1\n: c\n\n") == [
        SSEvent(b"e", b"1\n\n 2", "7")
    ]
    assert decode(b"event: ping\n\ndata: x\n\n") == [SSEvent(b"", b"x")]


def test_long_line_in_many_small_pieces_comes_whole():
    data = bytes(range(48, 58)) * (3 * PIECES_PER_BLOCK)
    body = b"data: " + data + b"\n\ndata: 2\n\n"
    for size in (1, 7):
        events = decode(*cuttings.pieces(body, size))
        assert events == [SSEvent(b"", data), SSEvent(b"", b"2")]


def test_line_of_the_limit_passes():
    data = b"x" * (MAX_LINE_BYTES - len(b"data: "))
    assert decode(b"data: " + data + b"\n\n") == [SSEvent(b"", data)]


@pytest.mark.parametrize("size", [1024 * 1024, MAX_LINE_BYTES, 2 * MAX_LINE_BYTES])
def test_line_over_the_limit_ends_the_stream_after_what_stood_before(size: int):
    body = b"data: 1\n\n: " + b"x" * (MAX_LINE_BYTES - 1) + b"\n\ndata: 2\n\n"
    decoder = SSEDecoder()
    events = [event for chunk in cuttings.pieces(body, size) for event in decoder.feed(chunk)]
    assert events == [SSEvent(b"", b"1")]
    assert decoder.exceeded == f"a line is longer than {MAX_LINE_BYTES} bytes"
    assert decoder.feed(b"data: 3\n\n") == []
    assert decoder.flush() == []


@pytest.mark.parametrize("size", [1_000_003, MAX_RESPONSE_BYTES * 2])
def test_response_over_the_limit_ends_the_stream(size: int):
    block = b"data: " + b"x" * (1024 * 1024 - 8) + b"\n\n"
    whole = MAX_RESPONSE_BYTES // len(block)
    decoder = SSEDecoder()
    body = block * (whole + 2)
    events = [event for chunk in cuttings.pieces(body, size) for event in decoder.feed(chunk)]
    assert len(events) == whole
    assert decoder.exceeded == f"the response is longer than {MAX_RESPONSE_BYTES} bytes"


def test_lines_that_are_no_field_are_kept():
    decoder = SSEDecoder()
    decoder.feed(b'{\n  "error": 1\n}')
    decoder.flush()
    assert decoder.stray == b'{\n  "error": 1\n}'


@pytest.mark.parametrize(
    ("first", "limit"), [(b"<html>", MAX_STRAY_BYTES), (b" {", MAX_STRAY_JSON_BYTES)]
)
def test_what_is_kept_of_a_body_has_a_bound(first: bytes, limit: int):
    decoder = SSEDecoder()
    line = b"y" * 1023 + b"\n"
    decoder.feed(first + b"\n" + line * (2 * limit // len(line)))
    assert limit <= len(decoder.stray) <= limit + len(line)

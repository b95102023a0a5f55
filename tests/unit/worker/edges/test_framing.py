"""Bodies as h11 would read them, however they are cut."""

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cuttings import cut_at
from worker.edges.framing import (
    MAX_LINE_BYTES,
    MAX_TRAILER_BYTES,
    BadFraming,
    Chunked,
    Counted,
    Framing,
    UntilClosed,
    framing_of,
)

BAD = "bad"


def cut(data: bytes, places: list[int]) -> list[bytes]:
    return [part for part in cut_at(data, (at % (len(data) + 1) for at in places)) if part]


def read(framing: Framing, parts: list[bytes]) -> tuple[bytes, bool | str]:
    """The body, and whether the connection may be used again."""
    body = b""
    try:
        for part in parts:
            if framing.is_done:
                return body, False
            body += framing.feed(part)
        framing.end()
    except BadFraming:
        return body, BAD
    return body, not framing.surplus


def read_by_h11(parts: list[bytes]) -> tuple[bytes, bool | str]:
    wire = h11.Connection(h11.CLIENT)
    wire.send(h11.Request(method="GET", target="/", headers=[("host", "a")]))
    wire.send(h11.EndOfMessage())
    wire.receive_data(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    assert isinstance(wire.next_event(), h11.Response)
    body, is_done = b"", False
    try:
        for part in [*parts, b""]:
            if is_done:
                return body, not part and not wire.trailing_data[0]
            wire.receive_data(part)
            while (event := wire.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                if isinstance(event, h11.Data):
                    body += bytes(event.data)
                if isinstance(event, h11.EndOfMessage):
                    is_done = True
                    break
    except h11.RemoteProtocolError:
        return body, BAD
    return body, is_done


chunk = st.builds(
    lambda data, ext: b"%x%s\r\n%s\r\n" % (len(data), ext, data),
    st.binary(min_size=1, max_size=40),
    st.sampled_from([b"", b"", b";a=b", b" "]),
)
ends = st.sampled_from([b"0\r\n\r\n", b"0\r\nx: y\r\nz: a\r\n\r\n", b"", b"0\r\n\r\nsurplus"])


@given(st.lists(chunk, max_size=5), ends, st.lists(st.integers(0, 400), max_size=8))
def test_a_chunked_body_is_what_h11_reads_in_it(chunks, end, places):
    parts = cut(b"".join(chunks) + end, places)
    assert read(Chunked(), parts) == read_by_h11(parts)


@given(
    st.lists(chunk, min_size=1, max_size=3),
    st.integers(0, 200),
    st.sampled_from(list(b"1aZ\r\n ;-+_x")),  # 0 would begin a trailer, which is read over
    st.lists(st.integers(0, 400), max_size=4),
)
def test_a_chunked_body_that_h11_refuses_is_refused(chunks, place, byte, places):
    raw = bytearray(b"".join(chunks))
    raw[place % len(raw)] = byte
    parts = cut(bytes(raw), places)
    found, expected = read(Chunked(), parts), read_by_h11(parts)
    assert found[1] == expected[1]
    if expected[1] != BAD:
        assert found == expected


REFUSED = {
    "no size": b"hello\r\n",
    "a sign": b"+5\r\nhello\r\n",
    "an underscore": b"1_0\r\n",
    "0x": b"0x5\r\nhello\r\n",
    "an empty line": b"\r\n",
    "more than its size": b"2\r\nhello\r\n",
    "a line feed alone": b"5\nhello\r\n",
    "a line feed alone behind it": b"5\r\nhello\n",
    "a size beyond counting": b"f" * 16 + b"\r\n",
    "a line without end": b"1" + b" " * MAX_LINE_BYTES,
    "a trailer without end": b"0\r\n" + b"a: b\r\n" * MAX_TRAILER_BYTES,
}


@pytest.mark.parametrize("raw", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("size", [1, 7, 100_000], ids=["bytes", "pieces", "whole"])
def test_what_is_no_chunk_is_refused(raw, size):
    parts = [raw[at : at + size] for at in range(0, len(raw), size)]
    _, outcome = read(Chunked(), parts)
    assert outcome == BAD


@pytest.mark.parametrize("places", [[], [1], [2, 4]], ids=["whole", "two", "three"])
def test_a_counted_body_ends_with_its_count(places):
    assert read(Counted(5), cut(b"hello", places)) == (b"hello", True)
    assert read(Counted(5), cut(b"hell", places)) == (b"hell", BAD)
    assert read(Counted(3), [b"hello"]) == (b"hel", False)


def test_a_body_without_a_count_ends_with_its_connection():
    assert read(UntilClosed(), [b"a", b"b"]) == (b"ab", False)


def head(*headers: tuple[str, str], status: int = 200) -> h11.Response:
    return h11.Response(status_code=status, headers=list(headers))


FRAMINGS = {
    "chunked": (b"POST", head(("Transfer-Encoding", "Chunked")), Chunked),
    "counted": (b"POST", head(("Content-Length", "5")), Counted),
    "neither": (b"POST", head(), UntilClosed),
    "chunked before counted": (
        b"POST",
        head(("Content-Length", "5"), ("Transfer-Encoding", "chunked")),
        Chunked,
    ),
    "no content": (b"POST", head(status=204), Counted),
    "not modified": (b"GET", head(("Content-Length", "5"), status=304), Counted),
    "asked for the head": (b"HEAD", head(("Content-Length", "5")), Counted),
}


@pytest.mark.parametrize(("method", "answer", "kind"), FRAMINGS.values(), ids=FRAMINGS)
def test_the_head_says_how_the_body_is_framed(method, answer, kind):
    framing = framing_of(method, answer)
    assert isinstance(framing, kind)
    assert framing.is_done is (answer.status_code in (204, 304) or method == b"HEAD")

"""How the bytes of an HTTP/1.1 body are framed: what of them is body, and where it ends.

Comes in: a response's head as h11 read it, then bytes as they arrive, cut anywhere. Goes out: the
body's bytes. It opens nothing; only `worker.edges.http1` uses it.

h11 reads heads, once an answer; it would also read bodies, but for a stream of small chunks its
state machine is the largest single cost of a worker (docs/decisions/0019). What a head says is its
business still: it refuses contradictions before anything here is asked.
"""

import re
from typing import Final, Protocol

import h11

MAX_LINE_BYTES: Final = 4096
"""Of a chunk's size with its extensions, or of one trailer; nobody known sends either."""
MAX_TRAILER_BYTES: Final = 16 * 1024
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r\n")
"""RFC 9112 section 7.1; fifteen digits, so that no count overflows anything."""


class BadFraming(Exception):
    """The bytes are not framed as the head said."""


class Framing(Protocol):
    """One body."""

    is_done: bool
    """The body has ended, as far as its framing says."""
    surplus: bool
    """Something came behind the end: the connection cannot be used again."""

    def feed(self, data: bytes) -> bytes:
        """What of the body these bytes hold, perhaps nothing. Raises `BadFraming`."""
        ...

    def end(self) -> None:
        """The peer has closed. Raises `BadFraming` where that is too early."""
        ...


def framing_of(method: bytes, head: h11.Response) -> Framing:
    """Chooses by RFC 9112 section 6.3; h11 has refused what is contradictory."""
    if method == b"HEAD" or head.status_code in (204, 304):
        return Counted(0)
    named = dict(head.headers)  # lower case; a repeated one of these two did not pass h11
    if b"transfer-encoding" in named:
        return Chunked()
    if b"content-length" in named:
        return Counted(int(named[b"content-length"]))
    return UntilClosed()


class Counted:
    """A body of so many bytes."""

    __slots__ = ("_left", "is_done", "surplus")

    def __init__(self, size: int) -> None:
        self._left = size
        self.is_done = size == 0
        self.surplus = False

    def feed(self, data: bytes) -> bytes:
        """Takes what belongs to the body."""
        if len(data) > self._left:
            self.surplus = True
            data = data[: self._left]
        self._left -= len(data)
        self.is_done = self._left == 0
        return data

    def end(self) -> None:
        """The peer has closed."""
        if not self.is_done:
            raise BadFraming(f"the peer closed {self._left} bytes before the end")


class UntilClosed:
    """A body that ends with its connection."""

    __slots__ = ("is_done", "surplus")

    def __init__(self) -> None:
        self.is_done = False
        self.surplus = True  # never to be used again

    def feed(self, data: bytes) -> bytes:
        """All of it is body."""
        return data

    def end(self) -> None:
        """The peer has closed."""
        self.is_done = True


class Chunked:
    """A body in chunks, each behind its size (RFC 9112 section 7.1)."""

    __slots__ = ("_held", "_in_trailer", "_left", "_trailer_bytes", "is_done", "surplus")

    def __init__(self) -> None:
        self.is_done = False
        self.surplus = False
        self._held = b""  # the begun line of a size or of a trailer
        self._left = 0  # of the current chunk, the line feed behind it included
        self._in_trailer = False
        self._trailer_bytes = 0

    def feed(self, data: bytes) -> bytes:
        """Takes the chunks apart."""
        if self._held:
            data, self._held = self._held + data, b""
        parts: list[bytes] = []
        at, size = 0, len(data)
        while at < size and not self.is_done:
            if self._left:
                at = self._take(data, at, parts)
            elif self._in_trailer:
                at = self._trailer(data, at)
            elif (found := _SIZE.match(data, at)) is not None:
                at, count = found.end(), int(found[1], 16)
                end = at + count
                if count and data[end : end + 2] == b"\r\n":  # as a rule the whole chunk is there
                    parts.append(data[at:end])
                    at = end + 2
                else:
                    self._in_trailer = count == 0
                    self._left = count + 2 if count else 0
            else:
                at = self._hold(data, at)
        if self.is_done and at < size:
            self.surplus = True
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def end(self) -> None:
        """The peer has closed."""
        if not self.is_done:
            raise BadFraming("the peer closed in the middle of a chunked body")

    def _take(self, data: bytes, at: int, parts: list[bytes]) -> int:
        """Takes what there is of the current chunk, and of the line end behind it."""
        body = self._left - 2
        if body > 0:
            part = data[at : at + body]
            parts.append(part)
            at += len(part)
            self._left -= len(part)
        while at < len(data) and 0 < self._left <= 2:
            if data[at] != b"\n\r"[self._left - 1]:
                raise BadFraming("a chunk is longer than its size")
            at += 1
            self._left -= 1
        return at

    def _trailer(self, data: bytes, at: int) -> int:
        """Reads over a trailer; an empty line ends the body."""
        end = data.find(b"\n", at)
        if end < 0:
            return self._hold(data, at)
        line = data[at:end].rstrip(b"\r")
        self._trailer_bytes += len(line)
        if self._trailer_bytes > MAX_TRAILER_BYTES:
            raise BadFraming("the trailer does not end")
        self.is_done = not line
        return end + 1

    def _hold(self, data: bytes, at: int) -> int:
        """Keeps a begun line until its end comes; a whole one that was not understood is none."""
        self._held = data[at:]
        if b"\n" in self._held or len(self._held) > MAX_LINE_BYTES:
            raise BadFraming("a chunk has no size")
        return len(data)

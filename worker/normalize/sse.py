"""Bytes to server-sent events, in any cutting (WHATWG HTML, section 9.2.6), at byte level.

Comes in: bytes as the transport gives them. Goes out: `SSEvent`s, and on the side what was no
event stream at all (`stray`). Imported by `normalizer`; nothing above needs it. Lines end with LF,
CR or CRLF and with nothing else: U+2028 and its kin are legal inside JSON strings, and decoders
that split there cut the payload (httpx-sse#34).
"""

import msgspec

from worker.normalize.payloads import Undecodable, read_json

MAX_LINE_BYTES = 8 * 1024 * 1024
"""An image part of Gemini is about 3 MB of base64 in one line; twice that, and some."""

MAX_RESPONSE_BYTES = 64 * 1024 * 1024
"""The longest reply a model can give (about 2 MB of text) in 300 byte envelopes per token."""

MAX_STRAY_BYTES = 4 * 1024
"""Enough of an HTML page or a bare error text to tell what it was."""

MAX_STRAY_JSON_BYTES = MAX_LINE_BYTES
"""A JSON body where a stream was asked for is read as one completion, so it is kept whole."""

PIECES_PER_BLOCK = 512
"""A bytes object is 33 bytes larger than what it holds; of pieces, at most this many are kept."""

_BOM = b"\xef\xbb\xbf"
_CR = 13


class SSEvent(msgspec.Struct, frozen=True, gc=False):
    """A dispatched event. Positional, since one is made for every token that streams.

    `raw_name` is the event's name as bytes, empty for the default; `data` has its lines joined by
    LF and is not decoded.
    """

    raw_name: bytes
    data: bytes
    last_event_id: str = ""

    @property
    def name(self) -> str:
        """The event's name, `message` where the stream gave none."""
        return self.raw_name.decode("utf-8", "replace") or "message"


class SSEDecoder:
    """Feeds on chunks, gives events; its events do not depend on where the chunks were cut.

    Lines are split off with one `bytes.split` a chunk (a one-byte separator is found by memchr, a
    blank line is not), and only a line that is cut waits, so no byte is looked at twice.

    After a limit was exceeded (`exceeded` says which) everything further is ignored.
    """

    def __init__(self) -> None:
        self.exceeded: str | None = None
        self._cut_line: list[bytes] = []
        """The beginning of a line whose end has not come, in the pieces it came in."""
        self._cut_blocks: list[bytes] = []
        """What stood before `_cut_line`, joined: small pieces would cost ten times their bytes."""
        self._cut_bytes = 0
        self._name = b""
        self._data: bytes | None = None
        """The first data line of the event that is being read; None if it has none yet."""
        self._more_data: list[bytes] = []
        self._last_event_id = ""
        self._left = MAX_RESPONSE_BYTES
        self._stray: list[bytes] = []
        self._stray_bytes = 0
        self._stray_limit = MAX_STRAY_BYTES
        self._head: bytes | None = b""
        """The first bytes while they may still become a BOM; None once that is decided."""
        self._skip_lf = False
        """The last chunk ended with CR, which ended its line at once: an LF may belong to it."""

    def feed(self, chunk: bytes) -> list[SSEvent]:
        """Takes the next bytes and returns the events that they complete."""
        self._left -= len(chunk)
        if self._left < 0:
            if self.exceeded is not None:
                return []
            chunk = chunk[: self._left]
        if self._head is not None:
            chunk = self._without_bom(chunk)
        if _CR in chunk or self._skip_lf:
            lines = self._split_at_returns(chunk)
        else:
            lines = chunk.split(b"\n")
        rest = lines.pop()
        if len(chunk) + self._cut_bytes > MAX_LINE_BYTES:
            lines, rest = self._without_long_lines(lines, rest)
        if lines and self._cut_bytes:
            lines[0] = self._take_cut_line(lines[0])
        if rest:
            self._keep_cut_line(rest)
        events = self._read(lines) if lines else []
        if self._left < 0 and self.exceeded is None:
            self._exceed(f"the response is longer than {MAX_RESPONSE_BYTES} bytes")
        return events

    def flush(self) -> list[SSEvent]:
        """Ends the input: an unfinished event counts only if its data is whole.

        WHATWG would discard it, but compatible servers often leave out the last blank line
        (openai-node#2726). Whole means `[DONE]` or complete JSON.
        """
        if self.exceeded is not None:
            return []
        last_line = (self._head or b"") + self._take_cut_line(b"")
        self._head = None
        events = self._read([last_line, b""] if last_line else [b""])
        return [event for event in events if is_whole(event.data)]

    @property
    def stray(self) -> bytes:
        """The lines that were no field of an event stream: a JSON body, a page of a proxy."""
        return b"\n".join(self._stray)

    def _read(self, lines: list[bytes]) -> list[SSEvent]:
        events = []
        for line in lines:
            if not line:
                data = self._data
                if data is not None:
                    if self._more_data:
                        data = self._joined_data()
                    events.append(SSEvent(self._name, data, self._last_event_id))
                    self._data = None
                self._name = b""
            elif line[:6] == b"data: " and self._data is None:
                self._data = line[6:]
            elif line[:7] == b"event: ":
                self._name = line[7:]
            else:
                self._read_field(line)
        return events

    def _read_field(self, line: bytes) -> None:
        """Reads a line by the book; `_read` knows the two forms that providers send."""
        field, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if field == b"data":
            if self._data is None:
                self._data = value
            else:
                self._more_data.append(value)
        elif field == b"event":
            self._name = value
        elif field == b"id":
            if b"\0" not in value:
                self._last_event_id = value.decode("utf-8", "replace")
        elif field and field != b"retry":
            self._keep_stray(line)

    def _joined_data(self) -> bytes:
        data = b"\n".join([self._data or b"", *self._more_data])
        self._more_data.clear()
        return data

    def _keep_cut_line(self, piece: bytes) -> None:
        self._cut_bytes += len(piece)
        self._cut_line.append(piece)
        if len(self._cut_line) == PIECES_PER_BLOCK:
            self._cut_blocks.append(b"".join(self._cut_line))
            self._cut_line.clear()

    def _take_cut_line(self, rest: bytes) -> bytes:
        line = b"".join([*self._cut_blocks, *self._cut_line, rest])
        self._cut_blocks.clear()
        self._cut_line.clear()
        self._cut_bytes = 0
        return line

    def _without_long_lines(self, lines: list[bytes], rest: bytes) -> tuple[list[bytes], bytes]:
        """What stands before the first line over the limit; nothing after it is read."""
        carried = self._cut_bytes
        for number, line in enumerate([*lines, rest]):
            if carried + len(line) > MAX_LINE_BYTES:
                self._exceed(f"a line is longer than {MAX_LINE_BYTES} bytes")
                return lines[:number], b""
            carried = 0
        return lines, rest

    def _keep_stray(self, line: bytes) -> None:
        if not self._stray and line.lstrip()[:1] in (b"{", b"["):
            self._stray_limit = MAX_STRAY_JSON_BYTES
        if self._stray_bytes < self._stray_limit:
            self._stray.append(line)
            self._stray_bytes += len(line) + 1

    def _exceed(self, what: str) -> None:
        self.exceeded = what
        self._left = -1

    def _without_bom(self, chunk: bytes) -> bytes:
        head = (self._head or b"") + chunk
        if len(head) < len(_BOM) and _BOM.startswith(head):
            self._head = head
            return b""
        self._head = None
        return head.removeprefix(_BOM)

    def _split_at_returns(self, chunk: bytes) -> list[bytes]:
        """Splits at LF, CR and CRLF; the last line is cut, or empty."""
        if self._skip_lf and chunk:
            self._skip_lf = False
            chunk = chunk.removeprefix(b"\n")
        if chunk and chunk[-1] == _CR:
            self._skip_lf = True
            chunk += b"\n"
        lines = [line[:-1] if line[-1:] == b"\r" else line for line in chunk.split(b"\n")]
        if any(_CR in line for line in lines):
            return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        return lines


def is_whole(data: bytes) -> bool:
    """True for data that was not cut: `[DONE]` or complete JSON."""
    payload = data.strip()
    if payload.startswith(b"[DONE]"):
        return True
    try:
        read_json(payload)
    except Undecodable:
        return False
    return True

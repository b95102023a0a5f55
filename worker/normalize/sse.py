"""Bytes to server-sent events, in any cutting (WHATWG HTML, section 9.2.6), at byte level.

Comes in: bytes as the transport gives them. Goes out: `SSEvent`s, and on the side what was no
event stream at all (`stray`). Imported by `normalizer`; nothing above needs it. Lines end with LF,
CR or CRLF and with nothing else: U+2028 and its kin are legal inside JSON strings, and decoders
that split there cut the payload (httpx-sse#34).
"""

import msgspec

MAX_LINE_BYTES = 8 * 1024 * 1024
"""An image part of Gemini is about 3 MB of base64 in one line; twice that, and some."""

MAX_RESPONSE_BYTES = 64 * 1024 * 1024
"""The longest reply a model can give (about 2 MB of text) in 300 byte envelopes per token."""

MAX_STRAY_BYTES = 4 * 1024
"""Enough of an HTML page or a bare error text to tell what it was."""

MAX_STRAY_JSON_BYTES = MAX_LINE_BYTES
"""A JSON body where a stream was asked for is read as one completion, so it is kept whole."""

_BOM = b"\xef\xbb\xbf"
_LF = 10
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

    Whole blocks (up to a blank line) are split off with one `bytes.split`; a block that is not
    finished waits in a growing array, so no byte is looked at twice whatever the cutting.

    After a limit was exceeded (`exceeded` says which) everything further is ignored.
    """

    def __init__(self) -> None:
        self.exceeded: str | None = None
        self._pending = bytearray()
        self._line_bytes = 0
        """Length of the last, unfinished line in `_pending`."""
        self._left = MAX_RESPONSE_BYTES
        self._last_event_id = ""
        self._stray: list[bytes] = []
        self._stray_bytes = 0
        self._head: bytes | None = b""
        """The first bytes while they may still become a BOM; None once that is decided."""
        self._skip_lf = False
        """The last chunk ended with CR, which ended its line at once: an LF may belong to it."""

    def feed(self, chunk: bytes) -> list[SSEvent]:
        """Takes the next bytes and returns the events that they complete."""
        if self.exceeded is not None:
            return []
        self._left -= len(chunk)
        if self._left < 0:
            chunk = chunk[: self._left]
        if self._head is not None:
            chunk = self._without_bom(chunk)
        if self._skip_lf or b"\r" in chunk:
            chunk = self._with_line_feeds(chunk)
        pending = self._pending
        if pending and pending[-1] == _LF and chunk:
            # A blank line may be cut in two: give its first half back, and split as always.
            pending.pop()
            chunk = b"\n" + chunk
        blocks = chunk.split(b"\n\n")
        rest = blocks.pop()
        if blocks and pending:
            pending += blocks[0]
            blocks[0] = bytes(pending)
            pending.clear()
        events = self._events(blocks)
        if self.exceeded is None:
            if rest:
                self._keep(rest, begins=bool(blocks))
            if self._left < 0:
                self._exceed(f"the response is longer than {MAX_RESPONSE_BYTES} bytes")
        return events

    def flush(self) -> list[SSEvent]:
        """Ends the input: an unfinished block gives its event only if its data is whole.

        WHATWG would discard it, but compatible servers often leave out the last blank line
        (openai-node#2726). Whole means `[DONE]` or complete JSON.
        """
        if self._head:
            self._pending += self._head
            self._head = None
        block = bytes(self._pending)
        self._pending.clear()
        if not block or self.exceeded is not None:
            return []
        return [event for event in self._events([block]) if _is_whole(event.data)]

    @property
    def stray(self) -> bytes:
        """The lines that were no field of an event stream: a JSON body, a page of a proxy."""
        return b"\n".join(self._stray)

    def _events(self, blocks: list[bytes]) -> list[SSEvent]:
        events = []
        for block in blocks:
            if block[:6] == b"data: " and b"\n" not in block and len(block) <= MAX_LINE_BYTES:
                events.append(SSEvent(b"", block[6:], self._last_event_id))
                continue
            event = self._read_block(block)
            if event is not None:
                events.append(event)
            elif self.exceeded is not None:
                break
        return events

    def _read_block(self, block: bytes) -> SSEvent | None:
        name = b""
        data: list[bytes] = []
        for line in block.split(b"\n"):
            if len(line) > MAX_LINE_BYTES:
                self._exceed(f"a line is longer than {MAX_LINE_BYTES} bytes")
                return None
            field, _, value = line.partition(b":")
            if value[:1] == b" ":
                value = value[1:]
            if field == b"data":
                data.append(value)
            elif field == b"event":
                name = value
            elif field == b"id":
                if b"\0" not in value:
                    self._last_event_id = value.decode("utf-8", "replace")
            elif field and field != b"retry":
                self._keep_stray(line)
        return SSEvent(name, b"\n".join(data), self._last_event_id) if data else None

    def _keep(self, rest: bytes, *, begins: bool) -> None:
        if begins:
            self._line_bytes = 0
        if self._line_bytes + len(rest) > MAX_LINE_BYTES:
            lines = rest.split(b"\n")
            if max(self._line_bytes + len(lines[0]), *map(len, lines)) > MAX_LINE_BYTES:
                self._exceed(f"a line is longer than {MAX_LINE_BYTES} bytes")
                return
        newline = rest.rfind(b"\n")
        self._line_bytes = len(rest) - newline - 1 + (self._line_bytes if newline < 0 else 0)
        self._pending += rest

    def _keep_stray(self, line: bytes) -> None:
        head = self._stray[0] if self._stray else line
        looks_like_json = head.lstrip()[:1] in (b"{", b"[")
        limit = MAX_STRAY_JSON_BYTES if looks_like_json else MAX_STRAY_BYTES
        if self._stray_bytes < limit:
            self._stray.append(line)
            self._stray_bytes += len(line) + 1

    def _exceed(self, what: str) -> None:
        self.exceeded = what
        self._pending.clear()

    def _without_bom(self, chunk: bytes) -> bytes:
        head = (self._head or b"") + chunk
        if len(head) < len(_BOM) and _BOM.startswith(head):
            self._head = head
            return b""
        self._head = None
        return head.removeprefix(_BOM)

    def _with_line_feeds(self, chunk: bytes) -> bytes:
        if self._skip_lf and chunk:
            self._skip_lf = False
            chunk = chunk.removeprefix(b"\n")
        if chunk and chunk[-1] == _CR:
            self._skip_lf = True
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _is_whole(data: bytes) -> bool:
    payload = data.strip()
    if payload.startswith(b"[DONE]"):
        return True
    try:
        msgspec.json.decode(payload, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True

"""The room: bytes of a provider's stream to canonical events (seed 002).

Comes in: bytes in any cutting. Goes out: `StreamEvent`s, exactly one terminal event, last. Built by
`worker.providers.normalizer_for`, driven by the turn loop and by replay. This module defines the
port `Dialect`; what a provider's words mean is the dialect's business.

Invariants, each with a property test: the event list does not depend on the cutting; nothing
raises, whatever the bytes; memory is bounded by the limits of `sse` and `reply`.
"""

import json
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

import msgspec

from shared.turns import StopReason
from shared.wire import UNREADABLE
from worker.normalize.events import StreamEvent
from worker.normalize.meta import Meta
from worker.normalize.payloads import Payload, Undecodable, read_json, read_object
from worker.normalize.reply import Reply
from worker.normalize.sse import MAX_STRAY_BYTES, SSEDecoder, SSEvent

EMPTY = "stream ended before any event"
TRUNCATED = "stream ended without a finish marker"

MAX_UNDECODABLE_IN_A_ROW = 3
"""One lost event is survivable; three in a row are a stream that we do not understand."""

M = TypeVar("M")


class Dialect(Protocol[M]):
    """One wire format, reading one stream into one `Reply`."""

    payload: Payload[M]
    """How an event's data is decoded."""
    ends_with_done: bool
    """Whether `[DONE]` ends the stream; where it does not, it is ignored."""

    def read(self, event: SSEvent, message: M) -> None:
        """Reads one event. Sets `reply.stop` where the provider says why it stopped."""
        ...

    def close(self) -> None:
        """Finishes what is still open, before the reply ends at the end of the input."""
        ...

    def read_body(self, event: SSEvent, message: M) -> None:
        """Reads a whole completion, which came as a JSON body where a stream was asked for."""
        ...


class Reader(Protocol):
    """A dialect with its decoders, whatever its payload type."""

    def read(self, events: Iterable[SSEvent]) -> None:
        """Reads events until the reply has ended."""
        ...

    def read_body(self, event: SSEvent) -> None:
        """Reads a whole body."""
        ...

    def close(self) -> None:
        """Finishes what is still open."""
        ...


MakeReader = Callable[[Reply], Reader]
"""What the normalizer is built with: a wire format that has no stream yet."""

Sniff = Callable[[SSEvent], MakeReader | None]
"""Tells the wire format from an event, or None if this event does not show it."""


class DialectReader(Generic[M]):
    """Decodes events and hands them to a dialect: the hot loop, and everything unusual."""

    def __init__(self, dialect: Dialect[M], reply: Reply) -> None:
        self._dialect = dialect
        self._reply = reply
        self._decode = dialect.payload.decode
        self._read = dialect.read
        self._undecodable_in_a_row = 0

    def read(self, events: Iterable[SSEvent]) -> None:
        """Reads events until the reply has ended."""
        decode, read, reply = self._decode, self._read, self._reply
        for event in events:
            try:
                message = decode(event.data)
            except UNREADABLE:
                self._read_unusual(event)
            else:
                self._undecodable_in_a_row = 0
                read(event, message)
            if reply.ended:
                break

    def read_body(self, event: SSEvent) -> None:
        """Reads a JSON body; an undecodable one is no completion and says nothing."""
        try:
            message = self._decoded(event.data)
        except Undecodable:
            return
        self._dialect.read_body(event, message)

    def close(self) -> None:
        """Finishes what is still open."""
        self._dialect.close()

    def _decoded(self, data: bytes) -> M:
        payload = self._dialect.payload
        try:
            return payload.decode(data)
        except UNREADABLE:
            message = payload.decode_leniently(data)
            self._reply.ragged = True
            return message

    def _read_unusual(self, event: SSEvent) -> None:
        """Reads data that the typed decoder refused: a marker, a list, or JSON with a flaw."""
        data = event.data.strip()
        if data[:1] == b"{":
            self._read_leniently(event)
        elif data.startswith(b"[DONE]"):
            if self._dialect.ends_with_done:
                self._end()
        elif data[:1] == b"[":
            self._read_array(SSEvent(event.raw_name, data))
        elif data and event.raw_name == b"error":
            self._reply.fail_with(data.decode("utf-8", "replace"))
        # Anything else is a heartbeat: `ping`, `null`, `: keepalive`.

    def _read_leniently(self, event: SSEvent) -> None:
        try:
            message = self._decoded(event.data)
        except Undecodable:
            self._skip()
        else:
            self._undecodable_in_a_row = 0
            self._dialect.read(event, message)

    def _read_array(self, event: SSEvent) -> None:
        try:
            elements = objects_in(event.data)
        except Undecodable:
            self._skip()
            return
        self.read(SSEvent(event.raw_name, element) for element in elements)

    def _skip(self) -> None:
        self._reply.meta.skipped += 1
        self._reply.taint()
        self._undecodable_in_a_row += 1
        if self._undecodable_in_a_row == MAX_UNDECODABLE_IN_A_ROW:
            self._reply.fail("malformed_event", "undecodable event")

    def _end(self) -> None:
        if not self._reply.started:
            self._reply.fail("empty_stream", EMPTY)
            return
        self._dialect.close()
        self._reply.done(self._reply.stop or StopReason.STOP)


class StreamNormalizer:
    """Feeds on bytes of one stream, gives canonical events.

    After the terminal event `feed` and `flush` return `[]`. After `flush`, `feed` raises.

    Args:
        dialect: the wire format; `worker.providers.normalizer_for` chooses it.
        provider: the name that `start` reports.
        model: the requested model, for streams that do not name theirs.
        tools: names of the tools that the model was offered; none means that no name is unknown.
        sniff: asked about each event until it tells a wire format, which then replaces `dialect`.
    """

    def __init__(
        self,
        dialect: MakeReader,
        *,
        provider: str,
        model: str,
        tools: Iterable[str] = (),
        sniff: Sniff | None = None,
    ) -> None:
        self._sse = SSEDecoder()
        self._reply = Reply(provider, model, frozenset(tools))
        self._reader = dialect(self._reply)
        self._sniff = sniff
        self._flushed = False

    @property
    def meta(self) -> Meta:
        """Side data of the stream: ids, the raw finish word, usage, the provider's error."""
        return self._reply.meta

    def feed(self, chunk: bytes) -> list[StreamEvent]:
        """Takes the next bytes and returns the events that they complete.

        Raises:
            RuntimeError: the stream was flushed.
        """
        reply = self._reply
        if self._flushed or reply.ended:
            return self._nothing()
        events = self._sse.feed(chunk)
        if events:
            if self._sniff is None:
                self._reader.read(events)
            else:
                self._sniff_and_read(events)
        if self._sse.exceeded is not None:
            reply.fail("limit_exceeded", self._sse.exceeded)
        if self._reply.ended:
            return reply.take()
        found, reply.events = reply.events, []
        return found

    def flush(self) -> list[StreamEvent]:
        """Ends the input and returns the rest, the terminal event last. Again: `[]`."""
        if self._flushed:
            return []
        self._flushed = True
        if not self._reply.ended:
            self._sniff_and_read(self._sse.flush())
            if not self._reply.ended:
                self._at_end()
        return self._reply.take()

    def _nothing(self) -> list[StreamEvent]:
        if self._flushed:
            raise RuntimeError("feed after flush: make a new normalizer for a new stream")
        return []

    def _sniff_and_read(self, events: list[SSEvent]) -> None:
        for event in events:
            self._settle(event)
            self._reader.read([event])
            if self._reply.ended:
                break

    def _settle(self, event: SSEvent) -> None:
        dialect = self._sniff(event) if self._sniff is not None else None
        if dialect is not None:
            self._sniff = None
            self._reader = dialect(self._reply)

    def _at_end(self) -> None:
        """The input ended without a terminal event: well if the provider said that it stopped."""
        reply = self._reply
        if reply.stop is None:
            self._read_stray()
        if reply.stop is not None:
            self._reader.close()
            reply.done(reply.stop)
        elif reply.started:
            reply.fail("stream_truncated", TRUNCATED)
        else:
            reply.fail("empty_stream", EMPTY)

    def _read_stray(self) -> None:
        """Reads what was no event stream: a JSON error or completion, or a page to keep."""
        stray = self._sse.stray.strip()
        self._reply.meta.stray = stray[:MAX_STRAY_BYTES].decode("utf-8", "replace") or None
        try:
            bodies = objects_in(stray) if stray[:1] in (b"{", b"[") else []
        except Undecodable:
            return
        streamed = self._reply.started
        for body in bodies:
            event = SSEvent(b"", body)
            self._settle(event)
            if not streamed:
                self._reader.read_body(event)
            elif error := read_object(body).get("error"):
                self._reply.fail_with(error)
            if self._reply.ended:
                return


def feed_chunk(state: StreamNormalizer, chunk: bytes) -> tuple[list[StreamEvent], StreamNormalizer]:
    """The seed's form of `feed`: events, and the state for the next chunk (the same object)."""
    return state.feed(chunk), state


_read_rows = msgspec.json.Decoder(list[msgspec.Raw]).decode


def objects_in(body: bytes) -> list[bytes]:
    """The objects of a JSON text, each as JSON: the elements of an array, else the text itself.

    Raises:
        Undecodable: it is no JSON.
    """
    if body[:1] == b"{":
        return [body]
    try:
        rows = [bytes(row) for row in _read_rows(body)]
    except UNREADABLE:
        value = read_json(body)
        elements = value if isinstance(value, list) else []
        rows = [json.dumps(element).encode() for element in elements]
    return [row for row in rows if row[:1] == b"{"]

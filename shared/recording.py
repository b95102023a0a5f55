"""The recording of an attempt: what the provider sent and when the driver ticked, in order.

Comes in: bytes, ticks and the borders of rounds as they happen. Goes out: one compressed value that
Redis keeps for 72 h, and from it the same entries again, for `turnfleet turns replay --recorded`.
Pure; anyone may import it.

A recording has a head and a tail of blocks; what lay between was dropped, and the reader is told.
"""

import zlib
from collections import deque
from collections.abc import Iterator

import msgspec

from shared.errors import WireError
from shared.turns import Target, ToolSpec
from shared.wire import UNREADABLE

MAX_RECORDING_BYTES = 1024 * 1024
"""Compressed bytes of one attempt: a reply of 100,000 tokens has about 1.4 MB of such blocks."""
BLOCK_BYTES = 64 * 1024
"""Raw bytes that are compressed together: large enough for a good ratio, small enough to drop."""
LEVEL = zlib.Z_BEST_SPEED
"""A third of the time of zlib's own choice, for a sixth more bytes; most are thrown away unread."""


class Received(msgspec.Struct, frozen=True, kw_only=True, tag="b", tag_field="k"):
    """Bytes of the response body, `at_s` seconds of the driver's clock."""

    at_s: float
    data: bytes


class Ticked(msgspec.Struct, frozen=True, kw_only=True, tag="t", tag_field="k"):
    """A tick that the driver gave to the rooms."""

    at_s: float


class Asked(msgspec.Struct, frozen=True, kw_only=True, tag="q", tag_field="k"):
    """A request was sent: what follows is its answer, until the next one is `Asked`.

    `tools` are those that were offered, which the request of the turn need not name.
    """

    at_s: float
    target: Target
    tools: tuple[ToolSpec, ...] = ()


class Carried(msgspec.Struct, frozen=True, kw_only=True, tag="c", tag_field="k"):
    """Visible text of a round that an earlier attempt had completed.

    `trims` says that tools were called after it: a half sentence at its end was not shown.
    """

    text: str
    trims: bool


class Dropped(msgspec.Struct, frozen=True, kw_only=True, tag="d", tag_field="k"):
    """Entries that the bound of the recording did not keep, between head and tail."""

    entries: int


Entry = Received | Ticked | Asked | Carried | Dropped


class _File(msgspec.Struct, kw_only=True):
    version: int = 1
    blocks: list[bytes] = msgspec.field(default_factory=list)


_encode = msgspec.msgpack.Encoder().encode
_entries = msgspec.msgpack.Decoder(list[Entry])
_file = msgspec.msgpack.Decoder(_File)


class Recording:
    """Collects one attempt.

    Args:
        limit_bytes: compressed size at most; half is for the head, half for the tail.
    """

    __slots__ = (
        "_dropped",
        "_entries",
        "_head",
        "_head_bytes",
        "_limit",
        "_raw",
        "_tail",
        "_tail_bytes",
    )

    def __init__(self, limit_bytes: int = MAX_RECORDING_BYTES) -> None:
        self._limit = limit_bytes // 2
        self._entries: list[Entry] = []
        self._raw = 0
        self._head: list[bytes] = []
        self._head_bytes = 0
        self._tail: deque[tuple[int, bytes]] = deque()
        self._tail_bytes = 0
        self._dropped = 0

    def received(self, at_s: float, data: bytes) -> None:
        """Keeps bytes of the response."""
        self._add(Received(at_s=at_s, data=data), len(data))

    def ticked(self, at_s: float) -> None:
        """Keeps a tick."""
        self._add(Ticked(at_s=at_s), 16)

    def asked(self, at_s: float, target: Target, tools: tuple[ToolSpec, ...] = ()) -> None:
        """Keeps the border of a round."""
        self._add(Asked(at_s=at_s, target=target, tools=tools), 16)

    def carried(self, text: str, *, trims: bool) -> None:
        """Keeps what the attempt began with."""
        self._add(Carried(text=text, trims=trims), len(text))

    def dump(self) -> bytes:
        """The recording so far as one value. Call it once, at the end of the attempt."""
        self._close_block()
        blocks = list(self._head)
        if self._dropped:
            blocks.append(zlib.compress(_encode([Dropped(entries=self._dropped)])))
        blocks.extend(block for _, block in self._tail)
        return _encode(_File(blocks=blocks))

    def _add(self, entry: Entry, size: int) -> None:
        self._entries.append(entry)
        self._raw += size
        if self._raw >= BLOCK_BYTES:
            self._close_block()

    def _close_block(self) -> None:
        if not self._entries:
            return
        block = zlib.compress(_encode(self._entries), LEVEL)
        count, self._entries, self._raw = len(self._entries), [], 0
        if not self._tail and self._head_bytes + len(block) <= self._limit:
            self._head.append(block)
            self._head_bytes += len(block)
            return
        self._tail.append((count, block))
        self._tail_bytes += len(block)
        while self._tail_bytes > self._limit:
            dropped, old = self._tail.popleft()
            self._dropped += dropped
            self._tail_bytes -= len(old)


def read_recording(payload: bytes) -> Iterator[Entry]:
    """Gives the entries of a recording, in order.

    Raises:
        WireError: it is no recording.
    """
    try:
        for block in _file.decode(payload).blocks:
            yield from _entries.decode(zlib.decompress(block))
    except (*UNREADABLE, zlib.error) as exc:
        raise WireError(f"not a recording: {exc}") from exc

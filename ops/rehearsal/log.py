"""The log of a rehearsal: who asked what, and when each byte of the answer was written.

Comes in: requests and writes, from the player. Goes out: JSON for `GET /rehearsal/log`, which
benchmarks read. Times are `time.monotonic()` (one clock for every process of a Linux machine) and
`time.time()`. Keys are never logged.
"""

from collections import deque

import msgspec

MAX_ENTRIES = 1_000
"""Requests remembered; the oldest are forgotten. A benchmark empties the log before its run."""

MAX_WEIGHT_BYTES = 128 * 1024 * 1024
"""About what all entries may take: 100 long streams of a benchmark take 30 MiB. Whole entries go,
the oldest first, when a request arrives."""

WRITE_BYTES = 200
"""What one logged write takes in memory: a Struct and its four numbers."""

MAX_BODY_BYTES = 256 * 1024
"""Bytes of a request's body kept for tests that look at what was sent (a turn has no more)."""


class Write(msgspec.Struct, frozen=True, array_like=True):
    """One write: `[monotonic_s, wall_s, end_byte, visible_chars]`, the last two as running sums."""

    monotonic_s: float
    wall_s: float
    end_byte: int
    visible_chars: int


class Entry(msgspec.Struct, kw_only=True):
    """One request. `outcome`: running, whole, cut, failed, refused or left (by the client)."""

    number: int
    path: str
    received_monotonic_s: float
    received_wall_s: float
    model: str = ""
    scenario: str = ""
    status: int = 200
    outcome: str = "running"
    prompt_tokens: int = 0
    cached_tokens: int = 0
    told_output_tokens: int | None = None
    """What the stream ended with, the reasoning included; None where no count was told."""
    body: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))
    writes: list[Write] = msgspec.field(default_factory=list)
    ended_monotonic_s: float | None = None

    @property
    def weight_bytes(self) -> int:
        """About what the entry takes in memory."""
        return len(memoryview(self.body)) + len(self.writes) * WRITE_BYTES


class RehearsalLog:
    """The last requests, oldest first."""

    def __init__(self, max_weight_bytes: int = MAX_WEIGHT_BYTES) -> None:
        self._entries: deque[Entry] = deque(maxlen=MAX_ENTRIES)
        self._max_weight_bytes = max_weight_bytes
        self._count = 0

    def open(self, path: str, monotonic_s: float, wall_s: float) -> Entry:
        """Begins the entry of a request."""
        self._count += 1
        entry = Entry(
            number=self._count,
            path=path,
            received_monotonic_s=monotonic_s,
            received_wall_s=wall_s,
        )
        self._entries.append(entry)
        self._forget_beyond_weight()
        return entry

    def _forget_beyond_weight(self) -> None:
        weight = sum(entry.weight_bytes for entry in self._entries)
        while weight > self._max_weight_bytes:
            weight -= self._entries.popleft().weight_bytes

    def last(self) -> Entry:
        """The newest entry. Raises `IndexError` where there is none."""
        return self._entries[-1]

    def clear(self) -> None:
        """Forgets every entry; numbers go on."""
        self._entries.clear()

    def as_json(self) -> bytes:
        """All entries as a JSON array."""
        return msgspec.json.encode(list(self._entries))

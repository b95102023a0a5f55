"""Takes out what a provider says twice: whole texts so far, and overlaps at a seam.

Comes in: the provider's text deltas, uncut. Goes out: what is new in each. Pure; the first stage
of `worker.chunks.processor`, before the tag stripper: cumulative frames with a `<think>` would
nest otherwise. This is the one stage whose result depends on where deltas end, since deltas are
what it is about.

Overlaps are not cut everywhere: that deletes refrains, table rules and repeated code.
"""

from worker.chunks.pieces import HoldTimer

MIN_SNAPSHOT_CHARS = 20
"""From here on, one delta that extends (or repeats) everything so far is proof enough; shorter
beginnings are repeated by laughter and by lists."""
MIN_SEAM_CHARS = 16
"""An overlap below this is a coincidence of common words."""
SEAM_TAIL_CHARS = 4096
"""How far back a provider repeats itself after a tool call; more would be a snapshot."""
MAX_REMEMBERED_CHARS = 256 * 1024
"""A text this long that came in true deltas will not turn cumulative."""
HOLD_S = 1.5
"""A delta that may be a snapshot waits this long for the next one."""


class Deduplicator:
    """One text. Holds at most one delta: one that extends a short beginning.

    The next delta decides about it: if that one extends it, both are snapshots, else both are
    text. `tick` and `flush` make it text.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0  # characters said so far
        self._deltas = 0  # in how many deltas they came
        self._pending = ""  # extends everything so far, not decided yet
        self._is_cumulative = False  # this provider sends the whole text in each delta
        self._at_seam = False  # the next delta may repeat the tail
        self._holds = 0
        self._timer = HoldTimer(HOLD_S)
        self.dropped_chars = 0

    def arm_seam(self) -> None:
        """The next delta follows a tool call: it may repeat the tail."""
        self._at_seam = True

    def feed(self, delta: str) -> str:
        """Takes one delta and returns what is new, a released hold included."""
        if not delta:
            return ""
        released = ""
        if self._pending:
            pending, self._pending = self._pending, ""
            if len(delta) > len(pending) and delta.startswith(pending):
                self._is_cumulative = True
                return self._new_part(delta, self._size)
            released = self._new_part(pending, 0)
        elif len(delta) < self._size and not self._at_seam:
            return self._new_part(delta, 0)  # as most are: too short to repeat what was said
        return released + self._fresh(delta)

    def tick(self, now_s: float) -> str:
        """Returns the held delta if it is held too long."""
        hold = self._holds if self._pending else None
        return self.flush() if self._timer.expired(hold, now_s) else ""

    def flush(self) -> str:
        """Returns the held delta."""
        pending, self._pending = self._pending, ""
        return self._new_part(pending, 0) if pending else ""

    def _fresh(self, delta: str) -> str:
        if 0 < self._size <= len(delta) and self._extends(delta):
            is_certain = self._is_cumulative or self._size >= MIN_SNAPSHOT_CHARS
            if len(delta) == self._size:
                if self._is_cumulative or (is_certain and self._deltas > 1):
                    return self._new_part(delta, self._size)
            elif is_certain:
                return self._new_part(delta, self._size)
            else:
                self._pending = delta
                self._holds += 1
                return ""
        return self._new_part(delta, self._seam(delta) if self._at_seam else 0)

    def _extends(self, delta: str) -> bool:
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return bool(self._parts) and delta.startswith(self._parts[0])

    def _seam(self, delta: str) -> int:
        """How much of the delta's beginning, but never all of it, the tail ends with."""
        tail = "".join(self._parts)[-SEAM_TAIL_CHARS:]
        size = longest_overlap(tail, delta[: len(tail)][: len(delta) - 1])
        return size if size >= MIN_SEAM_CHARS and not is_periodic(delta[:size]) else 0

    def _new_part(self, delta: str, known: int) -> str:
        self._deltas += 1
        self._at_seam = False
        self.dropped_chars += known
        new = delta[known:]
        if new:
            self._size += len(new)
            self._parts.append(new)
            if self._size > MAX_REMEMBERED_CHARS and not self._is_cumulative:
                self._forget()
        return new

    def _forget(self) -> None:
        self._sees_snapshots = False
        self._parts = ["".join(self._parts)[-SEAM_TAIL_CHARS:]]


def longest_overlap(tail: str, head: str) -> int:
    """The length of the longest beginning of `head` that `tail` ends with, in linear time.

    The prefix function of Knuth, Morris and Pratt over `head` and the end of `tail`.
    """
    borders = _borders(head)
    size = 0
    for char in tail[-len(head) :] if head else "":
        while size and (size == len(head) or head[size] != char):
            size = borders[size - 1]
        if head[size] == char:
            size += 1
    return size


def is_periodic(text: str) -> bool:
    """Whether a text repeats a piece of at most half its length: `----`, table rules."""
    border = _borders(text)[-1] if text else 0
    return 2 * border >= len(text) > 0


def _borders(text: str) -> list[int]:
    """For each prefix, the length of its longest proper border."""
    borders = [0] * len(text)
    size = 0
    for at in range(1, len(text)):
        while size and text[size] != text[at]:
            size = borders[size - 1]
        if text[size] == text[at]:
            size += 1
        borders[at] = size
    return borders

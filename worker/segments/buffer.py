"""Text in, segments of a reply out: whole in themselves, in order, nothing lost.

Comes in: the visible text of an attempt, in any cutting. Goes out: `shared.segments.Segment`.
Pure: drivers feed it, tick it, and end it. `worker.turn` and `ops.replay` may import it.
"""

from shared.segments import DeliveryMode, Segment, SegmentKind
from worker.segments.limits import CHAT, Limits


class SegmentBuffer:
    """The segment room of one attempt.

    After the end, `thoughts` and `details` hold the private blocks found in the text, and
    `history` the text deltas in order, for the next request of a tool round.
    """

    def __init__(
        self,
        turn_id: str,
        attempt: int,
        *,
        mode: DeliveryMode = DeliveryMode.PARAGRAPH,
        limits: Limits = CHAT,
    ) -> None:
        self.thoughts: list[str] = []
        self.details: list[str] = []
        self.history: list[str] = []
        self._turn_id = turn_id
        self._attempt = attempt
        self._mode = mode
        self._limits = limits
        self._seq = 0
        self._offset = 0
        self._held = ""
        self._ended = False

    def feed(self, text: str) -> list[Segment]:
        """Takes a piece of text and returns what is finished."""
        if self._ended:
            raise RuntimeError("the segment buffer was flushed")
        self.history.append(text)
        *lines, self._held = (self._held + text).split("\n")
        return [segment for line in lines for segment in self._emit(line + "\n")]

    def tick(self, now_s: float) -> list[Segment]:
        """Lets holds expire; `now_s` is the driver's monotonic clock."""
        return []

    def flush(self) -> list[Segment]:
        """Ends the reply and returns what was held."""
        if self._ended:
            return []
        self._ended = True
        return self.flush_pending(for_tool_call=False)

    def flush_pending(self, *, for_tool_call: bool) -> list[Segment]:
        """Gives out what is held before a tool call or at a stop; more text may follow."""
        held, self._held = self._held, ""
        return self._emit(held)

    def _emit(self, text: str) -> list[Segment]:
        segments = []
        for start in range(0, len(text), self._limits.body):
            piece = text[start : start + self._limits.body]
            begin, self._offset = self._offset, self._offset + len(piece)
            if not piece.strip():
                continue
            self._seq += 1
            segments.append(
                Segment(
                    turn_id=self._turn_id,
                    attempt=self._attempt,
                    seq=self._seq,
                    kind=SegmentKind.TEXT,
                    text=piece.strip("\n"),
                    start=begin,
                    end=self._offset,
                )
            )
        return segments

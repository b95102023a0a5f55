"""One attempt at a reply: its rooms, its recording and its clocks, without any waiting.

Comes in: bytes and ticks from the runner. Goes out: segments to send, and which limit has passed.
"""

import msgspec

from shared.causes import Cause
from shared.failures import ProviderError
from shared.recording import Recording
from shared.secrets import Secret
from shared.segments import Segment
from shared.turns import StopReason, Target, TurnRequest, Usage
from worker.chunks.types import DoneChunk, ErrorChunk
from worker.failures.classify import error_of
from worker.providers.requests import Endpoint
from worker.turn.pipeline import pipeline_for
from worker.turn.ports import TimeLimits

TICK_S = 0.25
"""How often holds are looked at: a quarter of the shortest hold that a reader would notice."""


class Completed(msgspec.Struct, frozen=True, kw_only=True):
    """The stream ended by itself."""

    end: DoneChunk


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """A user stopped it."""


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """It failed, classified."""

    error: ProviderError


AttemptResult = Completed | Stopped | Failed


class Attempt:
    """What an attempt knows.

    Args:
        request: the turn.
        target: the model that is asked, the turn's own or a fallback.
        endpoint: where it is asked; None where nobody said where the provider listens.
        number: the attempt's number in its token.
        limits: how long it may wait for what.
        started_s: the driver's clock when it began.
        turn_started_s: the driver's clock when the turn was claimed.
    """

    __slots__ = (
        "_heard_s",
        "_limits",
        "_ticked_s",
        "_turn_started_s",
        "endpoint",
        "first_byte_s",
        "first_segment_s",
        "pipeline",
        "recording",
        "sent",
        "started_s",
        "target",
    )

    def __init__(
        self,
        *,
        request: TurnRequest,
        target: Target,
        endpoint: Endpoint | None,
        number: int,
        limits: TimeLimits,
        started_s: float,
        turn_started_s: float,
    ) -> None:
        self.target = target
        self.endpoint = endpoint
        self.started_s = started_s
        self.first_byte_s: float | None = None
        self.first_segment_s: float | None = None
        self.sent = 0
        self.recording = Recording()
        self.pipeline = pipeline_for(request, target, number, self.secrets)
        self._limits = limits
        self._turn_started_s = turn_started_s
        self._heard_s: float | None = None
        self._ticked_s = started_s

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """What this attempt sends and nobody may see."""
        if self.endpoint is None:
            return ()
        key = () if self.endpoint.key is None else (self.endpoint.key,)
        return (*key, *(value for _, value in self.endpoint.headers))

    @property
    def first_byte_limit_s(self) -> float:
        """Seconds for the connection and the headers."""
        return self._limits.first_byte_s

    def feed(self, data: bytes, now_s: float) -> list[Segment]:
        """Takes bytes of the response."""
        if self.first_byte_s is None:
            self.first_byte_s = self._heard_s = now_s
        self.recording.received(now_s, data)
        seen = self.pipeline.events_seen
        segments = self.pipeline.feed(data)
        if self.pipeline.events_seen > seen:
            # Comments keep a connection open, but a model that says nothing is silent all the same.
            self._heard_s = now_s
        return segments

    def tick(self, now_s: float) -> list[Segment]:
        """Lets holds expire, at most once in `TICK_S`."""
        if now_s - self._ticked_s < TICK_S:
            return []
        self._ticked_s = now_s
        self.recording.ticked(now_s)
        return self.pipeline.tick(now_s)

    def note_sent(self, now_s: float) -> None:
        """Counts a segment that the out stream has taken."""
        self.sent += 1
        if self.first_segment_s is None:
            self.first_segment_s = now_s

    def overdue(self, now_s: float) -> Cause | None:
        """The cause of the limit that has passed, or None."""
        return next((cause for at_s, cause in self._deadlines() if now_s >= at_s), None)

    def patience_s(self, now_s: float) -> float:
        """Seconds to wait for bytes before somebody must look: a tick or the nearest limit."""
        nearest = min(at_s for at_s, _ in self._deadlines())
        return max(0.0, min(TICK_S, nearest - now_s))

    def result(self) -> AttemptResult:
        """What the flushed pipeline ended with."""
        match self.pipeline.end:
            case DoneChunk() as end:
                return Completed(end=end)
            case ErrorChunk(error=error):
                return Failed(error=error)
            case None:
                return Failed(error=error_of(Cause.EMPTY_STREAM))

    @property
    def stop_reason(self) -> StopReason:
        """Why the model stopped, as far as the stream said."""
        end = self.pipeline.end
        word = (end.metadata or {}).get("stop_reason") if end is not None else None
        return StopReason(word) if isinstance(word, str) and word in _STOP_WORDS else _UNKNOWN

    @property
    def usage(self) -> Usage:
        """The tokens that the provider counted; absent counts stay absent."""
        end = self.pipeline.end
        counts = (end.metadata or {}).get("usage") if end is not None else None
        return msgspec.convert(counts or {}, Usage, strict=False)

    def _deadlines(self) -> list[tuple[float, Cause]]:
        limits = self._limits
        silent_at_s = (
            self.started_s + limits.first_byte_s
            if self._heard_s is None
            else self._heard_s + limits.between_chunks_s
        )
        return [
            (silent_at_s, Cause.NETWORK_TIMEOUT),
            (self.started_s + limits.whole_stream_s, Cause.REQUEST_TIMEOUT),
            (self._turn_started_s + limits.turn_deadline_s, Cause.REQUEST_TIMEOUT),
        ]


_STOP_WORDS = frozenset(StopReason)
_UNKNOWN = StopReason.UNKNOWN

"""One attempt at a reply: its rooms, its recording and its clocks, without any waiting.

Comes in: bytes and ticks from the runner. Goes out: segments to send, and which limit has passed.
"""

from collections.abc import Sequence

import msgspec

from shared.causes import Cause
from shared.failures import ProviderError
from shared.messages import Message
from shared.recording import Recording
from shared.secrets import Secret
from shared.segments import DeliveryMode, Segment
from shared.turns import AttemptUsage, Target, TurnRequest, Usage
from worker.chunks.types import DoneChunk, ErrorChunk
from worker.failures.classify import error_of
from worker.providers.requests import KeyedEndpoint
from worker.turn.pipeline import pipeline_for
from worker.turn.ports import TimeLimits
from worker.turn.rounds import Round
from worker.turn.words import Words

TICK_S = 0.25
"""How often holds are looked at: a quarter of the shortest hold that a reader would notice."""


PREVIEW_EVERY_S = 1.2
"""Between two looks at a growing message: Discord takes five edits of a channel in five seconds."""


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
        keyed: where it is asked; None where nobody said where the provider listens.
        number: the attempt's number in its token.
        limits: how long it may wait for what.
        started_s: the driver's clock when it began.
        turn_started_s: the driver's clock when the turn was claimed.
        words: what turnfleet itself puts into the reply.
    """

    __slots__ = (
        "_ends_s",
        "_heard",
        "_limits",
        "_previewed",
        "_previewed_s",
        "_shows_previews",
        "_silent_s",
        "_spent",
        "_ticked_s",
        "_tools",
        "_turn_ends_s",
        "endpoint",
        "first_byte_s",
        "first_segment_s",
        "is_cut",
        "key_id",
        "other_keys",
        "pipeline",
        "recording",
        "refusal",
        "rounds",
        "sent",
        "started_s",
        "target",
    )

    def __init__(
        self,
        *,
        request: TurnRequest,
        target: Target,
        keyed: KeyedEndpoint | None,
        number: int,
        limits: TimeLimits,
        started_s: float,
        turn_started_s: float,
        words: Words,
    ) -> None:
        self.target = target
        self.endpoint = keyed.endpoint if keyed is not None else None
        self.key_id = keyed.key_id if keyed is not None else None
        self.refusal = keyed.refusal if keyed is not None else None
        self.other_keys = keyed.others if keyed is not None else 0
        self.started_s = started_s
        self.first_byte_s: float | None = None
        self.first_segment_s: float | None = None
        self.sent = 0
        self.is_cut = False  # stopped while nobody took its segments: nothing more of it is sent
        self.rounds = 1
        self.recording = Recording()
        self.pipeline = pipeline_for(request, target, number, self.secrets, words=words)
        self._limits = limits
        self._tools = request.tools
        self._turn_ends_s = turn_started_s + limits.turn_deadline_s
        self._ends_s = self._turn_ends_s
        self._silent_s = started_s + limits.first_byte_s
        self._heard = False
        self._ticked_s = started_s
        self._spent: list[Usage] = []
        self._shows_previews = request.delivery_mode == DeliveryMode.EDIT
        self._previewed, self._previewed_s = "", started_s

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """What this attempt sends and nobody may see."""
        if self.endpoint is None:
            return ()
        key = () if self.endpoint.key is None else (self.endpoint.key,)
        return (*key, *(value for _, value in self.endpoint.headers))

    @property
    def has_heard(self) -> bool:
        """Bytes of this round's answer have come."""
        return self._heard

    def first_byte_limit_s(self, now_s: float) -> float:
        """Seconds for the connection and the headers."""
        return max(0.0, min(self._limits.first_byte_s, self._turn_ends_s - now_s))

    def asked(self, now_s: float) -> None:
        """A request goes out: the first one, or that of the next round."""
        self.recording.asked(now_s, self.target, self._tools)
        self._heard = False
        self._silent_s = now_s + self._limits.first_byte_s
        self._ends_s = min(now_s + self._limits.whole_stream_s, self._turn_ends_s)

    def completed(self, results: Sequence[Message]) -> Round:
        """This round with its tools' results, for whoever asks on.

        Raises:
            RuntimeError: its answer is not whole.
        """
        pipeline = self.pipeline
        return Round(
            said=pipeline.said,
            trims=bool(pipeline.calls),
            messages=[pipeline.answer(self.target), *results],
            sources=pipeline.sources,
        )

    def next_round(self) -> None:
        """Makes ready for the next answer; what the last one cost is kept."""
        self._spent.append(self._round_usage)
        self.rounds += 1
        self.pipeline.next_round()

    def carry(self, done: Round) -> list[Segment]:
        """Begins with a round that an earlier attempt had completed."""
        self.recording.carried(done.said, trims=done.trims)
        return self.pipeline.carry(
            done.said, trims=done.trims, pictures=done.pictures, sources=done.sources
        )

    def feed(self, data: bytes, now_s: float) -> list[Segment]:
        """Takes bytes of the response."""
        if self.first_byte_s is None:
            self.first_byte_s = now_s
        if not self._heard:
            self._heard = True
            self._silent_s = now_s + self._limits.between_chunks_s
        self.recording.received(now_s, data)
        seen = self.pipeline.events_seen
        segments = self.pipeline.feed(data)
        if self.pipeline.events_seen > seen:
            # Comments keep a connection open, but a model that says nothing is silent all the same.
            self._silent_s = now_s + self._limits.between_chunks_s
        return segments

    def tick(self, now_s: float) -> list[Segment]:
        """Lets holds expire, at most once in `TICK_S`."""
        if now_s - self._ticked_s < TICK_S:
            return []
        self._ticked_s = now_s
        self.recording.ticked(now_s)
        return self.pipeline.tick(now_s)

    def preview(self, now_s: float) -> str | None:
        """What may be seen of the next segment, where that is due and new."""
        if not self._shows_previews or now_s - self._previewed_s < PREVIEW_EVERY_S:
            return None
        text = self.pipeline.buffer.pending
        if not text or text == self._previewed:
            return None
        self._previewed, self._previewed_s = text, now_s
        return text

    def note_sent(self, now_s: float) -> None:
        """Counts a segment that the out stream has taken."""
        self.sent += 1
        if self.first_segment_s is None:
            self.first_segment_s = now_s

    def overdue(self, now_s: float) -> Cause | None:
        """The cause of the limit that has passed, or None."""
        if now_s >= self._silent_s:
            return Cause.NETWORK_TIMEOUT
        return Cause.REQUEST_TIMEOUT if now_s >= self._ends_s else None

    @property
    def due_s(self) -> float:
        """When the nearest limit passes, if nothing comes."""
        return min(self._silent_s, self._ends_s)

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
    def usage(self) -> Usage:
        """The tokens that the provider counted, over all rounds; absent counts stay absent."""
        return sum_of([*self._spent, self._round_usage])

    def spent(self, number: int) -> AttemptUsage:
        """What it cost, for the turn's record."""
        return AttemptUsage(
            attempt=number,
            target=self.target,
            key_id=self.key_id,
            rounds=self.rounds,
            usage=self.usage,
        )

    @property
    def _round_usage(self) -> Usage:
        end = self.pipeline.end
        counts = (end.metadata or {}).get("usage") if end is not None else None
        counts = counts or self.pipeline.normalizer.meta.usage
        return msgspec.convert(counts, Usage, strict=False)


def sum_of(parts: Sequence[Usage]) -> Usage:
    """The sum by field; a field that nobody counted stays absent."""
    sums: dict[str, float | None] = {}
    for field in Usage.__struct_fields__:
        known = [value for part in parts if (value := getattr(part, field)) is not None]
        sums[field] = sum(known) if known else None
    return msgspec.convert(sums, Usage)

"""Bytes of a provider's response in, segments out: the three rooms in a row.

Pure: the driver feeds bytes, gives ticks and ends it, `ops.replay` does the same from a recording,
so that a normalization bug is reproduced exactly.
"""

from collections.abc import Iterable

from shared.secrets import Secret
from shared.segments import DeliveryMode, Segment
from shared.turns import Target, TurnRequest
from worker.chunks.processor import ChunkProcessor
from worker.chunks.types import (
    DoneChunk,
    ErrorChunk,
    FunctionCall,
    FunctionCallChunk,
    ProcessedChunk,
    TextChunk,
    Thought,
)
from worker.normalize.events import StreamEvent
from worker.normalize.normalizer import StreamNormalizer
from worker.providers.quirks import is_custom, resolve
from worker.providers.streams import normalizer_for
from worker.segments.buffer import SegmentBuffer


class Pipeline:
    """One attempt's rooms.

    After the stream ended, `end` holds its terminal chunk, `calls` the tool calls in order,
    `thoughts` the reasoning; `events_seen` counts what the provider meaningfully sent.
    """

    __slots__ = ("_normalizer", "_processor", "buffer", "calls", "end", "events_seen", "thoughts")

    def __init__(
        self,
        *,
        normalizer: StreamNormalizer,
        processor: ChunkProcessor,
        buffer: SegmentBuffer,
    ) -> None:
        self._normalizer = normalizer
        self._processor = processor
        self.buffer = buffer
        self.calls: list[FunctionCall] = []
        self.thoughts: list[Thought] = []
        self.end: DoneChunk | ErrorChunk | None = None
        self.events_seen = 0

    @property
    def normalizer(self) -> StreamNormalizer:
        """The first room, for its `meta`."""
        return self._normalizer

    def feed(self, data: bytes) -> list[Segment]:
        """Takes bytes of the response body, cut anywhere."""
        return self._absorb(self._normalizer.feed(data))

    def tick(self, now_s: float) -> list[Segment]:
        """Lets holds expire; `now_s` is the driver's monotonic clock."""
        segments = self._deliver(self._processor.tick(now_s))
        segments.extend(self.buffer.tick(now_s))
        return segments

    def flush(self) -> list[Segment]:
        """Ends the stream: what is held comes out, and `end` is set."""
        segments = self._absorb(self._normalizer.flush())
        segments.extend(self._deliver(self._processor.flush()))
        segments.extend(self.buffer.flush())
        return segments

    def stop(self) -> list[Segment]:
        """Ends by the user's stop: what is balanced and held comes out once."""
        segments = self._deliver(self._processor.flush())
        segments.extend(self.buffer.flush_pending(for_tool_call=False))
        segments.extend(self.buffer.flush())
        return segments

    def _absorb(self, events: Iterable[StreamEvent]) -> list[Segment]:
        segments: list[Segment] = []
        for event in events:
            self.events_seen += 1
            segments.extend(self._deliver(self._processor.feed(event)))
        return segments

    def _deliver(self, chunks: Iterable[ProcessedChunk]) -> list[Segment]:
        segments: list[Segment] = []
        for chunk in chunks:
            if chunk.thoughts:
                self.thoughts.extend(chunk.thoughts)
            match chunk:
                case TextChunk():
                    if chunk.content:
                        segments.extend(self.buffer.feed(chunk.content))
                case FunctionCallChunk():
                    self.calls.append(chunk.call)
                case DoneChunk() | ErrorChunk():
                    self.end = chunk
        return segments


def pipeline_for(
    request: TurnRequest, target: Target, attempt: int, secrets: Iterable[Secret] = ()
) -> Pipeline:
    """The rooms of one attempt at `target`, as the worker and replay build them.

    Args:
        request: the turn.
        target: the turn's own target, or a fallback.
        attempt: the number that its segments carry.
        secrets: what the attempt sends, kept out of error messages.
    """
    row = resolve(target.provider)
    names = tuple(tool.name for tool in request.tools)
    normalizer = normalizer_for(target.provider, target.model, names, target.api)
    processor = ChunkProcessor(
        provider=target.provider,
        model=target.model,
        tools=request.tools,
        verbatim_tools=row.quirks.verbatim_tools,
        custom_endpoint=is_custom(row),
        meta=lambda: normalizer.meta,
        secrets=secrets,
    )
    buffer = SegmentBuffer(request.turn_id, attempt, mode=DeliveryMode(request.delivery_mode))
    return Pipeline(normalizer=normalizer, processor=processor, buffer=buffer)

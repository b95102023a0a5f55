"""Bytes of a provider's responses in, segments out: the three rooms in a row.

Pure: the driver feeds bytes, gives ticks and ends it, `ops.replay` does the same from a recording,
so that a normalization bug is reproduced exactly.

An attempt has one round, or, where the model calls tools, several: each answer has a normalizer and
a chunk processor of its own, and the segments of all of them count on in one buffer.
"""

from collections.abc import Callable, Iterable, Sequence

from shared.causes import Cause
from shared.messages import Message, ToolCallBlock
from shared.recording import Asked, Carried, Dropped, Entry, Received, Ticked
from shared.secrets import Secret
from shared.segments import DeliveryMode, Segment
from shared.turns import StopReason, Target, TurnRequest
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
from worker.failures.classify import error_of
from worker.normalize.events import Done, StreamEvent, TextDelta
from worker.normalize.normalizer import StreamNormalizer
from worker.providers.quirks import is_custom, resolve
from worker.providers.rounds import answer_message
from worker.providers.streams import normalizer_for
from worker.segments.buffer import SegmentBuffer
from worker.segments.cleaning import Cleaning
from worker.turn.pictures import Picture, pictures_of
from worker.turn.shown import Seams
from worker.turn.sources import Source, sources_line, sources_of
from worker.turn.words import PLAIN_WORDS, Words

MAX_SAID_CHARS = 4 * 1024 * 1024
"""Of text and reasoning of an attempt: twice the longest reply that a model can give. All of it is
held until the turn ends, in several forms; a response may be far longer, for its pictures."""
MAX_ANSWERS_BYTES = 32 * 1024 * 1024
"""Of an attempt's answers, as they came, while tools run for them: the next request sends again
what they held, and vendors take no more (Anthropic: 32 MB; docs, errors, request size limits)."""

Rooms = Callable[[], tuple[StreamNormalizer, ChunkProcessor]]
"""Makes the first two rooms for one answer."""


class Pipeline:
    """One attempt's rooms.

    After an answer ended, `end` holds its terminal chunk, `calls` its tool calls in order; both are
    of the current round. `thoughts`, `events_seen` (what the provider meaningfully sent) and
    `pictures`, the bytes of those that segments name, are the attempt's. `observe`, where set, is
    shown everything that passes between the rooms.
    """

    __slots__ = (
        "_came_bytes",
        "_cited_chars",
        "_done",
        "_kept_chars",
        "_make_rooms",
        "_normalizer",
        "_processor",
        "_said_chars",
        "_seams",
        "_sources",
        "_words",
        "buffer",
        "calls",
        "end",
        "events_seen",
        "observe",
        "pictures",
        "thoughts",
    )

    def __init__(self, *, rooms: Rooms, buffer: SegmentBuffer, words: Words) -> None:
        self._make_rooms = rooms
        self._words = words
        self.pictures: dict[str, bytes] = {}
        self._sources: list[Source] = []
        self.buffer = buffer
        self.thoughts: list[Thought] = []
        self.events_seen = 0
        self.observe: Callable[[StreamEvent | ProcessedChunk], None] | None = None
        self._said_chars = 0  # of the rounds before this one
        self._kept_chars = 0  # text and reasoning of all rounds
        self._came_bytes = 0  # of all rounds
        self.next_round()

    @property
    def normalizer(self) -> StreamNormalizer:
        """The first room of this round, for its `meta`."""
        return self._normalizer

    @property
    def stop_reason(self) -> StopReason:
        """Why the model stopped in this round, as far as the stream said."""
        word = (self.end.metadata or {}).get("stop_reason") if self.end is not None else None
        return StopReason(word) if isinstance(word, str) and word in _STOP_WORDS else _UNKNOWN

    @property
    def goes_on(self) -> bool:
        """The answer is no end of the reply: tools are to be called, or the provider paused."""
        is_whole = isinstance(self.end, DoneChunk)
        return is_whole and (bool(self.calls) or self.stop_reason is StopReason.PAUSE)

    @property
    def said(self) -> str:
        """The visible text of this round, for the history; a line of ours is not of it."""
        text = "".join(self.buffer.history)
        return text[self._said_chars : len(text) - self._cited_chars]

    @property
    def sources(self) -> list[Source]:
        """The pages that this round's answer cites, once it is whole."""
        if self._done is None:
            return []
        return sources_of(self._done.content, self._normalizer.meta.grounding)

    def answer(self, target: Target) -> Message:
        """This round's answer for the history: reasoning and calls byte for byte, text as shown.

        Raises:
            RuntimeError: the answer is not whole.
        """
        if self._done is None:
            raise RuntimeError("an answer without its end has no place in a history")
        encrypted = self._normalizer.meta.reasoning_encrypted
        shown = self._seams.texts(self.said, self._done.content)
        message = answer_message(target, self._done, shown=shown, encrypted=encrypted)
        blocks = message.content if isinstance(message.content, list) else []
        known = {block.id for block in blocks if isinstance(block, ToolCallBlock)}
        # Calls that stood in the prose are no blocks of the provider's answer.
        found = [_block_of(call) for call in self.calls if call.id not in known]
        return Message(
            role=message.role,
            content=[*blocks, *found],
            provider=message.provider,
            model=message.model,
            stop_reason=message.stop_reason,
        )

    def next_round(self) -> None:
        """Begins the next answer. The last one was flushed."""
        self._said_chars = sum(map(len, self.buffer.history))
        self._cited_chars = 0  # of the line of sources at its end
        self._seams = Seams()
        self._normalizer, self._processor = self._make_rooms()
        self._done: Done | None = None
        self.calls: list[FunctionCall] = []
        self.end: DoneChunk | ErrorChunk | None = None

    def carry(
        self,
        text: str,
        *,
        trims: bool,
        pictures: Iterable[Picture] = (),
        sources: Iterable[Source] = (),
    ) -> list[Segment]:
        """Shows a round that an earlier attempt had completed, cut as it was then.

        Its pictures and sources are in no recording: a replay shows its text alone.
        """
        self._sources += sources
        segments = self.buffer.feed(text)
        segments.extend(self.buffer.flush_pending(for_tool_call=trims))
        segments.extend(self._show(pictures))
        self._said_chars = sum(map(len, self.buffer.history))
        return segments

    def play(self, entry: Entry) -> list[Segment]:
        """Does what the driver did, by an entry of its recording; `flush` ends the last round."""
        match entry:
            case Received(data=data):
                return self.feed(data)
            case Ticked(at_s=now_s):
                return self.tick(now_s)
            case Asked():
                if not self.events_seen:
                    return []
                segments = self.flush()
                self.next_round()
                return segments
            case Carried(text=text, trims=trims):
                return self.carry(text, trims=trims)
            case Dropped():
                return []

    def feed(self, data: bytes) -> list[Segment]:
        """Takes bytes of the response body, cut anywhere."""
        self._came_bytes += len(data)
        return self._absorb(self._normalizer.feed(data))

    def tick(self, now_s: float) -> list[Segment]:
        """Lets holds expire; `now_s` is the driver's monotonic clock."""
        segments = self._deliver(self._processor.tick(now_s))
        segments.extend(self.buffer.tick(now_s))
        return segments

    def flush(self) -> list[Segment]:
        """Ends the stream: what is held comes out, and `end` is set.

        Before a tool runs a half sentence stays in the history; the model says it again.
        """
        segments = self._absorb(self._normalizer.flush())
        segments.extend(self._deliver(self._processor.flush()))
        if self.goes_on and self._came_bytes > MAX_ANSWERS_BYTES:
            self._end_at(f"the rounds of the reply are longer than {MAX_ANSWERS_BYTES} bytes")
        self._sources += self.sources
        if self.goes_on:
            segments.extend(self.buffer.flush_pending(for_tool_call=bool(self.calls)))
            segments.extend(self._attach(self._done))
            if self.buffer.stopped:
                self._end_early()
            return segments
        if isinstance(self.end, DoneChunk):
            segments.extend(self._attach(self._done))
            segments.extend(self._cite())
        segments.extend(self.buffer.flush())
        return segments

    def stop(self) -> list[Segment]:
        """Ends by the user's stop: what is balanced and held comes out once."""
        segments = self._deliver(self._processor.flush())
        segments.extend(self.buffer.flush_pending(for_tool_call=False))
        segments.extend(self.buffer.flush())
        return segments

    def _attach(self, done: Done | None) -> list[Segment]:
        """Puts the pictures of an answer below its text."""
        return self._show(pictures_of(done.content)) if done is not None else []

    def _show(self, pictures: Iterable[Picture]) -> list[Segment]:
        segments: list[Segment] = []
        for picture in pictures:
            self.pictures[picture.id] = picture.data
            segments.extend(
                self.buffer.attach(picture.id, filename=picture.name, note=self._words.picture)
            )
        return segments

    def _cite(self) -> list[Segment]:
        """Puts the sources under a reply that is whole."""
        line = sources_line(dict.fromkeys(self._sources), self._words.sources)
        if not line or not self.buffer.history:
            return []
        # Flushed first: an open code block or table would swallow the line.
        segments = self.buffer.flush_pending(for_tool_call=False)
        segments.extend(self.buffer.feed(line))
        self._cited_chars = len(line)
        return segments

    def _absorb(self, events: Iterable[StreamEvent]) -> list[Segment]:
        segments: list[Segment] = []
        for event in events:
            if self.end is not None:
                break  # else more would be read the coarser the network cuts
            self.events_seen += 1
            if isinstance(event, TextDelta):
                if event.index != self._seams.index:
                    self._seams.begin(event.index)
            elif isinstance(event, Done):
                self._done = event
            if self.observe is not None:
                self.observe(event)
            segments.extend(self._deliver(self._processor.feed(event)))
        return segments

    def _deliver(self, chunks: Iterable[ProcessedChunk]) -> list[Segment]:
        segments: list[Segment] = []
        for chunk in chunks:
            if self.end is not None:
                break  # a reply that the speaker guard ended is whole, whatever follows
            if self.observe is not None:
                self.observe(chunk)
            if chunk.thoughts:
                self._keep_thoughts(chunk.thoughts)
            match chunk:
                case TextChunk():
                    if chunk.content:
                        segments.extend(self._show_text(chunk.content))
                case FunctionCallChunk():
                    self.calls.append(chunk.call)
                case DoneChunk() | ErrorChunk():
                    self.end = chunk
        return segments

    def _show_text(self, text: str) -> list[Segment]:
        self._kept_chars += len(text)
        self._seams.grow(len(text))
        segments = self.buffer.feed(text)
        if self.buffer.stopped:
            self._end_early()
        elif self._kept_chars > MAX_SAID_CHARS:
            self._end_at(_TOO_LONG)
        return segments

    def _keep_thoughts(self, thoughts: Sequence[Thought]) -> None:
        self._kept_chars += sum(len(thought.content) for thought in thoughts)
        self.thoughts.extend(thoughts)
        if self._kept_chars > MAX_SAID_CHARS:
            self._end_at(_TOO_LONG)

    def _end_at(self, limit: str) -> None:
        """Ends the reply at a limit of ours."""
        self.end = ErrorChunk(error=error_of(Cause.LIMIT_EXCEEDED, message=limit))

    def _end_early(self) -> None:
        """Ends the reply where the model began to speak for somebody else: the rest is not read.

        Nor does a call run that the model made after it: no request would follow its result.
        """
        self.calls = []
        self.end = DoneChunk(metadata={"stop_reason": StopReason.STOP.value})


def pipeline_for(
    request: TurnRequest,
    target: Target,
    attempt: int,
    secrets: Iterable[Secret] = (),
    *,
    words: Words = PLAIN_WORDS,
) -> Pipeline:
    """The rooms of one attempt at `target`, as the worker and replay build them.

    Args:
        request: the turn.
        target: the turn's own target, or a fallback.
        attempt: the number that its segments carry.
        secrets: what the attempt sends, kept out of error messages.
        words: what turnfleet itself puts into the reply.
    """
    row = resolve(target.provider)
    names = tuple(tool.name for tool in request.tools)
    hidden = tuple(secrets)

    def rooms() -> tuple[StreamNormalizer, ChunkProcessor]:
        normalizer = normalizer_for(target.provider, target.model, names, target.api)
        processor = ChunkProcessor(
            provider=target.provider,
            model=target.model,
            tools=request.tools,
            verbatim_tools=row.quirks.verbatim_tools,
            custom_endpoint=is_custom(row),
            meta=lambda: normalizer.meta,
            secrets=hidden,
        )
        return normalizer, processor

    buffer = SegmentBuffer(
        request.turn_id,
        attempt,
        mode=DeliveryMode(request.delivery_mode),
        cleaning=_cleaning(request),
    )
    return Pipeline(rooms=rooms, buffer=buffer, words=words)


def _cleaning(request: TurnRequest) -> Cleaning:
    """What is known of the channel, from the request alone: a recording plays the same again."""
    reading = request.reading
    if reading is None:
        return Cleaning()
    return Cleaning(
        own_names=(reading.own_name,) if reading.own_name else (),
        speakers=reading.speakers,
        emoji=dict(reading.emoji),
        members={name.lower(): user_id for name, user_id in reading.members},
    )


def _block_of(call: FunctionCall) -> ToolCallBlock:
    return ToolCallBlock(
        id=call.id,
        name=call.name,
        arguments=call.args,
        arguments_truncated=call.arguments_truncated,
        thought_signature=call.thought_signature,
    )


_STOP_WORDS = frozenset(StopReason)
_TOO_LONG = f"the text and the reasoning of a reply are longer than {MAX_SAID_CHARS} characters"
_UNKNOWN = StopReason.UNKNOWN

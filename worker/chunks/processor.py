"""The chunk room: canonical events to processed chunks (seed 000).

Comes in: `StreamEvent`s of one stream, in order. Goes out: `ProcessedChunk`s, the last of them
`done` or `error`. Pure; built by the driver and by replay, one for each attempt.

Visible text runs through the guards in this order: deduplication (it looks at the provider's
deltas), think tags and channels, spilled reasoning, calls written into prose. Each holds a bounded
piece of text, gives it out by size, `tick` or the end, and reorders nothing. But for deduplication
and closers without an opener the result does not depend on where deltas end.
"""

from collections.abc import Callable, Iterable
from typing import assert_never

import msgspec

from shared.causes import Cause
from shared.failures import ProviderError, ProviderFault
from shared.messages import ToolCallBlock
from shared.secrets import Secret
from shared.turns import StopReason, ToolSpec
from worker.chunks.dedup import Deduplicator
from worker.chunks.diagnostics import ChunkDiagnostics
from worker.chunks.pieces import Called, Piece, Reasoned, Visible
from worker.chunks.spill_guard import SpillGuard
from worker.chunks.think_tags import ThinkTagStripper
from worker.chunks.tool_arguments import call_of_block, call_of_prose
from worker.chunks.types import (
    DoneChunk,
    ErrorChunk,
    FunctionCall,
    FunctionCallChunk,
    ProcessedChunk,
    TextChunk,
    Thought,
    ThoughtKind,
)
from worker.chunks.verbatim_calls import VerbatimCallParser
from worker.failures.classify import OWN_CODES, classify, error_of
from worker.normalize.events import (
    Done,
    Start,
    StreamEvent,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from worker.normalize.meta import Meta

SUMMARIZING_PROVIDERS = frozenset({"google", "vertex", "vertexexpress", "openai", "azure"})
"""Providers that send summaries of the reasoning, never the reasoning itself."""
PARAGRAPH = "\n\n"
"""What stands between two text blocks that a call, reasoning or a new message parts."""


class ChunkProcessor:
    """One attempt's stream.

    After the terminal event `feed`, `tick` and `flush` return `[]`; after `flush`, `feed` raises.

    Args:
        provider, model: of the target, for classification and the kind of thoughts.
        tools: the exposed tools.
        verbatim_tools: look for calls in the prose (custom endpoints, flagged models).
        thoughts: what reasoning is at this provider; None lets the provider decide.
        custom_endpoint: the target is an endpoint that a user configured.
        meta: gives the normalizer's side data, which is whole after its terminal event.
        secrets: what this attempt sent, kept out of error messages.
    """

    def __init__(
        self,
        *,
        provider: str,
        model: str,
        tools: Iterable[ToolSpec] = (),
        verbatim_tools: bool = False,
        thoughts: ThoughtKind | None = None,
        custom_endpoint: bool = False,
        meta: Callable[[], Meta] = Meta,
        secrets: Iterable[Secret | str] = (),
    ) -> None:
        specs = tuple(tools)
        summarizes = provider in SUMMARIZING_PROVIDERS
        self._provider, self._model = provider, model
        self._custom_endpoint = custom_endpoint
        self._meta = meta
        self._secrets = tuple(secrets)
        self._kind = thoughts or (ThoughtKind.SUMMARY if summarizes else ThoughtKind.RAW)
        self._dedup = Deduplicator()
        self._tags = ThinkTagStripper([spec.name for spec in specs] if verbatim_tools else ())
        self._spill = SpillGuard()
        self._prose = VerbatimCallParser(specs) if verbatim_tools and specs else None
        self._old_hold = -1  # of the prose parser: it began before the last block of reasoning
        self._called: list[Called] = []
        self._text_index = -1  # the text block of the last delta
        self._last_index = -1  # the block of the last event
        self._last_char = ""  # of the text that went into the guards
        self._has_text = False
        self._has_reasoning = False
        self._is_over = False
        self._is_flushed = False

    @property
    def diagnostics(self) -> ChunkDiagnostics:
        """What the guards did so far; whole after the terminal event."""
        return ChunkDiagnostics(
            dropped_chars=self._dedup.dropped_chars,
            think_blocks=self._tags.stripped,
            orphan_closers=self._tags.orphans,
            unclosed_think=self._tags.unclosed,
            spilled_chars=self._spill.stripped_chars,
            prose_calls=len(self._called),
        )

    def feed(self, event: StreamEvent) -> list[ProcessedChunk]:
        """Takes one event and returns the chunks that are certain.

        Raises:
            RuntimeError: the stream was flushed.
        """
        if self._is_flushed:
            raise RuntimeError("feed after flush: make a new processor for a new stream")
        if self._is_over:
            return []
        match event:
            case TextDelta():
                return self._chunks(self._text_delta(event))
            case ThinkingDelta():
                self._last_index = event.index
                return self._reasoned(event.delta) if event.delta else []
            case ToolCallDelta():
                self._last_index = event.index
                self._dedup.arm_seam()
                return []
            case Done():
                return self._done(event)
            case StreamFailed():
                return self._failed(event)
            case Start():
                return []
            case _:
                assert_never(event)

    def tick(self, now_s: float) -> list[ProcessedChunk]:
        """Gives out what is held too long; `now_s` is the driver's monotonic clock."""
        if self._is_over or self._is_flushed:
            return []
        pieces = self._through_tags(self._dedup.tick(now_s))
        pieces += self._through_spill(self._tags.tick(now_s))
        pieces += self._through_prose(self._spill.tick(now_s))
        if self._prose is not None:
            pieces += self._prose.tick(now_s)
        return self._chunks(pieces)

    def flush(self) -> list[ProcessedChunk]:
        """Ends a stream that the driver stopped: what is held comes out, without a last chunk."""
        if self._is_flushed:
            return []
        self._is_flushed = True
        if self._is_over:
            return []
        self._is_over = True
        return self._chunks(self._rest(dropping=True))

    # ------------------------------------------------------------------------------ stages

    def _text_delta(self, event: TextDelta) -> list[Piece]:
        dropped = self._dedup.dropped_chars
        new = self._dedup.feed(event.delta)
        goes_on = event.index == self._text_index or self._dedup.dropped_chars > dropped
        pieces: list[Piece] = []
        if not goes_on and self._is_parted(event.index, new):
            pieces = self._through_tags(PARAGRAPH)
        self._text_index = self._last_index = event.index
        return pieces + self._through_tags(new)

    def _is_parted(self, index: int, new: str) -> bool:
        """Whether a new text block needs a paragraph before it: nothing else parts the two."""
        if self._text_index < 0:
            return False
        follows_text = self._last_index == self._text_index == index - 1
        if follows_text and index not in self._meta().message_starts:
            return False
        return bool(new) and not new[0].isspace() and not self._last_char.isspace()

    def _through_tags(self, text: str) -> list[Piece]:
        if not text:
            return []
        self._last_char = text[-1]
        pieces = self._tags.feed(text)
        held = [self._retracted()] if self._tags.reaches_back else []
        return held + self._through_spill(pieces)

    def _retracted(self) -> Piece:
        """What later guards still hold goes to a closer without an opener."""
        held = self._spill.retract()
        if self._prose is not None and self._prose.hold != self._old_hold:
            held = self._prose.retract() + held
        return Reasoned(held)

    def _through_spill(self, pieces: list[Piece]) -> list[Piece]:
        if self._spill.is_over and self._prose is None:
            return pieces
        result: list[Piece] = []
        for piece in pieces:
            if isinstance(piece, Visible):
                result += self._through_prose(self._spill.feed(piece.text))
            else:  # a block ends what stood before it, which must not be said after it
                result += self._through_prose(self._spill.flush())
                self._old_hold = self._prose.hold if self._prose is not None else -1
                result.append(piece)
        return result

    def _through_prose(self, pieces: list[Piece]) -> list[Piece]:
        if self._prose is None:
            return pieces
        result: list[Piece] = []
        for piece in pieces:
            if isinstance(piece, Visible):
                result += self._prose.feed(piece.text)
            else:
                result.append(piece)
        return result

    def _rest(self, *, dropping: bool) -> list[Piece]:
        """What the guards still hold, in order."""
        pieces = self._through_tags(self._dedup.flush())
        pieces += self._through_spill(self._tags.flush(dropping=dropping))
        pieces += self._through_prose(self._spill.flush())
        if self._prose is not None:
            pieces += self._prose.flush(dropping=dropping)
        return pieces

    # ------------------------------------------------------------------------------ chunks

    def _chunks(self, pieces: Iterable[Piece]) -> list[ProcessedChunk]:
        chunks: list[ProcessedChunk] = []
        for piece in pieces:
            match piece:
                case Visible(text=text):
                    chunks += self._said(text)
                case Reasoned(text=text):
                    chunks += self._thought(text, ThoughtKind.RAW) if text else []
                case Called():
                    self._called.append(piece)
                case _:
                    assert_never(piece)
        return chunks

    def _said(self, text: str) -> list[ProcessedChunk]:
        self._has_text = self._has_text or not text.isspace()
        return [TextChunk(content=text, serving_provider=self._meta().serving_provider)]

    def _reasoned(self, text: str) -> list[ProcessedChunk]:
        """Reasoning of the provider's own ends what stood before it, as a block in tags does."""
        held = self._chunks(self._through_prose(self._spill.flush()))
        self._spill.note_reasoning(text)
        return held + self._thought(text, self._kind)

    def _thought(self, text: str, kind: ThoughtKind) -> list[ProcessedChunk]:
        self._has_reasoning = True
        thought = Thought(kind=kind, content=text)
        return [TextChunk(thoughts=(thought,), serving_provider=self._meta().serving_provider)]

    def _done(self, event: Done) -> list[ProcessedChunk]:
        chunks = self._chunks(self._rest(dropping=False))
        self._is_over = True
        meta = self._meta()
        stop = event.stop_reason
        calls = [] if stop is StopReason.CONTENT_FILTER else self._calls(event, meta)
        if stop is StopReason.STOP and calls:
            stop = StopReason.TOOL_USE
        for call in calls:
            chunks.append(FunctionCallChunk(call=call, serving_provider=meta.serving_provider))
        chunks += self._usage(event.usage, meta)
        metadata = self._end_metadata(stop.value, event.usage, meta)
        metadata["empty_reply"] = not self._has_text and not calls
        if stop is StopReason.CONTENT_FILTER and not self._has_text:
            cause = Cause.PROMPT_BLOCKED if meta.block_reason else Cause.CONTENT_FILTER
            error = error_of(cause, code=meta.block_reason or meta.raw_stop_reason)
            return [*chunks, self._error(error, metadata, meta)]
        host = meta.serving_provider
        return [*chunks, DoneChunk(metadata=metadata, serving_provider=host)]

    def _calls(self, event: Done, meta: Meta) -> list[FunctionCall]:
        """Native calls first, then those of the prose, whose place among lost events is unknown."""
        calls = [
            call_of_block(block, meta.argument_states)
            for block in event.content
            if isinstance(block, ToolCallBlock)
        ]
        for number, called in enumerate(self._called):
            has_hole = meta.skipped > 0
            calls.append(call_of_prose(called, number, meta.response_id, has_hole=has_hole))
        return calls

    def _failed(self, event: StreamFailed) -> list[ProcessedChunk]:
        chunks = self._chunks(self._rest(dropping=True))
        self._is_over = True
        meta = self._meta()
        error = classify(self._fault(event, meta), self._secrets)
        if error.serving_provider is None and meta.serving_provider is not None:
            error = msgspec.structs.replace(error, serving_provider=meta.serving_provider)
        metadata = self._end_metadata("error", meta.usage, meta)
        return [*chunks, *self._usage(meta.usage, meta), self._error(error, metadata, meta)]

    def _fault(self, event: StreamFailed, meta: Meta) -> ProviderFault:
        reason, body = event.reason, meta.error_body
        is_own = reason.code in OWN_CODES and body in (
            None,
            {"code": reason.code, "message": reason.message},
        )
        return ProviderFault(
            provider=self._provider,
            model=self._model,
            status=reason.status or 0,
            code=reason.code,
            message=reason.message,
            body="" if is_own else _as_text(body),
            custom_endpoint=self._custom_endpoint,
        )

    @staticmethod
    def _error(error: ProviderError, metadata: dict[str, object], meta: Meta) -> ErrorChunk:
        return ErrorChunk(error=error, metadata=metadata, serving_provider=meta.serving_provider)

    @staticmethod
    def _usage(usage: dict[str, int | float], meta: Meta) -> list[ProcessedChunk]:
        """The seed's trailing usage, on an empty text chunk before the last one."""
        if not usage:
            return []
        return [TextChunk(metadata={"usage": dict(usage)}, serving_provider=meta.serving_provider)]

    def _end_metadata(
        self, stop_reason: str, usage: dict[str, int | float], meta: Meta
    ) -> dict[str, object]:
        metadata: dict[str, object] = {
            "stop_reason": stop_reason,
            "raw_stop_reason": meta.raw_stop_reason,
            "usage": dict(usage),
            "reasoning_present": self._has_reasoning,
            "response_id": meta.response_id,
        }
        found = self.diagnostics.found()
        if meta.skipped:
            found["skipped_events"] = meta.skipped
        if found:
            metadata["diagnostics"] = found
        return metadata


def _as_text(body: object) -> str:
    if body is None or isinstance(body, str):
        return body or ""
    return msgspec.json.encode(body).decode()

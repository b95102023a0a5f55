"""What the chunk room gives: the seed's four kinds of `ProcessedChunk`.

Comes in: nothing. Goes out: values for the turn loop. Pure.
"""

from enum import StrEnum

import msgspec

from shared.failures import ProviderError
from shared.messages import ArgumentState as ArgumentState
from shared.private import told_by_size


class ThoughtKind(StrEnum):
    """Raw reasoning, or a provider's summary of it."""

    RAW = "raw"
    SUMMARY = "summary"


class Thought(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the thought log. Never shown in a channel unless the guild allows it."""

    __repr__ = told_by_size

    kind: ThoughtKind
    content: str


class FunctionCall(msgspec.Struct, frozen=True, kw_only=True):
    """A normalized tool call."""

    __repr__ = told_by_size

    id: str
    name: str
    args: dict[str, object]
    state: ArgumentState = ArgumentState.OK
    thought_signature: str | None = None

    @property
    def arguments_truncated(self) -> bool:
        """The seed's one flag: true for every state but ok."""
        return self.state is not ArgumentState.OK


class _Chunk(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    __repr__ = told_by_size

    thoughts: tuple[Thought, ...] = ()
    serving_provider: str | None = None
    metadata: dict[str, object] | None = None


class TextChunk(_Chunk, frozen=True, kw_only=True, tag="text"):
    """A visible text delta; empty where only thoughts or trailing usage are carried."""

    content: str = ""


class FunctionCallChunk(_Chunk, frozen=True, kw_only=True, tag="function_call"):
    """A complete call, released when the stream ended."""

    call: FunctionCall


class ErrorChunk(_Chunk, frozen=True, kw_only=True, tag="error"):
    """The stream failed, classified."""

    error: ProviderError


class DoneChunk(_Chunk, frozen=True, kw_only=True, tag="done"):
    """The stream ended; `metadata` has stop_reason, the raw finish word, usage, diagnostics."""


ProcessedChunk = TextChunk | FunctionCallChunk | ErrorChunk | DoneChunk

"""The canonical events of a model's stream, in the seed's names.

Comes in: nothing. Goes out: the vocabulary between `normalize`, `chunks` and replay. Pure; every
room of the worker may import it.
"""

import msgspec

from shared.messages import ContentBlock
from shared.turns import StopReason


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", gc=False):
    pass


class Start(_Event, frozen=True, kw_only=True, tag="start", gc=False):
    """The stream began: once, before any delta. `model` is what the provider reports."""

    model: str
    provider: str


class TextDelta(_Event, frozen=True, kw_only=True, tag="text_delta", gc=False):
    """Visible text of block `index`; `delta` is never empty."""

    index: int
    delta: str


class ThinkingDelta(_Event, frozen=True, kw_only=True, tag="thinking_delta", gc=False):
    """Reasoning of block `index`; `delta` is empty only where a signature comes."""

    index: int
    delta: str
    signature: str | None = None


class FaultReason(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Raw facts of a failure in the stream. The category is the classifier's."""

    code: str | None = None
    message: str | None = None
    status: int | None = None


class Done(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="done"):
    """The terminal event of a stream that ended by itself. `content[i]` has index `i`."""

    stop_reason: StopReason
    content: list[ContentBlock]
    usage: dict[str, int | float]


class StreamFailed(_Event, frozen=True, kw_only=True, tag="error", gc=False):
    """The terminal event of a stream that failed."""

    reason: FaultReason

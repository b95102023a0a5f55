"""The canonical events of a model's stream, in the seed's names.

Comes in: nothing. Goes out: the vocabulary between `normalize`, `chunks` and replay. Pure; every
room of the worker may import it.
"""

import msgspec

from shared.messages import ContentBlock, ToolCallBlock
from shared.private import told_by_size
from shared.turns import StopReason
from worker.normalize.partial_json import ArgumentText


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", gc=False):
    __repr__ = told_by_size


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


class ToolCallDelta(_Event, frozen=True, kw_only=True, tag="toolcall_delta", gc=False, eq=False):
    """A fragment of a call's arguments. The first announces `id` and `name`, which never change.

    Args:
        text: the call's whole argument text, shared by all its events; it grows after this event.
        end: how many characters of `text` there were with this event.
    """

    index: int
    id: str
    name: str
    raw_json_delta: str
    text: ArgumentText
    end: int

    @property
    def partial_args(self) -> dict[str, object]:
        """The arguments so far, best effort: to look at, never to run.

        Parsed when it is first read, since most readers never do: parsing at each delta is
        quadratic in the argument's length.
        """
        return self.text.view(self.end)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolCallDelta) and self._facts() == other._facts()

    def __hash__(self) -> int:
        return hash(self._facts())

    def _facts(self) -> tuple[int, str, str, str, str]:
        return (self.index, self.id, self.name, self.raw_json_delta, self.text.upto(self.end))


class FaultReason(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Raw facts of a failure in the stream. The category is the classifier's."""

    __repr__ = told_by_size

    code: str | None = None
    message: str | None = None
    status: int | None = None


class Done(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="done"):
    """The terminal event of a stream that ended by itself. `content[i]` has index `i`."""

    __repr__ = told_by_size

    stop_reason: StopReason
    content: list[ContentBlock]
    usage: dict[str, int | float]


class StreamFailed(_Event, frozen=True, kw_only=True, tag="error", gc=False):
    """The terminal event of a stream that failed."""

    reason: FaultReason


StreamEvent = Start | TextDelta | ThinkingDelta | ToolCallDelta | Done | StreamFailed


def event_fields(event: StreamEvent) -> dict[str, object]:
    """The event as the seed writes it: `type` and its fields, those with a default value too."""
    if isinstance(event, ToolCallDelta):
        names = ("index", "id", "name", "raw_json_delta", "partial_args")
        return {"type": "toolcall_delta", **{name: getattr(event, name) for name in names}}
    fields: dict[str, object] = msgspec.to_builtins(event)
    if isinstance(event, Done):
        fields["content"] = [_block_fields(block) for block in event.content]
    elif isinstance(event, StreamFailed):
        fields["reason"] = {"code": None, **msgspec.to_builtins(event.reason)}
    return fields


def _block_fields(block: ContentBlock) -> dict[str, object]:
    fields: dict[str, object] = msgspec.to_builtins(block)
    return {"arguments": {}, **fields} if isinstance(block, ToolCallBlock) else fields

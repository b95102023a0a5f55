"""A conversation as values: messages and their content blocks, in the seeds' field names.

Comes in: JSON of a turn request, or what a normalizer assembled. Goes out: the same values, to
request builders and the sanitizer. Pure; anyone may import it.
"""

from enum import StrEnum

import msgspec

from shared.private import told_by_size


class Role(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class ArgumentState(StrEnum):
    """What may be done with a call's arguments: only `OK` is ever dispatched.

    `TRUNCATED` holds what was finished before the cut; `INVALID` is no JSON, `NOT_OBJECT` complete
    JSON of another kind: both hold nothing.
    """

    OK = "ok"
    TRUNCATED = "truncated"
    INVALID = "invalid"
    NOT_OBJECT = "not_object"


class _Block(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="type",
    rename="camel",
    omit_defaults=True,
):
    __repr__ = told_by_size


class TextBlock(_Block, frozen=True, kw_only=True, tag="text"):
    """Visible text. `text_signature`, `item_id`, `phase` and `citations` belong to its provider."""

    text: str
    text_signature: str | None = None
    item_id: str | None = None
    phase: str | None = None
    citations: list[object] | None = None
    provider: str | None = None
    model: str | None = None


class ThinkingBlock(_Block, frozen=True, kw_only=True, tag="thinking"):
    """Reasoning. A signed block is sent back byte for byte, to the model that made it only."""

    thinking: str
    thinking_signature: str | None = None
    redacted: bool = False
    provider: str | None = None
    model: str | None = None


class ToolCallBlock(_Block, frozen=True, kw_only=True, tag="toolCall"):
    """A call that the model asked for. `arguments_truncated` stands for every state but ok."""

    id: str
    name: str
    arguments: object = msgspec.field(default_factory=dict)
    arguments_truncated: bool = False
    thought_signature: str | None = None
    item_id: str | None = None
    provider: str | None = None
    model: str | None = None


class ImageBlock(_Block, frozen=True, kw_only=True, tag="image"):
    """An image: base64 `data`, or a `url` that the worker fetches at claim."""

    mime_type: str
    data: str | None = None
    url: str | None = None


class OpaqueBlock(_Block, frozen=True, kw_only=True, tag="opaque"):
    """A provider's own block (server tools, compaction), kept for replay to that provider alone."""

    provider: str
    raw: object
    model: str | None = None


ContentBlock = TextBlock | ThinkingBlock | ToolCallBlock | ImageBlock | OpaqueBlock


class Message(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One message. A missing `provider` or `model` counts as foreign to every target.

    `tool_call_id`, `tool_name`, `is_error`, `synthetic` are set on messages of role `tool` only.
    """

    __repr__ = told_by_size

    role: Role
    content: str | list[ContentBlock]
    provider: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    is_error: bool | None = None
    synthetic: bool | None = None

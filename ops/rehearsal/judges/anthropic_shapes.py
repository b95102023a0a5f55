"""The shape of a Messages request, as Anthropic's API reference has it.

Comes in: nothing. Goes out: Structs that refuse unknown fields
(docs.anthropic.com/en/api/messages). Only the judge of messages imports it.
"""

from typing import Annotated, Literal

import msgspec


class _Shape(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    pass


class _Block(_Shape, tag_field="type", kw_only=True):
    pass


class CacheControl(_Shape, kw_only=True):
    """A breakpoint of the prompt cache."""

    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | None = None


class TextBlock(_Block, tag="text", kw_only=True):
    """Text."""

    text: str
    citations: list[dict[str, object]] | None = None
    cache_control: CacheControl | None = None


class Base64Source(_Block, tag="base64", kw_only=True):
    """The bytes of an image."""

    media_type: Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
    data: str


class UrlSource(_Block, tag="url", kw_only=True):
    """The address of an image."""

    url: str


class ImageBlock(_Block, tag="image", kw_only=True):
    """An image."""

    source: Base64Source | UrlSource
    cache_control: CacheControl | None = None


class ToolUseBlock(_Block, tag="tool_use", kw_only=True):
    """A call of the model."""

    id: str
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    input: dict[str, object]
    cache_control: CacheControl | None = None


class ToolResultBlock(_Block, tag="tool_result", kw_only=True):
    """The result of a call."""

    tool_use_id: str
    content: str | list[TextBlock | ImageBlock] | None = None
    is_error: bool = False
    cache_control: CacheControl | None = None


class ThinkingBlock(_Block, tag="thinking", kw_only=True):
    """Signed reasoning."""

    thinking: str
    signature: str


class RedactedBlock(_Block, tag="redacted_thinking", kw_only=True):
    """Encrypted reasoning."""

    data: str


class ServerToolUseBlock(_Block, tag="server_tool_use", kw_only=True):
    """A call that the vendor made itself."""

    id: str
    name: str
    input: dict[str, object] = msgspec.field(default_factory=dict)
    cache_control: CacheControl | None = None


class SearchResultBlock(_Block, tag="web_search_tool_result", kw_only=True):
    """The result of the vendor's own search."""

    tool_use_id: str
    content: object
    cache_control: CacheControl | None = None


Block = (
    TextBlock
    | ImageBlock
    | ToolUseBlock
    | ToolResultBlock
    | ThinkingBlock
    | RedactedBlock
    | ServerToolUseBlock
    | SearchResultBlock
)


class Message(_Shape, kw_only=True):
    """One message."""

    role: Literal["user", "assistant"]
    content: str | list[Block]


class Tool(_Shape, kw_only=True):
    """A tool that the model may call."""

    name: str
    input_schema: dict[str, object]
    description: str | None = None
    type: Literal["custom"] | None = None
    cache_control: CacheControl | None = None


class ThinkingEnabled(_Block, tag="enabled", kw_only=True):
    """Reasoning with a budget."""

    budget_tokens: Annotated[int, msgspec.Meta(ge=1024)]


class ThinkingDisabled(_Block, tag="disabled", kw_only=True):
    """No reasoning."""


class ThinkingAdaptive(_Block, tag="adaptive", kw_only=True):
    """As much reasoning as the model sees fit."""


class OutputConfig(_Shape, kw_only=True):
    """How much the model works on an answer."""

    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None


class MessagesRequest(_Shape, kw_only=True):
    """The body of a request."""

    model: str
    max_tokens: Annotated[int, msgspec.Meta(ge=1)]
    messages: Annotated[list[Message], msgspec.Meta(min_length=1)]
    system: str | list[TextBlock] | None = None
    stream: bool = False
    temperature: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    top_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    top_k: Annotated[int, msgspec.Meta(ge=0)] | None = None
    stop_sequences: list[str] | None = None
    tools: list[Tool] | None = None
    tool_choice: dict[str, object] | None = None
    thinking: ThinkingEnabled | ThinkingDisabled | ThinkingAdaptive | None = None
    output_config: OutputConfig | None = None
    metadata: dict[str, str] | None = None
    service_tier: Literal["auto", "standard_only"] | None = None

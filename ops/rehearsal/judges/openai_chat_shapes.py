"""The shape of a chat completions request, as OpenAI's API reference has it.

Comes in: nothing. Goes out: Structs that refuse unknown fields
(platform.openai.com/docs/api-reference/chat/create). Only the judge of chat completions imports it.
"""

from typing import Annotated, Literal

import msgspec


class _Shape(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    pass


class _Part(_Shape, tag_field="type", kw_only=True):
    pass


class TextPart(_Part, tag="text", kw_only=True):
    """Text of a content list."""

    text: str


class ImageUrl(_Shape, kw_only=True):
    """Address of an image, or a data URL."""

    url: str
    detail: Literal["auto", "low", "high"] = "auto"


class ImagePart(_Part, tag="image_url", kw_only=True):
    """An image of a user message."""

    image_url: ImageUrl


class RefusalPart(_Part, tag="refusal", kw_only=True):
    """What the model declined, sent back."""

    refusal: str


class CalledFunction(_Shape, kw_only=True):
    """Name and arguments (as JSON text) of a call."""

    name: str
    arguments: str


class ToolCall(_Shape, kw_only=True):
    """A call of an assistant message."""

    id: str
    type: Literal["function"]
    function: CalledFunction


class _Message(_Shape, tag_field="role", kw_only=True):
    pass


class SystemMessage(_Message, tag="system", kw_only=True):
    """Instructions."""

    content: str | list[TextPart]
    name: str | None = None


class DeveloperMessage(_Message, tag="developer", kw_only=True):
    """Instructions, for reasoning models."""

    content: str | list[TextPart]
    name: str | None = None


class UserMessage(_Message, tag="user", kw_only=True):
    """What a user said."""

    content: str | Annotated[list[TextPart | ImagePart], msgspec.Meta(min_length=1)]
    name: str | None = None


class AssistantMessage(_Message, tag="assistant", kw_only=True):
    """What the model said and called."""

    content: str | list[TextPart | RefusalPart] | None = None
    refusal: str | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None


class ToolMessage(_Message, tag="tool", kw_only=True):
    """The result of a call."""

    content: str | list[TextPart]
    tool_call_id: str


Message = SystemMessage | DeveloperMessage | UserMessage | AssistantMessage | ToolMessage


class OfferedFunction(_Shape, kw_only=True):
    """A function that the model may call."""

    name: str
    description: str = ""
    parameters: dict[str, object] = msgspec.field(default_factory=dict)
    strict: bool | None = None


class OfferedTool(_Shape, kw_only=True):
    """A tool that the model may call."""

    type: Literal["function"]
    function: OfferedFunction


class StreamOptions(_Shape, kw_only=True):
    """What a stream carries beside deltas."""

    include_usage: bool = False
    include_obfuscation: bool = True


class ChatRequest(_Shape, kw_only=True):
    """The body of a request."""

    model: str
    messages: Annotated[list[Message], msgspec.Meta(min_length=1)]
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    max_completion_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    presence_penalty: Annotated[float, msgspec.Meta(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, msgspec.Meta(ge=-2, le=2)] | None = None
    stop: str | list[str] | None = None
    tools: list[OfferedTool] | None = None
    tool_choice: Literal["none", "auto", "required"] | dict[str, object] | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None
    seed: int | None = None
    user: str | None = None
    n: Literal[1] | None = None
    store: bool | None = None
    metadata: dict[str, str] | None = None

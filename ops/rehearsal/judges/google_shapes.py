"""The shape of a generateContent request, as Google's API reference has it.

Comes in: nothing. Goes out: Structs that refuse unknown fields
(ai.google.dev/api/generate-content, ai.google.dev/api/caching#Content). Only the judge of Google's
format imports it.
"""

from typing import Annotated, Literal

import msgspec


class _Shape(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    pass


class Blob(_Shape, kw_only=True):
    """Bytes of an image."""

    mime_type: str
    data: str


class FileData(_Shape, kw_only=True):
    """Address of an image."""

    file_uri: str
    mime_type: str | None = None


class FunctionCall(_Shape, kw_only=True):
    """A call of the model."""

    name: str
    args: dict[str, object] = msgspec.field(default_factory=dict)
    id: str | None = None


class ResponsePart(_Shape, kw_only=True):
    """An image in a result (Gemini 3)."""

    inline_data: Blob | None = None
    file_data: FileData | None = None


class FunctionResponse(_Shape, kw_only=True):
    """The result of a call."""

    name: str
    response: dict[str, object]
    id: str | None = None
    parts: list[ResponsePart] | None = None


class Part(_Shape, kw_only=True):
    """One part: exactly one of its data fields is set."""

    text: str | None = None
    inline_data: Blob | None = None
    file_data: FileData | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    executable_code: dict[str, object] | None = None
    code_execution_result: dict[str, object] | None = None
    thought: bool | None = None
    thought_signature: str | None = None


class Content(_Shape, kw_only=True):
    """A message."""

    parts: Annotated[list[Part], msgspec.Meta(min_length=1)]
    role: Literal["user", "model"] | None = None


class FunctionDeclaration(_Shape, kw_only=True):
    """A function that the model may call."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[a-zA-Z_][\w.:-]{0,63}$")]
    description: str
    parameters: dict[str, object] | None = None
    parameters_json_schema: dict[str, object] | None = None


class Tool(_Shape, kw_only=True):
    """A set of functions."""

    function_declarations: list[FunctionDeclaration]


class ThinkingConfig(_Shape, kw_only=True):
    """How much the model thinks, and whether it shows a summary."""

    include_thoughts: bool = False
    thinking_budget: int | None = None
    thinking_level: Literal["MINIMAL", "LOW", "MEDIUM", "HIGH"] | None = None


class GenerationConfig(_Shape, kw_only=True):
    """How to generate."""

    max_output_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    top_k: int | None = None
    stop_sequences: Annotated[list[str], msgspec.Meta(max_length=5)] | None = None
    thinking_config: ThinkingConfig | None = None
    candidate_count: Literal[1] | None = None
    response_mime_type: str | None = None


class GenerateRequest(_Shape, kw_only=True):
    """The body of a request."""

    contents: Annotated[list[Content], msgspec.Meta(min_length=1)]
    system_instruction: Content | None = None
    tools: list[Tool] | None = None
    tool_config: dict[str, object] | None = None
    generation_config: GenerationConfig | None = None
    safety_settings: list[dict[str, str]] | None = None

"""The shape of a Responses request, as OpenAI's API reference has it.

Comes in: nothing. Goes out: Structs that refuse unknown fields
(platform.openai.com/docs/api-reference/responses/create). Only the judge of responses imports it.
"""

from typing import Annotated, Literal

import msgspec


class _Shape(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    pass


class _Tagged(_Shape, tag_field="type", kw_only=True):
    pass


class InputText(_Tagged, tag="input_text", kw_only=True):
    """What is said to the model."""

    text: str


class InputImage(_Tagged, tag="input_image", kw_only=True):
    """An image, as an address or a data URL."""

    image_url: str
    detail: Literal["auto", "low", "high", "original"] = "auto"


class OutputText(_Tagged, tag="output_text", kw_only=True):
    """What the model said."""

    text: str
    annotations: list[dict[str, object]] = msgspec.field(default_factory=list)
    logprobs: list[dict[str, object]] | None = None


class OutputRefusal(_Tagged, tag="refusal", kw_only=True):
    """What the model declined."""

    refusal: str


class MessageItem(_Tagged, tag="message", kw_only=True):
    """A message of either side; one that carries an id was made by the model."""

    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[InputText | InputImage | OutputText | OutputRefusal]
    id: str | None = None
    status: Literal["in_progress", "completed", "incomplete"] | None = None
    phase: Literal["commentary", "final_answer"] | None = None


class SummaryText(_Tagged, tag="summary_text", kw_only=True):
    """A part of a summary of reasoning."""

    text: str


class ReasoningItem(_Tagged, tag="reasoning", kw_only=True):
    """Reasoning, encrypted."""

    id: str
    summary: list[SummaryText]
    encrypted_content: str | None = None
    status: str | None = None


class CallItem(_Tagged, tag="function_call", kw_only=True):
    """A call of the model; `arguments` is JSON text."""

    call_id: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    name: Annotated[str, msgspec.Meta(pattern="^[a-zA-Z0-9_-]{1,64}$")]
    arguments: str
    id: str | None = None
    status: str | None = None


class OutputItem(_Tagged, tag="function_call_output", kw_only=True):
    """The result of a call."""

    call_id: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    output: str | list[InputText | InputImage]
    id: str | None = None
    status: str | None = None


class SearchItem(_Tagged, tag="web_search_call", kw_only=True):
    """A search that the vendor ran itself."""

    id: str
    status: str
    action: dict[str, object] | None = None


Item = MessageItem | ReasoningItem | CallItem | OutputItem | SearchItem


class FunctionTool(_Shape, kw_only=True):
    """A tool that the model may call."""

    type: Literal["function"]
    name: Annotated[str, msgspec.Meta(pattern="^[a-zA-Z0-9_-]{1,64}$")]
    parameters: dict[str, object]
    strict: bool
    description: str | None = None


class Reasoning(_Shape, kw_only=True):
    """How much the model reasons, and what of it is shown."""

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None


class ResponsesRequest(_Shape, kw_only=True):
    """The body of a request; items of `input` are checked one by one."""

    model: str
    input: str | list[dict[str, object]]
    instructions: str | None = None
    tools: list[FunctionTool] | None = None
    stream: bool = False
    store: bool = True
    include: list[Literal["reasoning.encrypted_content", "web_search_call.results"]] | None = None
    max_output_tokens: Annotated[int, msgspec.Meta(ge=16)] | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    reasoning: Reasoning | None = None
    tool_choice: Literal["none", "auto", "required"] | dict[str, object] | None = None
    parallel_tool_calls: bool | None = None
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None
    truncation: Literal["auto", "disabled"] | None = None
    metadata: dict[str, str] | None = None
    text: dict[str, object] | None = None

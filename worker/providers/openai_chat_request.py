"""Requests in OpenAI's chat completions format, with the quirks of whoever speaks it.

Comes in: a `ModelRequest` whose messages the sanitizer fitted to the target, an `Endpoint`, the
provider's row. Goes out: an `HttpRequest`. Pure; `worker.providers.building` calls it. The tables
behind the rules: platform.openai.com/docs/api-reference/chat and the vendors' pages named in
`quirks`.
"""

from typing import assert_never

from shared.messages import ContentBlock, ImageBlock, Message, Role, ToolCallBlock
from worker.providers.bodies import (
    GO_ON,
    PLACEHOLDER,
    Json,
    bearer,
    blocks_of,
    calls_of,
    encode,
    image_address,
    images_of,
    is_openai_reasoning,
    parameters_of,
    post,
    round_start,
    system_text,
    texts_of,
    thinking_of,
    without_refused,
)
from worker.providers.chat_quirks import (
    alternated,
    call_signatures_of,
    mark_cache,
    reasoning_details_of,
    thinking_settings,
)
from worker.providers.quirks import (
    CallSignature,
    Prefill,
    ProviderRow,
    Quirks,
    ReasoningBack,
    ThinkingStyle,
)
from worker.providers.requests import Endpoint, HttpRequest, ModelRequest
from worker.providers.thinking import token_limits

IMAGES_NOTE = "The images of the tool results:"
BRIDGE = "I have read the tool results."
NO_OUTPUT = "(no output)"
"""Stands for an empty tool result: several servers refuse an empty string."""

DUMMY_TOOL: Json = {
    "type": "function",
    "function": {
        "name": "not_available",
        "description": "No tool is available any more. Do not call this.",
        "parameters": {"type": "object", "properties": {}},
    },
}


def openai_chat_request(request: ModelRequest, endpoint: Endpoint, row: ProviderRow) -> HttpRequest:
    """Builds the request."""
    quirks = row.quirks
    body: Json = {"model": request.target.model}
    if tools := _tools(request, quirks):
        body["tools"] = tools
    messages = _messages(request, row)
    if request.target.model.startswith(quirks.marks_cache):
        mark_cache(messages)
    body["messages"] = messages
    body["stream"] = True
    if quirks.stream_options:
        body["stream_options"] = {"include_usage": True}
    body[_cap_field(request, quirks)] = _cap(request, quirks)
    body.update(_sampling(request, row))
    body.update(thinking_settings(request, quirks))
    if quirks.cache_key and request.conversation is not None:
        body["prompt_cache_key"] = request.conversation
    kept = without_refused(body, request.without)
    return post(endpoint, "/chat/completions", bearer(endpoint, row), kept)


_CAP_FIELDS = ("max_tokens", "max_completion_tokens")


def _cap_field(request: ModelRequest, quirks: Quirks) -> str:
    """The name of the cap; where the provider refused one name, the other is tried."""
    field = quirks.max_tokens_field
    if field in request.without and field in _CAP_FIELDS:
        return _CAP_FIELDS[1 - _CAP_FIELDS.index(field)]
    return field


def _cap(request: ModelRequest, quirks: Quirks) -> int:
    limits = token_limits(request)
    return limits.answer if quirks.thinking is ThinkingStyle.NONE else limits.total


def _sampling(request: ModelRequest, row: ProviderRow) -> Json:
    sampling, quirks = request.sampling, row.quirks
    if is_openai_reasoning(row, request.target.model):
        return {}
    settings: Json = {}
    is_thinking = sampling.thinking not in {None, "off"}
    if quirks.sampling_with_thinking or not is_thinking:
        if sampling.temperature is not None:
            settings["temperature"] = sampling.temperature
        if sampling.top_p is not None:
            settings["top_p"] = sampling.top_p
    if sampling.stop:
        settings["stop"] = list(sampling.stop[: quirks.max_stops])
    return settings


def _tools(request: ModelRequest, quirks: Quirks) -> list[Json]:
    if request.tools:
        return [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": parameters_of(tool),
                },
            }
            for tool in request.tools
        ]
    has_calls = any(calls_of(blocks_of(message)) for message in request.messages)
    return [DUMMY_TOOL] if quirks.dummy_tool and has_calls else []


def _messages(request: ModelRequest, row: ProviderRow) -> list[Json]:
    quirks = row.quirks
    system, history = system_text(request.system, request.messages)
    start = 0 if _demands_reasoning(request, quirks) else round_start(history)
    built: list[Json] = []
    instructing, mid_history = _instructing_roles(row, request.target.model)
    if system:
        built.append({"role": instructing, "content": system})
    waiting: list[Json] = []  # images of tool results, until the last result of the round is out
    for at, message in enumerate(history):
        if message.role is Role.TOOL:
            built.append(_result(message))
            waiting.extend(_image_part(image) for image in images_of(blocks_of(message)))
            continue
        _append_images(built, waiting)
        if message.role is Role.ASSISTANT:
            built.append(_assistant(message, request, quirks, in_round=at >= start))
        else:
            is_user = message.role is Role.USER
            built.append(_spoken(message, "user" if is_user else mid_history))
    _append_images(built, waiting)
    if not history:
        built.append({"role": "user", "content": PLACEHOLDER})
    if quirks.is_strict_template:
        built = alternated(built)
    if quirks.bridges_results or quirks.is_strict_template:
        built = _bridged(built)
    return _prefilled(built, quirks)


def _instructing_roles(row: ProviderRow, model: str) -> tuple[str, str]:
    """The roles of instructions at the front and in mid-history.

    Only OpenAI's reasoning models know `developer`; cerebras, xAI, DeepSeek and Z.ai refuse it.
    """
    if is_openai_reasoning(row, model):
        return "developer", "developer"
    is_strict = row.quirks.is_strict_template or row.quirks.bridges_results
    return "system", "user" if is_strict else "system"


def _spoken(message: Message, role: str) -> Json:
    """A user's message, or instructions in mid-history."""
    blocks = blocks_of(message)
    text = "\n\n".join(texts_of(blocks))
    images = images_of(blocks) if message.role is Role.USER else []
    if not images:
        return {"role": role, "content": text}
    return {"role": role, "content": [_part(block) for block in blocks if _is_shown(block)]}


def _is_shown(block: ContentBlock) -> bool:
    return bool(texts_of([block]) or images_of([block]))


def _part(block: ContentBlock) -> Json:
    images = images_of([block])
    if images:
        return _image_part(images[0])
    return {"type": "text", "text": "".join(texts_of([block]))}


def _image_part(image: ImageBlock) -> Json:
    return {"type": "image_url", "image_url": {"url": image_address(image)}}


def _result(message: Message) -> Json:
    text = "\n\n".join(texts_of(blocks_of(message)))
    return {"role": "tool", "tool_call_id": message.tool_call_id, "content": text or NO_OUTPUT}


def _append_images(built: list[Json], waiting: list[Json]) -> None:
    """A tool message holds text only, so images follow in a user's message."""
    if waiting:
        note = {"type": "text", "text": IMAGES_NOTE}
        built.append({"role": "user", "content": [note, *waiting]})
        waiting.clear()


def _assistant(message: Message, request: ModelRequest, quirks: Quirks, *, in_round: bool) -> Json:
    # Without a seam: a text may be cut in mid-word where a signature came. Reasoning turned into
    # text needs one.
    joiner = "" if request.foreign_thinking == "drop" else "\n\n"
    blocks = blocks_of(message)
    calls = calls_of(blocks)
    # A plain string: DeepSeek echoes the array form (pi #2008). Null only beside calls.
    text = joiner.join(texts_of(blocks))
    built: Json = {"role": "assistant", "content": text if text or not calls else None}
    if in_round:
        built.update(_reasoning(blocks, request, quirks))
    if calls:
        built["tool_calls"] = [_call(call, quirks) for call in calls]
    return built


def _call(call: ToolCallBlock, quirks: Quirks) -> Json:
    function = {"name": call.name, "arguments": encode(call.arguments).decode()}
    built: Json = {"id": call.id, "type": "function", "function": function}
    if quirks.call_signature is CallSignature.GOOGLE and call.thought_signature is not None:
        built["extra_content"] = {"google": {"thought_signature": call.thought_signature}}
    return built


def _demands_reasoning(request: ModelRequest, quirks: Quirks) -> bool:
    model = request.target.model
    return quirks.demands_reasoning or model.startswith(quirks.demanding_models)


def _reasoning(blocks: list[ContentBlock], request: ModelRequest, quirks: Quirks) -> Json:
    """The model's own reasoning, in the field that it came from."""
    is_demanded = _demands_reasoning(request, quirks)
    match quirks.reasoning_back:
        case ReasoningBack.NEVER:
            return {}
        case ReasoningBack.DETAILS:
            details = reasoning_details_of(blocks, request.target.model) + call_signatures_of(
                blocks
            )
            return {"reasoning_details": details} if details or is_demanded else {}
        case ReasoningBack.CONTENT | ReasoningBack.PLAIN as field:
            text = "\n\n".join(block.thinking for block in thinking_of(blocks) if block.thinking)
            return {field.value: text} if text or is_demanded else {}
        case _:
            assert_never(quirks.reasoning_back)


def _bridged(messages: list[Json]) -> list[Json]:
    built: list[Json] = []
    for message in messages:
        if built and built[-1]["role"] == "tool" and message["role"] == "user":
            built.append({"role": "assistant", "content": BRIDGE})
        built.append(message)
    return built


def _prefilled(messages: list[Json], quirks: Quirks) -> list[Json]:
    """An assistant's message at the end is to be continued, where the vendor can."""
    last = messages[-1]
    if last["role"] != "assistant":
        return messages
    if quirks.prefill is Prefill.PREFIX:
        return [*messages[:-1], {**last, "prefix": True}]
    if quirks.is_strict_template and quirks.prefill is Prefill.NONE:
        return [*messages, {"role": "user", "content": GO_ON}]
    return messages

"""Requests in Anthropic's Messages format.

Comes in: a `ModelRequest` whose messages the sanitizer fitted to the target, an `Endpoint`, the
provider's row. Goes out: an `HttpRequest`. Pure; `worker.providers.building` calls it. Rules:
docs.anthropic.com/en/api/messages, .../extended-thinking, .../prompt-caching.
"""

import re

from shared.messages import (
    ContentBlock,
    ImageBlock,
    Message,
    OpaqueBlock,
    Role,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from shared.turns import StopReason
from worker.providers.bodies import (
    GO_ON,
    PLACEHOLDER,
    Json,
    blocks_of,
    key_of,
    parameters_of,
    post,
    system_text,
    versioned,
    without_refused,
)
from worker.providers.quirks import ProviderRow
from worker.providers.requests import Endpoint, HttpRequest, ModelRequest
from worker.providers.thinking import token_limits

API_VERSION = "2023-06-01"
"""The version that the reader of the stream was proved against, by recordings. Newer SDKs name a
newer one; versions stay served (docs.anthropic.com/en/api/versioning)."""

_TO_4_5 = re.compile(
    r"claude-(?:[123]|instant|(?:opus|sonnet|haiku)-4(?:-[0-5])?(?:-\d{8})?(?!-?\d))"
)
"""Claude up to 4.5: the last that took a budget of thinking, sampling settings and a prefill."""
_CACHE: Json = {"type": "ephemeral"}


def anthropic_request(request: ModelRequest, endpoint: Endpoint, row: ProviderRow) -> HttpRequest:
    """Builds the request."""
    system, history = system_text(request.system, request.messages)
    messages = _merged(history)
    limits = token_limits(request)
    thinking = _thinking(request, messages, limits.budget)
    may_end_open = not thinking and not is_adaptive(request.target.model)
    _frame(messages, may_end_open=may_end_open or _is_paused(history))
    _mark_messages(messages)
    body: Json = {"model": request.target.model}
    if tools := [_tool(tool.name, tool.description, parameters_of(tool)) for tool in request.tools]:
        body["tools"] = tools
        if not system:
            tools[-1]["cache_control"] = _CACHE
    if system:
        body["system"] = [{"type": "text", "text": system, "cache_control": _CACHE}]
    body["messages"] = messages
    body["stream"] = True
    body["max_tokens"] = limits.total if thinking else limits.answer
    body.update(_sampling(request, is_thinking=bool(thinking)))
    body.update(thinking)
    path = versioned(endpoint, "v1", "/messages")
    kept = without_refused(body, request.without)
    return post(endpoint, path, _headers(endpoint, row), kept)


def is_adaptive(model: str) -> bool:
    """Whether a model thinks by effort, and takes no sampling settings and no prefill.

    Claude since 4.6 (platform.claude.com/docs, thinking; the SDK dropped `temperature`). Models of
    others behind this format are taken for older ones.
    """
    return "claude" in model and _TO_4_5.search(model) is None


def _headers(endpoint: Endpoint, row: ProviderRow) -> list[tuple[str, str]]:
    headers = [("anthropic-version", API_VERSION)]
    if key := key_of(endpoint, row):
        headers.append(("x-api-key", key))
    return headers


def needs_thinking_off(messages: list[Json]) -> bool:
    """Whether the running tool round holds a turn that called without signed reasoning first.

    With thinking on, such a turn must start with it (n8n #22550, pydantic-ai #2075); a round that
    another model began has none, so its rest goes without thinking. `messages` are those of the
    request, where a user's words behind a result are part of the same message.
    """
    for message in reversed(messages):
        kinds = [block["type"] for block in _list(message)]
        if message["role"] == "user" and "tool_result" not in kinds:
            return False
        if "tool_use" in kinds and kinds[0] not in {"thinking", "redacted_thinking"}:
            return True
    return False


def _thinking(request: ModelRequest, messages: list[Json], budget: int | None) -> Json:
    """The settings of reasoning."""
    if budget is None or needs_thinking_off(messages):
        return {}
    if is_adaptive(request.target.model):
        effort = {"effort": request.sampling.thinking}
        return {"thinking": {"type": "adaptive"}, "output_config": effort}
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _sampling(request: ModelRequest, *, is_thinking: bool) -> Json:
    sampling = request.sampling
    settings: Json = {}
    # Thinking takes the default temperature only.
    if not is_thinking and not is_adaptive(request.target.model):
        if sampling.temperature is not None:
            settings["temperature"] = min(sampling.temperature, 1.0)  # Anthropic's scale ends there
        elif sampling.top_p is not None:  # both at once are refused
            settings["top_p"] = sampling.top_p
    if stops := [stop for stop in sampling.stop if stop.strip()]:  # blank ones are refused
        settings["stop_sequences"] = stops
    return settings


def _tool(name: str, description: str, schema: Json) -> Json:
    return {"name": name, "description": description, "input_schema": schema}


def _merged(history: list[Message]) -> list[Json]:
    """Merges neighbours of one role; tool results are a user's content, and come first."""
    built: list[Json] = []
    for message in history:
        role = "assistant" if message.role is Role.ASSISTANT else "user"
        content = _content(message)
        if not content:
            continue
        if built and built[-1]["role"] == role:
            _list(built[-1]).extend(content)
        else:
            built.append({"role": role, "content": content})
    return built


def _is_paused(history: list[Message]) -> bool:
    """Whether the model stopped to be asked again with exactly what it said (`pause_turn`)."""
    return bool(history) and history[-1].stop_reason == StopReason.PAUSE


def _frame(messages: list[Json], *, may_end_open: bool) -> None:
    """The user speaks first; at the end the assistant may have begun, where that is allowed."""
    if not messages or messages[0]["role"] == "assistant":
        messages.insert(0, _user_text(PLACEHOLDER))
    if messages[-1]["role"] == "assistant":
        if may_end_open:
            _trim_prefill(_list(messages[-1]))
        else:
            messages.append(_user_text(GO_ON))


def _list(message: Json) -> list[Json]:
    content = message["content"]
    return content if isinstance(content, list) else []


def _user_text(text: str) -> Json:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def _trim_prefill(content: list[Json]) -> None:
    """A prefilled text may not end in white space."""
    last = content[-1]
    if isinstance(text := last.get("text"), str):
        content[-1] = {**last, "text": text.rstrip()}


def _content(message: Message) -> list[Json]:
    blocks = blocks_of(message)
    if message.role is Role.TOOL:
        return [_result(message, blocks)]
    if message.role is Role.ASSISTANT:
        blocks = _calls_last(blocks)
    return [built for block in blocks if (built := _block(block)) is not None]


def _calls_last(blocks: list[ContentBlock]) -> list[ContentBlock]:
    """Moves calls behind the texts of their segment; reasoning and own blocks part segments."""
    ordered: list[ContentBlock] = []
    calls: list[ContentBlock] = []
    for block in blocks:
        if isinstance(block, ToolCallBlock):
            calls.append(block)
            continue
        if not isinstance(block, TextBlock):
            ordered.extend(calls)
            calls.clear()
        ordered.append(block)
    return ordered + calls


def _block(block: ContentBlock) -> Json | None:
    match block:
        case TextBlock():
            return _text(block)
        case ThinkingBlock(redacted=True):
            return {"type": "redacted_thinking", "data": block.thinking_signature or ""}
        case ThinkingBlock():
            signature = block.thinking_signature
            return {"type": "thinking", "thinking": block.thinking, "signature": signature or ""}
        case ToolCallBlock():
            return {
                "type": "tool_use",
                "id": block.id,
                "name": block.name,
                "input": block.arguments,
            }
        case ImageBlock():
            return _image(block)
        case OpaqueBlock(raw=dict() as raw):
            return raw
        case _:
            return None  # an own block that is no object cannot have come from Anthropic


def _text(block: TextBlock) -> Json | None:
    if not block.text.strip():
        return None  # blank texts are refused, whoever signed them
    built: Json = {"type": "text", "text": block.text}
    if block.citations:
        built["citations"] = block.citations
    return built


def _image(block: ImageBlock) -> Json:
    if block.url is not None:
        return {"type": "image", "source": {"type": "url", "url": block.url}}
    source = {"type": "base64", "media_type": block.mime_type, "data": block.data or ""}
    return {"type": "image", "source": source}


def _result(message: Message, blocks: list[ContentBlock]) -> Json:
    content = [built for block in blocks if (built := _block(block)) is not None]
    result: Json = {"type": "tool_result", "tool_use_id": message.tool_call_id}
    if content:
        result["content"] = content
    if message.is_error:
        result["is_error"] = True
    return result


def _mark_messages(messages: list[Json]) -> None:
    """Cache breakpoints behind the last two user messages.

    The newer one writes what the next turn reads; the older one is read when a turn adds more
    than the twenty blocks that a breakpoint looks back.
    """
    users = [message for message in messages if message["role"] == "user"]
    for message in users[-2:]:
        content = _list(message)
        content[-1] = {**content[-1], "cache_control": _CACHE}

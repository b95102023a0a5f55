"""Requests in OpenAI's Responses format.

Comes in: a `ModelRequest` whose messages the sanitizer fitted to the target, an `Endpoint`, the
provider's row. Goes out: an `HttpRequest`. Pure; `worker.providers.building` calls it. Nothing is
stored at the vendor (`store: false`), so reasoning goes back encrypted. Rules:
platform.openai.com/docs/api-reference/responses/create.
"""

from typing import assert_never

import msgspec

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
from shared.wire import UNREADABLE
from worker.providers.bodies import (
    PLACEHOLDER,
    Json,
    bearer,
    blocks_of,
    encode,
    image_address,
    images_of,
    is_openai_reasoning,
    parameters_of,
    post,
    system_text,
    texts_of,
    without_refused,
)
from worker.providers.chat_quirks import least_effort
from worker.providers.quirks import ProviderRow
from worker.providers.requests import Endpoint, HttpRequest, ModelRequest
from worker.providers.thinking import token_limits

MIN_OUTPUT_TOKENS = 16
"""The API refuses less."""


class _Signature(msgspec.Struct):
    """What the normalizer keeps of a reasoning item, as JSON in `thinking_signature`."""

    id: str
    encrypted_content: str


_signature = msgspec.json.Decoder(_Signature)


def openai_responses_request(
    request: ModelRequest, endpoint: Endpoint, row: ProviderRow
) -> HttpRequest:
    """Builds the request."""
    system, history = system_text(request.system, request.messages)
    model = request.target.model
    body: Json = {"model": model}
    if tools := [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": parameters_of(tool),
            "strict": False,  # the API's default of true refuses most schemas
        }
        for tool in request.tools
    ]:
        body["tools"] = tools
    if system:
        body["instructions"] = system
    items = [item for message in history for item in _items(message)]
    body["input"] = items or [{"role": "user", "content": PLACEHOLDER}]
    body["stream"] = True
    body["store"] = False
    body["include"] = ["reasoning.encrypted_content"]
    body["max_output_tokens"] = max(token_limits(request).total, MIN_OUTPUT_TOKENS)
    body.update(_settings(request, row))
    if row.quirks.cache_key and request.conversation is not None:
        body["prompt_cache_key"] = request.conversation
    kept = without_refused(body, request.without)
    return post(endpoint, "/responses", bearer(endpoint, row), kept)


def _settings(request: ModelRequest, row: ProviderRow) -> Json:
    sampling, model = request.sampling, request.target.model
    if not is_openai_reasoning(row, model):
        pairs = {"temperature": sampling.temperature, "top_p": sampling.top_p}
        settings: Json = {name: value for name, value in pairs.items() if value is not None}
    else:
        settings = {}
    if sampling.thinking is None:
        return settings
    word = least_effort(model) if sampling.thinking == "off" else sampling.thinking
    if word is not None:
        settings["reasoning"] = {"effort": word, "summary": "auto"}
    return settings


def _items(message: Message) -> list[Json]:
    blocks = blocks_of(message)
    match message.role:
        case Role.TOOL:
            return [_result(message, blocks)]
        case Role.ASSISTANT:
            return _answered(blocks)
        case Role.USER:
            return [{"role": "user", "content": [_part(block) for block in _shown(blocks)]}]
        case Role.SYSTEM | Role.DEVELOPER:
            text = "\n\n".join(texts_of(blocks))
            return [{"role": "developer", "content": text}]
        case _:
            assert_never(message.role)


def _shown(blocks: list[ContentBlock]) -> list[TextBlock | ImageBlock]:
    return [block for block in blocks if isinstance(block, TextBlock | ImageBlock)]


def _part(block: TextBlock | ImageBlock) -> Json:
    if isinstance(block, TextBlock):
        return {"type": "input_text", "text": block.text}
    return {"type": "input_image", "image_url": image_address(block), "detail": "auto"}


def _result(message: Message, blocks: list[ContentBlock]) -> Json:
    output: object = "\n\n".join(texts_of(blocks))
    if images_of(blocks):
        output = [_part(block) for block in _shown(blocks)]
    return {"type": "function_call_output", "call_id": message.tool_call_id, "output": output}


def _answered(blocks: list[ContentBlock]) -> list[Json]:
    items: list[Json] = []
    for block in blocks:
        match block:
            case TextBlock():
                items.append(_said(block))
            case ToolCallBlock():
                items.append(_call(block))
            case ThinkingBlock():
                items.extend(_reasoning(block))
            case OpaqueBlock(raw=dict() as raw):
                items.append(raw)
            case _:
                pass  # models are not sent their own images
    # The API refuses reasoning without the item that it led to.
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    return items


def _said(block: TextBlock) -> Json:
    if block.item_id is None:
        return {"role": "assistant", "content": block.text}
    said: Json = {
        "type": "message",
        "role": "assistant",
        "id": block.item_id,
        "status": "completed",
        "content": [{"type": "output_text", "text": block.text, "annotations": []}],
    }
    if block.phase is not None:
        said["phase"] = block.phase
    return said


def _call(block: ToolCallBlock) -> Json:
    call: Json = {
        "type": "function_call",
        "call_id": block.id,
        "name": block.name,
        "arguments": encode(block.arguments).decode(),
    }
    if block.item_id is not None and block.item_id.startswith("fc"):
        call["id"] = block.item_id
    return call


def _reasoning(block: ThinkingBlock) -> list[Json]:
    """The encrypted item; reasoning that came another way cannot go back here."""
    try:
        signature = _signature.decode(block.thinking_signature or "")
    except UNREADABLE:
        return []
    summary = [{"type": "summary_text", "text": block.thinking}] if block.thinking else []
    return [
        {
            "type": "reasoning",
            "id": signature.id,
            "summary": summary,
            "encrypted_content": signature.encrypted_content,
        }
    ]

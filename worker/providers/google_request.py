"""Requests in Google's generateContent format (Gemini API and Vertex).

Comes in: a `ModelRequest` whose messages the sanitizer fitted to the target, an `Endpoint`, the
provider's row. Goes out: an `HttpRequest`. Pure; `worker.providers.building` calls it. Rules:
ai.google.dev/api/generate-content, .../gemini-api/docs/thinking, .../thought-signatures.
"""

import re
from urllib.parse import quote

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
from shared.turns import ToolSpec
from worker.providers.bodies import (
    GO_ON,
    PLACEHOLDER,
    Json,
    blocks_of,
    called_names,
    images_of,
    key_of,
    parameters_of,
    post,
    system_text,
    texts_of,
    without_refused,
)
from worker.providers.quirks import ProviderRow
from worker.providers.requests import Endpoint, HttpRequest, ModelRequest
from worker.providers.thinking import token_limits

MAX_STOPS = 5
"""`stopSequences` takes up to 5."""
UNSIGNED = "skip_thought_signature_validator"
"""Google's own word for calls that another model made (thought signatures, FAQ)."""

_BASE64 = re.compile(r"(?:[A-Za-z0-9+/_-]{4})*(?:[A-Za-z0-9+/_-]{2}==|[A-Za-z0-9+/_-]{3}=)?")


def google_request(request: ModelRequest, endpoint: Endpoint, row: ProviderRow) -> HttpRequest:
    """Builds the request."""
    model = request.target.model.removeprefix("models/")
    system, history = system_text(request.system, request.messages)
    contents = _Contents(model, called_names(history), row).built(history)
    body: Json = {}
    if tools := [_declared(tool) for tool in request.tools]:
        body["tools"] = [{"functionDeclarations": tools}]
    if system and model.startswith("gemma"):  # Gemma has no instructions of their own
        contents[0]["parts"] = [{"text": system}, *_parts_of(contents[0])]
    elif system:
        body["systemInstruction"] = {"parts": [{"text": system}]}
    body["contents"] = contents
    config = _config(request, model)
    body["generationConfig"] = without_refused(config, request.without)
    body = without_refused(body, request.without)
    key = key_of(endpoint, row)
    auth = [("x-goog-api-key", key)] if key else []
    path = f"/models/{quote(model, safe='')}:streamGenerateContent?alt=sse"
    return post(endpoint, path, auth, body)


def _declared(tool: ToolSpec) -> Json:
    declared: Json = {"name": tool.name, "description": tool.description}
    schema = parameters_of(tool)
    if schema["properties"]:  # an object without properties is refused
        # The full JSON Schema; `parameters` is a subset that refuses additionalProperties.
        declared["parametersJsonSchema"] = schema
    return declared


def _config(request: ModelRequest, model: str) -> Json:
    sampling = request.sampling
    limits = token_limits(request)
    config: Json = {"maxOutputTokens": limits.total}
    if sampling.temperature is not None:
        config["temperature"] = sampling.temperature
    if sampling.top_p is not None:
        config["topP"] = sampling.top_p
    if sampling.stop:
        config["stopSequences"] = list(sampling.stop[:MAX_STOPS])
    if thinking := _thinking(sampling.thinking, limits.budget, model):
        config["thinkingConfig"] = thinking
    return config


def _thinking(effort: str | None, budget: int | None, model: str) -> Json:
    if effort is None:
        return {}
    if model.startswith("gemini-3"):
        # Gemini 3 cannot be switched off; Pro knows low and high only.
        level = "HIGH" if effort == "high" else "LOW"
        return {"thinkingLevel": level, "includeThoughts": effort != "off"}
    if model.startswith("gemini-2.5"):
        # Pro cannot be switched off: 128 is its least.
        least = 128 if "pro" in model else 0
        return {"thinkingBudget": budget or least, "includeThoughts": effort != "off"}
    return {}


class _Contents:
    """Builds `contents`: neighbours of one role merged, tool results in a content of their own."""

    def __init__(self, model: str, names: dict[str, str], row: ProviderRow) -> None:
        self._is_gemini_3 = model.startswith("gemini-3")
        self._names = names
        self._sends_ids = row.quirks.sends_call_ids

    def built(self, history: list[Message]) -> list[Json]:
        contents: list[Json] = []
        last_kind: Role | None = None
        images: list[Json] = []  # of tool results, until the last result of the round is out
        for message in history:
            kind = message.role if message.role in {Role.ASSISTANT, Role.TOOL} else Role.USER
            if kind is not Role.TOOL and images:
                contents.append({"role": "user", "parts": images})
                images, last_kind = [], Role.USER
            parts, extra = self._parts(message)
            images.extend(extra)
            if not parts:
                continue
            if kind is last_kind:
                _parts_of(contents[-1]).extend(parts)
            else:
                role = "model" if kind is Role.ASSISTANT else "user"
                contents.append({"role": role, "parts": parts})
            last_kind = kind
        if images:
            contents.append({"role": "user", "parts": images})
        return _framed(contents)

    def _parts(self, message: Message) -> tuple[list[Json], list[Json]]:
        """The parts of a message, and images that must stand outside of it."""
        blocks = blocks_of(message)
        if message.role is Role.TOOL:
            return self._result(message, blocks)
        parts = [part for block in blocks if (part := self._part(block)) is not None]
        if self._is_gemini_3:
            _mark_unsigned(parts)
        return parts, []

    def _part(self, block: ContentBlock) -> Json | None:
        match block:
            case TextBlock():
                return _signed({"text": block.text}, block.text_signature)
            case ThinkingBlock():
                # Only signed reasoning goes back; the rest Google forgets by itself.
                part = _signed({"text": block.thinking, "thought": True}, block.thinking_signature)
                return part if "thoughtSignature" in part else None
            case ToolCallBlock():
                call: Json = {"name": block.name, "args": block.arguments}
                if self._sends_ids:
                    call["id"] = block.id
                return _signed({"functionCall": call}, block.thought_signature)
            case ImageBlock():
                return _image(block)
            case OpaqueBlock(raw=dict() as raw):
                return raw
            case _:
                return None  # an own block that is no object cannot have come from Google

    def _result(
        self, message: Message, blocks: list[ContentBlock]
    ) -> tuple[list[Json], list[Json]]:
        call_id = message.tool_call_id or ""
        text = "\n\n".join(texts_of(blocks))
        response: Json = {
            # The name must be that of the call, whatever the result says.
            "name": self._names.get(call_id, message.tool_name or ""),
            "response": {"error" if message.is_error else "output": text},
        }
        if self._sends_ids:
            response["id"] = call_id
        images = [_image(image) for image in images_of(blocks)]
        if images and self._is_gemini_3:
            response["parts"] = images
            images = []
        return [{"functionResponse": response}], images


def _parts_of(content: Json) -> list[Json]:
    parts = content["parts"]
    return parts if isinstance(parts, list) else []


def _framed(contents: list[Json]) -> list[Json]:
    """A conversation begins and ends with the user's side."""
    if not contents or contents[0]["role"] == "model":
        contents.insert(0, {"role": "user", "parts": [{"text": PLACEHOLDER}]})
    if contents[-1]["role"] == "model":
        contents.append({"role": "user", "parts": [{"text": GO_ON}]})
    return contents


def _signed(part: Json, signature: str | None) -> Json:
    """Adds a signature that Google could have made: base64, padded."""
    if signature and _BASE64.fullmatch(signature):
        return {**part, "thoughtSignature": signature}
    return part


def _mark_unsigned(parts: list[Json]) -> None:
    """Gemini 3 wants a signature on the first call of a turn; no call has one in foreign turns.

    Only there: beside signed calls the mark does harm (litellm #37541, vercel #15560).
    """
    calls = [at for at, part in enumerate(parts) if "functionCall" in part]
    if calls and not any("thoughtSignature" in parts[at] for at in calls):
        parts[calls[0]] = {**parts[calls[0]], "thoughtSignature": UNSIGNED}


def _image(block: ImageBlock) -> Json:
    if block.url is not None:
        return {"fileData": {"fileUri": block.url, "mimeType": block.mime_type}}
    return {"inlineData": {"mimeType": block.mime_type, "data": block.data or ""}}

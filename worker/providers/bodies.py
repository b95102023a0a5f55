"""What every request builder shares: text of blocks, images as addresses, pairing, tool schemas.

Comes in: messages that the sanitizer fitted to the target. Goes out: pieces of request bodies.
Pure; only the builders of this package import it.
"""

import re
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

from shared.messages import (
    ContentBlock,
    ImageBlock,
    Message,
    Role,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from shared.turns import ToolSpec
from worker.providers.quirks import ProviderRow
from worker.providers.requests import Endpoint, HttpRequest

Json: TypeAlias = dict[str, object]

INSTRUCTIONS = frozenset({Role.SYSTEM, Role.DEVELOPER})

PLACEHOLDER = "(the conversation starts here)"
"""Stands where a format wants a user's message first."""
GO_ON = "(go on)"
"""Stands behind an assistant's message that the target would not continue by itself."""

encode = msgspec.json.Encoder().encode


_OPENAI_REASONING = re.compile(r"o\d|gpt-5|gpt-oss")
"""Models that refuse sampling parameters and stop strings (OpenAI's reasoning guide)."""
_OPENAI_HOSTED = frozenset({"openai", "azure"})


def is_openai_reasoning(row: ProviderRow, model: str) -> bool:
    """Whether OpenAI's own rules for reasoning models hold."""
    return row.name in _OPENAI_HOSTED and _OPENAI_REASONING.match(model) is not None


def key_of(endpoint: Endpoint, row: ProviderRow) -> str | None:
    """The key to send: the endpoint's, else the row's constant, else none."""
    return endpoint.key.reveal() if endpoint.key else row.default_key


def bearer(endpoint: Endpoint, row: ProviderRow) -> list[tuple[str, str]]:
    """The header of the key as OpenAI and its kin want it."""
    key = key_of(endpoint, row)
    if not key:
        return []
    if row.quirks.key_header is not None:
        return [(row.quirks.key_header, key)]
    return [("authorization", f"Bearer {key}")]


_KEPT = frozenset({"model", "messages", "input", "contents", "stream", "generationconfig"})
"""What makes a request one; caps are kept apart, since an answer without one may cost anything."""
_CAPS = frozenset({"maxtokens", "maxcompletiontokens", "maxoutputtokens"})


def without_refused(settings: Json, without: frozenset[str]) -> Json:
    """Leaves out what the provider refused before.

    Providers name a setting in many ways (`stream_options.include_usage`, `generation_config.
    temperature`, `tools[0].function`), so every part of the name counts, in either spelling.
    """
    refused = {_plain(part) for name in without for part in re.split(r"[.\[\]]+", name)}
    refused -= _KEPT | _CAPS
    return {name: value for name, value in settings.items() if _plain(name) not in refused}


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def refuses_images(without: frozenset[str]) -> bool:
    """Whether the provider refused an image before."""
    return any("image" in name.lower() for name in without)


def versioned(endpoint: Endpoint, version: str, path: str) -> str:
    """Puts the version before a path, unless the base URL ends with it already."""
    return path if endpoint.base_url.rstrip("/").endswith(f"/{version}") else f"/{version}{path}"


def post(endpoint: Endpoint, path: str, auth: Sequence[tuple[str, str]], body: Json) -> HttpRequest:
    """The HTTP request of a body; `path` stands behind the base URL, `auth` holds the key."""
    headers = [("content-type", "application/json"), ("accept", "text/event-stream")]
    headers.extend(auth)
    headers.extend((name.lower(), value.reveal()) for name, value in endpoint.headers)
    url = endpoint.base_url.rstrip("/") + path
    return HttpRequest("POST", url, tuple(headers), encode(body))


def blocks_of(message: Message) -> list[ContentBlock]:
    """The blocks of a message; a string is one block of text."""
    if isinstance(message.content, str):
        return [TextBlock(text=message.content)] if message.content.strip() else []
    return message.content


def texts_of(blocks: Iterable[ContentBlock]) -> list[str]:
    """The visible texts of blocks."""
    return [block.text for block in blocks if isinstance(block, TextBlock)]


def calls_of(blocks: Iterable[ContentBlock]) -> list[ToolCallBlock]:
    """The tool calls of blocks."""
    return [block for block in blocks if isinstance(block, ToolCallBlock)]


def images_of(blocks: Iterable[ContentBlock]) -> list[ImageBlock]:
    """The images of blocks."""
    return [block for block in blocks if isinstance(block, ImageBlock)]


def thinking_of(blocks: Iterable[ContentBlock]) -> list[ThinkingBlock]:
    """The reasoning of blocks."""
    return [block for block in blocks if isinstance(block, ThinkingBlock)]


def image_address(image: ImageBlock) -> str:
    """An image as a URL: its own, or a data URL of its bytes."""
    if image.url is not None:
        return image.url
    return f"data:{image.mime_type};base64,{image.data or ''}"


def parameters_of(tool: ToolSpec) -> Json:
    """The schema of a tool's arguments; every vendor wants an object with properties."""
    return {"type": "object", "properties": {}, **tool.parameters}


def system_text(system: str | None, messages: Sequence[Message]) -> tuple[str, list[Message]]:
    """The instructions at the front, and the messages behind them."""
    at = 0
    while at < len(messages) and messages[at].role in INSTRUCTIONS:
        at += 1
    front = [system] if system and system.strip() else []
    front.extend(text for message in messages[:at] for text in texts_of(blocks_of(message)))
    return "\n\n".join(front), list(messages[at:])


def round_start(messages: Sequence[Message]) -> int:
    """Where the running tool round begins: behind the last message that a person wrote."""
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].role is Role.USER:
            return at + 1
    return 0


def called_names(messages: Iterable[Message]) -> dict[str, str]:
    """The tool's name by call id; the sanitizer made the ids unique."""
    return {call.id: call.name for message in messages for call in calls_of(blocks_of(message))}

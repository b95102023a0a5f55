"""What every request builder shares: text of blocks, images as addresses, pairing, tool schemas.

Comes in: messages that the sanitizer fitted to the target. Goes out: pieces of request bodies.
Pure; only the builders of this package import it.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

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
from shared.turns import ToolSpec
from worker.providers.requests import Endpoint, HttpRequest

Json: TypeAlias = dict[str, object]

INSTRUCTIONS = frozenset({Role.SYSTEM, Role.DEVELOPER})

encode = msgspec.json.Encoder().encode


def post(endpoint: Endpoint, path: str, auth: tuple[str, str] | None, body: Json) -> HttpRequest:
    """The HTTP request of a body; `path` stands behind the base URL, `auth` is the key's header."""
    headers = [("content-type", "application/json"), ("accept", "text/event-stream")]
    if auth is not None:
        headers.append(auth)
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


def opaque_of(blocks: Iterable[ContentBlock]) -> list[OpaqueBlock]:
    """The provider's own blocks."""
    return [block for block in blocks if isinstance(block, OpaqueBlock)]


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

"""Streams in the providers' own words, for tests that say only what matters to them."""

import json
from typing import Any


def sse(*events: Any) -> bytes:
    """Events without names: objects as JSON, strings as they are."""
    return b"".join(b"data: " + _text(event) + b"\n\n" for event in events)


def named(*events: dict[str, Any]) -> bytes:
    """Events under the name that stands in their `type`."""
    return b"".join(
        b"event: " + event["type"].encode() + b"\ndata: " + _text(event) + b"\n\n"
        for event in events
    )


def chat(delta: dict[str, Any] | None = None, **choice: Any) -> dict[str, Any]:
    """A chat chunk with one choice."""
    return {"id": "c1", "model": "gpt-x", "choices": [{"index": 0, "delta": delta or {}, **choice}]}


def chat_call(name: str | None = None, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    """A chat chunk with one fragment of a call."""
    function = {"name": name, "arguments": arguments}
    fragment = {"function": {key: item for key, item in function.items() if item is not None}}
    return chat({"tool_calls": [{**fragment, **fields}]})


STOP = chat(finish_reason="stop")
DONE = "[DONE]"


def claude(*blocks: dict[str, Any], stop: str = "end_turn", **message: Any) -> bytes:
    """A whole Anthropic stream around events of blocks."""
    head = {"id": "m1", "model": "claude-x", "content": [], "usage": {}, **message}
    return named(
        {"type": "message_start", "message": head},
        *blocks,
        {"type": "message_delta", "delta": {"stop_reason": stop}},
        {"type": "message_stop"},
    )


def gemini(*parts: dict[str, Any], finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """A Google event with one candidate."""
    candidate: dict[str, Any] = {"content": {"parts": list(parts)}}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "gemini-x", "responseId": "g1", **fields}


def _text(event: Any) -> bytes:
    return event.encode() if isinstance(event, str) else json.dumps(event).encode()


def body(value: Any, *, indent: int | None = None) -> bytes:
    """A JSON body that came where a stream was asked for."""
    return json.dumps(value, indent=indent).encode()

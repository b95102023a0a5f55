"""Deterministic provider streams and the ways to cut them, for the normalizer's bench.

Comes in: a wire format and a kind (`text`, `thinking`, `tool`). Goes out: one bytes object per
event, in envelopes of realistic size: 334 bytes an event for chat, 306 for responses, 130 for
Anthropic, 313 for Google.
"""

import json
import random
from collections.abc import Iterator
from typing import Any

DIALECTS = ("openai-chat", "openai-responses", "anthropic", "google")
KINDS = ("text", "thinking", "tool")
CUTS = ("event", "16k", "random")
DELTAS = 2000
ARGUMENT_BYTES = 64 * 1024
FRAGMENT_CHARS = 16
WORDS = (
    "the of and to in is that it was for on are as with his they at be this from have or by one "
    "had not but what all were when we there can an your which their said if do will each about "
    "how up out them then she many some so these would other into has more her two like him see"
)
TAILS = {".10": ". ", ".14": ".\n\n", ".17": " **bold**,", ".19": " été 你好", ".20": ' "q" \\ '}
Event = dict[str, Any]


def make(
    dialect: str, kind: str, *, deltas: int = DELTAS, size: int = ARGUMENT_BYTES
) -> list[bytes]:
    """The events of one stream."""
    writer = {
        "openai-chat": _chat,
        "openai-responses": _responses,
        "anthropic": _anthropic,
        "google": _google,
    }[dialect]
    return list(writer(kind, texts(deltas), arguments(size)))


def cut(events: list[bytes], how: str, seed: int = 11) -> list[bytes]:
    """The same bytes as chunks: an event each, 16 KiB each, or 1 to 100 bytes."""
    if how == "event":
        return list(events)
    body = b"".join(events)
    source = random.Random(seed)
    chunks, at = [], 0
    while at < len(body):
        size = 16 * 1024 if how == "16k" else source.randint(1, 100)
        chunks.append(body[at : at + size])
        at += size
    return chunks


def texts(count: int, seed: int = 7) -> list[str]:
    """Deltas of three words (about four tokens), with line ends, markup and some non-ASCII."""
    source, vocabulary = random.Random(seed), WORDS.split()
    deltas = []
    for _ in range(count):
        words = "".join(f" {source.choice(vocabulary)}" for _ in range(3))
        roll = source.random()
        tail = next((tail for limit, tail in TAILS.items() if roll < float(limit)), "")
        deltas.append(words + tail)
    return deltas


def arguments(size: int, seed: int = 3) -> str:
    """JSON of about `size` bytes: a list of objects with strings, numbers and lists."""
    source, vocabulary = random.Random(seed), WORDS.split()
    items: list[object] = []
    length = 0
    while length < size:
        words = " ".join(source.choice(vocabulary) for _ in range(24))
        item = {
            "id": len(items),
            "text": f'{words} "quoted"\n',
            "tags": [source.choice(vocabulary)],
        }
        length += len(json.dumps(item)) + 1
        items.append(item)
    return json.dumps({"title": "report", "items": items})


def fragments(text: str) -> list[str]:
    """Argument text as providers stream it."""
    return [text[at : at + FRAGMENT_CHARS] for at in range(0, len(text), FRAGMENT_CHARS)]


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _named(event: Event) -> bytes:
    name: str = event["type"]
    return b"event: " + name.encode() + b"\ndata: " + _json(event) + b"\n\n"


def _chat_chunk(
    delta: Event | None, finish: str | None = None, usage: Event | None = None
) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    chunk = {
        "id": "chatcmpl-Abc123Abc123Abc123Abc123Abc1",
        "object": "chat.completion.chunk",
        "created": 1790000000,
        "model": "gpt-test-2026-01-01",
        "service_tier": "default",
        "system_fingerprint": "fp_0123456789",
        "choices": [] if delta is None else [choice],
        "usage": usage,
        "obfuscation": "x7Kq2",
    }
    return b"data: " + _json(chunk) + b"\n\n"


def _chat(kind: str, said: list[str], argument: str) -> Iterator[bytes]:
    yield _chat_chunk({"role": "assistant", "content": "", "refusal": None})
    half = len(said) // 2 if kind == "thinking" else 0
    if kind == "tool":
        function = {"name": "submit_report", "arguments": ""}
        first = {"index": 0, "id": "call_abcdefabcdef", "type": "function", "function": function}
        yield _chat_chunk({"tool_calls": [first]})
        for fragment in fragments(argument):
            call = {"index": 0, "function": {"arguments": fragment}}
            yield _chat_chunk({"tool_calls": [call]})
    else:
        for text in said[:half]:
            yield _chat_chunk({"reasoning_content": text})
        for text in said[half:]:
            yield _chat_chunk({"content": text})
    yield _chat_chunk({}, "tool_calls" if kind == "tool" else "stop")
    counts = {"prompt_tokens": 100, "completion_tokens": 8000, "total_tokens": 8100}
    yield _chat_chunk(None, usage=counts)
    yield b"data: [DONE]\n\n"


def _responses(kind: str, said: list[str], argument: str) -> Iterator[bytes]:
    base: Event = {
        "id": "resp_0123456789abcdef",
        "object": "response",
        "model": "gpt-test",
        "output": [],
    }
    base |= {
        "created_at": 1790000000,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    for number, event in enumerate(_response_events(kind, said, argument, base)):
        yield _named({**event, "sequence_number": number})


def _response_events(kind: str, said: list[str], argument: str, base: Event) -> Iterator[Event]:
    yield {"type": "response.created", "response": {**base, "status": "in_progress"}}
    half = len(said) // 2 if kind == "thinking" else 0
    deltas = [("reasoning_summary_text", 0, text) for text in said[:half]]
    deltas += [("output_text", 1, text) for text in said[half:]]
    item: Event = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    if kind == "tool":
        deltas = [("function_call_arguments", 1, fragment) for fragment in fragments(argument)]
        item = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "submit_report"}
        item |= {"status": "in_progress", "arguments": ""}
    if half:
        thought = {"id": "rs_1", "type": "reasoning", "summary": []}
        yield {"type": "response.output_item.added", "output_index": 0, "item": thought}
    yield {"type": "response.output_item.added", "output_index": 1, "item": item}
    for name, index, text in deltas:
        places = {"output_index": index, "content_index": 0, "summary_index": 0}
        event = {"type": f"response.{name}.delta", "item_id": "msg_0123456789abcdef0123456789ab"}
        yield {**event, **places, "delta": text, "logprobs": [], "obfuscation": "x7Kq2"}
    if kind == "tool":
        done = {**item, "arguments": argument, "status": "completed"}
        yield {"type": "response.output_item.done", "output_index": 1, "item": done}
    usage: Event = {"input_tokens": 100, "output_tokens": 8000, "total_tokens": 8100}
    usage |= {"input_tokens_details": {"cached_tokens": 0}}
    usage |= {"output_tokens_details": {"reasoning_tokens": 0}}
    final = {**base, "status": "completed", "usage": usage}
    yield {"type": "response.completed", "response": final}


def _anthropic(kind: str, said: list[str], argument: str) -> Iterator[bytes]:
    message: Event = {
        "id": "msg_01ABC",
        "type": "message",
        "role": "assistant",
        "model": "claude-test-1",
    }
    message |= {"content": [], "stop_reason": None, "stop_sequence": None}
    usage = {"input_tokens": 100, "cache_read_input_tokens": 0, "output_tokens": 1}
    yield _named({"type": "message_start", "message": {**message, "usage": usage}})
    half = len(said) // 2 if kind == "thinking" else 0
    if kind == "tool":
        start = {"type": "tool_use", "id": "toolu_01ABC", "name": "submit_report", "input": {}}
        deltas = [
            {"type": "input_json_delta", "partial_json": text} for text in fragments(argument)
        ]
        yield from _anthropic_block(0, start, deltas)
    if half:
        thoughts = [{"type": "thinking_delta", "thinking": text} for text in said[:half]]
        thoughts.append({"type": "signature_delta", "signature": "Q" * 400})
        yield from _anthropic_block(
            0, {"type": "thinking", "thinking": "", "signature": ""}, thoughts
        )
    if kind != "tool":
        deltas = [{"type": "text_delta", "text": text} for text in said[half:]]
        yield from _anthropic_block(1 if half else 0, {"type": "text", "text": ""}, deltas)
    stop = "tool_use" if kind == "tool" else "end_turn"
    delta = {"stop_reason": stop, "stop_sequence": None}
    yield _named({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 8000}})
    yield _named({"type": "message_stop"})


def _anthropic_block(index: int, start: Event, deltas: list[Any]) -> Iterator[bytes]:
    yield _named({"type": "content_block_start", "index": index, "content_block": start})
    for delta in deltas:
        yield _named({"type": "content_block_delta", "index": index, "delta": delta})
    yield _named({"type": "content_block_stop", "index": index})


def _google(kind: str, said: list[str], argument: str) -> Iterator[bytes]:
    if kind == "tool":
        call = {"name": "submit_report", "args": json.loads(argument)}
        yield _google_event([{"functionCall": call, "thoughtSignature": "Q" * 400}])
    else:
        half = len(said) // 2 if kind == "thinking" else 0
        for text in said[:half]:
            yield _google_event([{"text": text, "thought": True}])
        for text in said[half:]:
            yield _google_event([{"text": text}])
    yield _google_event([{"text": ""}], "STOP")


def _google_event(parts: list[Any], finish: str | None = None) -> bytes:
    candidate: Event = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 40, "totalTokenCount": 140}
    details = [{"modality": "TEXT", "tokenCount": 100}]
    event = {"candidates": [candidate], "usageMetadata": {**usage, "promptTokensDetails": details}}
    event |= {"modelVersion": "gemini-test", "responseId": "abcDEF0123456789"}
    return b"data: " + _json(event) + b"\r\n\r\n"

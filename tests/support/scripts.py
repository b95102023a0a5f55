"""What a model might do, as a script, and the same script in the words of each wire format.

Comes in: hypothesis. Goes out: lists of SSE blocks, one event each, for the normalizer's
properties. The texts are chosen to hurt: halves of surrogate pairs, NUL, line ends of other
standards, quotes, JSON inside JSON.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.support import wire

NASTY = [
    "",
    "a",
    "Hello",
    " ",
    "\n\n",
    "\u2028",
    "\u0085",
    "é",
    "😀",
    "\ud83d",
    "\ude00",
    "\0",
    '"',
]
NASTY += ["\\", "data: x", "{", "}", "[DONE]", "\ufeff"]
texts = st.lists(st.sampled_from(NASTY), min_size=1, max_size=4).map("".join)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 500) | st.floats(-9, 9) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
Event = tuple[str, Any]


@dataclass(frozen=True)
class Call:
    """A tool call: its arguments in fragments, perhaps cut or spoiled."""

    name: str
    fragments: list[str]


@dataclass(frozen=True)
class Script:
    """A reply: text and reasoning (`text`, `think`) and calls, in order; `ends` is its finish."""

    steps: list[tuple[str, Any]]
    ends: bool


@st.composite
def calls(draw: st.DrawFn) -> Call:
    """A call whose argument text is whole, cut, or followed by something."""
    arguments = json.dumps(
        draw(st.dictionaries(texts, values, max_size=3)), ensure_ascii=draw(st.booleans())
    )
    arguments = (
        arguments[: draw(st.integers(0, len(arguments)))]
        if draw(st.booleans())
        else (arguments + draw(st.sampled_from(["", "", "x", " ", arguments])))
    )
    size = 1 + len(arguments) // draw(st.integers(1, 9))
    fragments = [arguments[at : at + size] for at in range(0, len(arguments), size)]
    return Call(draw(st.sampled_from(["roll", "search"])), fragments)


scripts = st.builds(
    Script,
    steps=st.lists(
        st.tuples(st.just("text"), texts)
        | st.tuples(st.just("think"), texts)
        | st.tuples(st.just("call"), calls()),
        max_size=6,
    ),
    ends=st.booleans(),
)


def chat(script: Script) -> Iterator[bytes]:
    """OpenAI chat completions."""
    field = {"text": "content", "think": "reasoning_content"}
    for number, (kind, step) in enumerate(script.steps):
        if kind in field:
            yield wire.sse(wire.chat({field[kind]: step}))
            continue
        yield wire.sse(wire.chat_call(step.name, "", index=number, id=f"c{number}"))
        for fragment in step.fragments:
            yield wire.sse(wire.chat_call(None, fragment, index=number))
    if script.ends:
        yield wire.sse(wire.STOP)
        yield wire.sse({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}})
        yield wire.sse(wire.DONE)


def anthropic(script: Script) -> Iterator[bytes]:
    """Anthropic messages."""
    yield wire.named({"type": "message_start", "message": {"id": "m", "model": "claude-x"}})
    for number, (kind, step) in enumerate(script.steps):
        start, deltas = _anthropic_block(kind, step, number)
        begin = {"type": "content_block_start", "index": number, "content_block": start}
        yield wire.named(begin)
        for delta in deltas:
            event = {"type": "content_block_delta", "index": number, "delta": delta}
            yield wire.named(event)
        yield wire.named({"type": "content_block_stop", "index": number})
    if script.ends:
        yield wire.named({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
        yield wire.named({"type": "message_stop"})


def _anthropic_block(kind: str, step: Any, number: int) -> tuple[dict[str, Any], list[Any]]:
    if kind == "text":
        return {"type": "text", "text": ""}, [{"type": "text_delta", "text": step}]
    if kind == "think":
        thinking = {"type": "thinking_delta", "thinking": step}
        return {"type": "thinking"}, [thinking, {"type": "signature_delta", "signature": "s"}]
    start = {"type": "tool_use", "id": f"c{number}", "name": step.name, "input": {}}
    return start, [{"type": "input_json_delta", "partial_json": f} for f in step.fragments]


def responses(script: Script) -> Iterator[bytes]:
    """OpenAI responses."""
    yield wire.named({"type": "response.created", "response": {"id": "r", "model": "gpt-x"}})
    kinds = {"text": "response.output_text.delta", "think": "response.reasoning_text.delta"}
    for number, (kind, step) in enumerate(script.steps):
        if kind in kinds:
            yield wire.named({"type": kinds[kind], "output_index": number, "delta": step})
            continue
        item = {"type": "function_call", "call_id": f"c{number}", "name": step.name}
        added = {"type": "response.output_item.added", "output_index": number, "item": item}
        yield wire.named(added)
        for fragment in step.fragments:
            kind = "response.function_call_arguments.delta"
            yield wire.named({"type": kind, "output_index": number, "delta": fragment})
    if script.ends:
        yield wire.named({"type": "response.completed", "response": {"status": "completed"}})


def google(script: Script) -> Iterator[bytes]:
    """Google generateContent, where a call comes whole."""
    part: dict[str, Any]
    for kind, step in script.steps:
        if kind == "call":
            part = {"functionCall": {"name": step.name, "args": {"text": "".join(step.fragments)}}}
        else:
            part = {"text": step, "thought": kind == "think"}
        yield wire.sse(wire.gemini(part, usageMetadata={"promptTokenCount": 3}))
    if script.ends:
        yield wire.sse(wire.gemini(finish="STOP"))


WRITERS: dict[str, Callable[[Script], Iterator[bytes]]] = {
    "custom": chat,
    "anthropic": anthropic,
    "openai": responses,
    "google": google,
}
streams = st.sampled_from(sorted(WRITERS)).flatmap(
    lambda provider: st.tuples(
        st.just(provider), scripts.map(lambda script: list(WRITERS[provider](script)))
    )
)
"""A provider and the blocks of a stream of its kind."""

endings = st.sampled_from([b"\n", b"\r\n", b"\r"])
noise = st.sampled_from(
    [
        b": keepalive\n",
        b": x\n\n",
        b"retry: 5\n",
        b"id: 7\n",
        b"color: blue\n",
        b"data: ping\n\n",
        b"event: ping\ndata: null\n\n",
        b"data:\n\n",
        b"\n\n",
    ]
)
"""What may stand between events and say nothing."""

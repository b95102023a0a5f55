"""Streams built to make a reader do its work again: the cost grows with the length only."""

import time
from collections.abc import Callable

import pytest

from tests.support import streams, wire

LENGTHS = (1000, 4000)
QUADRATIC = 16
"""What four times the length would cost if every step looked at everything before it."""


def whole_texts(count: int) -> bytes:
    delta = {"type": "response.output_text.delta", "delta": "x" * 500}
    return wire.named(*[delta, {"type": "response.output_text.done", "text": "x" * 5}] * count)


def whole_arguments(count: int) -> bytes:
    item = {"type": "function_call", "name": "f", "call_id": "c"}
    delta = {"type": "response.function_call_arguments.delta", "delta": "x" * 50}
    done = {"type": "response.function_call_arguments.done", "arguments": "y"}
    return wire.named({"type": "response.output_item.added", "item": item}, *[delta, done] * count)


def repeated_names(count: int) -> bytes:
    first = wire.chat_call("f", '{"a":"', index=0, id="c")
    return wire.sse(first, *[wire.chat_call("f", 'xyz}"\\"[', index=0)] * count)


def unknown_parts(count: int) -> bytes:
    return wire.sse(wire.gemini(*[{"x": 1}, {}] * count))


def stray_lines(count: int) -> bytes:
    return b"{" + b"x" * 200 * count + b"\n" + b"y\n" * count


def data_lines(count: int) -> bytes:
    return b"data: \n" * 10 * count + b"\n"


def streamed_paths(count: int) -> bytes:
    piece = {"jsonPath": "$.a", "stringValue": "x" * 100, "willContinue": True}
    call = {"functionCall": {"partialArgs": [piece], "willContinue": True}}
    first = {"functionCall": {"name": "f", "willContinue": True}}
    return wire.sse(wire.gemini(first), *[wire.gemini(call)] * count)


def summaries(count: int) -> bytes:
    start = {"type": "content_block_start", "content_block": {"type": "compaction"}}
    delta = {"type": "compaction_delta", "content": "x" * 100}
    return wire.claude(start, *[{"type": "content_block_delta", "delta": delta}] * count)


def cut_arguments(count: int) -> bytes:
    return wire.sse(wire.chat_call("f", '{"a":[' + "[1,2]," * count, index=0, id="c"), wire.STOP)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("provider", "write"),
    [
        ("openai", whole_texts),
        ("openai", whole_arguments),
        ("custom", repeated_names),
        ("google", unknown_parts),
        ("custom", stray_lines),
        ("custom", data_lines),
        ("google", streamed_paths),
        ("anthropic", summaries),
        ("custom", cut_arguments),
    ],
)
def test_cost_grows_with_the_length(provider: str, write: Callable[[int], bytes]):
    def seconds(count: int) -> float:
        body, best = write(count), []
        for _ in range(5):
            start = time.process_time()
            streams.run(provider, [body])
            best.append(time.process_time() - start)
        return min(best)

    short, long = map(seconds, LENGTHS)
    assert long < short * QUADRATIC / 2

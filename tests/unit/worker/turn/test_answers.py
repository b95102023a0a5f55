"""What a round's answer becomes in the next request: every block in its place, as it was said."""

import json
from typing import Any

import pytest

from shared.messages import ContentBlock, OpaqueBlock, TextBlock, ThinkingBlock, ToolCallBlock
from shared.turns import Api, Target, ToolSpec
from tests.support import wire
from tests.support.cuttings import common
from tests.support.turns import turn
from worker.turn.pipeline import pipeline_for

CLAUDE = Target(provider="anthropic", model="claude-x")
GPT = Target(provider="openai", model="gpt-x", api=Api.OPENAI_RESPONSES)
OWN = Target(provider="my-box", model="m")
CITATION = {"type": "web_search_result_location", "url": "https://a.example/x", "title": "T"}


def answer(target: Target, parts: list[bytes]) -> list[ContentBlock]:
    """The blocks of a round after which the turn goes on."""
    pipeline = pipeline_for(turn(target=target, tools=(ToolSpec(name="roll"),)), target, 1)
    for part in parts:
        pipeline.feed(part)
    pipeline.flush()
    assert pipeline.goes_on
    content = pipeline.answer(target).content
    assert isinstance(content, list)
    return content


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text(index: int, *deltas: str) -> list[dict[str, Any]]:
    parts = [{"type": "text_delta", "text": delta} for delta in deltas]
    return block(index, {"type": "text", "text": ""}, *parts)


def search(index: int) -> list[dict[str, Any]]:
    use = {"type": "server_tool_use", "id": f"s{index}", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": f"s{index}", "content": []}
    return [*block(index, use), *block(index + 1, found)]


PAUSED = wire.claude(
    *text(0, "Let me search."),
    *search(1),
    *block(
        3,
        {"type": "text", "text": ""},
        {"type": "text_delta", "text": "It is 330 m high."},
        {"type": "citations_delta", "citation": CITATION},
    ),
    *search(4),
    *text(6, "Built in ", "1889."),
    stop="pause_turn",
)


def test_a_pause_goes_back_as_it_was_said():
    for parts in common(PAUSED):
        content = answer(CLAUDE, parts)
        assert [type(one) for one in content] == [
            TextBlock, OpaqueBlock, OpaqueBlock, TextBlock, OpaqueBlock, OpaqueBlock, TextBlock,
        ]  # fmt: skip
        assert [one for one in content if isinstance(one, TextBlock)] == [
            TextBlock(text="Let me search."),
            TextBlock(text="It is 330 m high.", citations=[CITATION]),
            TextBlock(text="Built in 1889."),
        ]


def message(number: int, said: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": said}]
    return {"type": "message", "id": f"m{number}", "phase": "commentary", "content": content}


def commented(*texts: str) -> bytes:
    """Reasoning and a message, again and again, and a call at last."""
    items: list[dict[str, Any]] = []
    for number, said in enumerate(texts):
        items.append({"type": "reasoning", "id": f"r{number}", "encrypted_content": f"e{number}"})
        items.append(message(number, said))
    items.append({"type": "function_call", "call_id": "c", "name": "roll", "arguments": "{}"})
    return wire.named(
        {"type": "response.created", "response": {"id": "r", "model": "gpt-x"}},
        *(
            {"type": "response.output_item.done", "output_index": number, "item": item}
            for number, item in enumerate(items)
        ),
        {"type": "response.completed", "response": {"status": "completed", "output": items}},
    )


COMMENTED = {
    "as said": (["Looking.", "Found 3."], ["Looking.", "Found 3."]),
    "the first changed": (["Look<think>x</think>ing.", "Found 3."], ["Looking.", "Found 3."]),
    "the second changed": (["Looking.", "<think>x</think>Found."], ["Looking.", "Found."]),
    "both changed": (["a<think>x</think>b", "c<think>x</think>d", "e"], ["ab", "cd", "e"]),
    "nothing left": (["<think>x</think>", "Found 3."], ["", "Found 3."]),
}


@pytest.mark.parametrize(("texts", "shown"), COMMENTED.values(), ids=COMMENTED)
def test_reasoning_stands_before_what_it_led_to(texts: list[str], shown: list[str]):
    expected: list[str] = []
    for number, said in enumerate(shown):
        expected += [f"e{number}", *([f"{said} m{number} commentary"] if said else [])]
    for parts in common(commented(*texts)):
        assert [told(one) for one in answer(GPT, parts)] == [*expected, "roll"]


def told(one: ContentBlock) -> str:
    match one:
        case ThinkingBlock(thinking_signature=str() as signature):
            return str(json.loads(signature)["encrypted_content"])
        case TextBlock(text=said):
            return f"{said} {one.item_id} {one.phase}"
        case ToolCallBlock(name=name):
            return name
        case _:
            raise AssertionError(one)


def test_a_call_of_the_prose_leaves_the_texts_around_it_in_their_places():
    deltas = [
        {"reasoning_content": "First."},
        {"content": "I roll. "},
        {"content": "roll({})"},
        {"reasoning_content": "Then."},
        {"content": "Wait."},
    ]
    body = wire.sse(*map(wire.chat, deltas), wire.STOP, wire.DONE)
    for parts in common(body):
        *said, call = answer(OWN, parts)
        assert isinstance(call, ToolCallBlock)
        assert said == [
            ThinkingBlock(thinking="First."),
            TextBlock(text="I roll. "),
            ThinkingBlock(thinking="Then."),
            TextBlock(text="Wait."),
        ]

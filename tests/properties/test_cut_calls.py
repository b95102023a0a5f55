"""Calls that the token limit cuts: only a call that is whole may run, however the bytes are cut."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared.messages import ArgumentState, ToolCallBlock
from tests.support import cuttings, streams, wire
from worker.normalize.events import Done

WHOLE = '{"user": "ann", "days": 3}'
Deltas = Sequence[str]


def _chat(deltas: Deltas, *, cut: bool) -> bytes:
    end = wire.chat(finish_reason="length" if cut else "tool_calls")
    parts = [wire.chat_call(None, delta, index=0) for delta in deltas]
    return wire.sse(wire.chat_call("purge", "", index=0, id="c"), *parts, end, wire.DONE)


def _claude(deltas: Deltas, *, cut: bool) -> bytes:
    block = {"type": "tool_use", "id": "c", "name": "purge", "input": {}}
    parts = [{"type": "input_json_delta", "partial_json": delta} for delta in deltas]
    return wire.claude(
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": part} for part in parts),
        {"type": "content_block_stop", "index": 0},
        stop="max_tokens" if cut else "tool_use",
    )


def _responses(deltas: Deltas, *, cut: bool) -> bytes:
    item: dict[str, Any] = {"type": "function_call", "call_id": "c", "name": "purge"}
    status = "incomplete" if cut else "completed"
    last = item | {"arguments": "".join(deltas), "status": status}
    kind = "response.function_call_arguments.delta"
    return wire.named(
        {"type": "response.created", "response": {"id": "r", "model": "gpt-x"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        *({"type": kind, "output_index": 0, "delta": delta} for delta in deltas),
        {"type": f"response.{status}", "response": {"status": status, "output": [last]}},
    )


def _gemini(deltas: Deltas, *, cut: bool) -> bytes:
    calls = [{"partialArgs": [_piece(delta)], "willContinue": True} for delta in deltas]
    parts = [{"functionCall": call} for call in [{"name": "purge", "willContinue": True}, *calls]]
    if not cut:
        parts.append({"functionCall": {}})
    end = wire.gemini(finish="MAX_TOKENS" if cut else "STOP")
    return wire.sse(*(wire.gemini(part) for part in parts), end)


def _piece(delta: str) -> dict[str, Any]:
    """Google sends values, not JSON: a fragment is a whole value, so that none is torn."""
    return {"jsonPath": f"$.k{len(delta)}", "stringValue": delta}


WIRES: dict[str, Callable[..., bytes]] = {
    "custom": _chat,
    "anthropic": _claude,
    "openai": _responses,
    "google": _gemini,
}


def state_of(provider: str, chunks: Sequence[bytes]) -> ArgumentState:
    seen = streams.run(provider, chunks)
    assert isinstance(seen.end, Done)
    (block,) = seen.end.content
    assert isinstance(block, ToolCallBlock)
    state = seen.meta.argument_states.get(block.id, ArgumentState.OK)
    assert block.arguments_truncated == (state is not ArgumentState.OK)
    return state


@pytest.mark.parametrize("provider", WIRES)
@given(at=st.integers(0, len(WHOLE)), places=st.lists(st.integers(0, 2000), max_size=6))
@example(at=0, places=[])
@example(at=len(WHOLE), places=[])
def test_a_call_that_the_token_limit_cut_does_not_run(provider: str, at: int, places: list[int]):
    deltas = [piece for piece in (WHOLE[: at // 2], WHOLE[at // 2 : at]) if piece]
    body = WIRES[provider](deltas, cut=True)
    is_whole = at == len(WHOLE) and provider != "google"  # which says itself that it is open
    expected = ArgumentState.OK if is_whole else ArgumentState.TRUNCATED
    assert state_of(provider, cuttings.cut_at(body, [p % len(body) for p in places])) is expected


@pytest.mark.parametrize("provider", WIRES)
@pytest.mark.parametrize("deltas", [[], [WHOLE]], ids=["without arguments", "with arguments"])
def test_a_call_that_ends_as_calls_do_runs(provider: str, deltas: list[str]):
    assert state_of(provider, [WIRES[provider](deltas, cut=False)]) is ArgumentState.OK


@pytest.mark.parametrize("word", ["COMPLETE", "complete", "TOOL_CALL", "tool_use"])
def test_a_call_without_arguments_runs_at_every_word_that_ends_one(word: str):
    call = wire.chat_call("purge", "", index=0, id="c")
    body = wire.sse(call, wire.chat(finish_reason=word), wire.DONE)
    assert state_of("custom", [body]) is ArgumentState.OK


@pytest.mark.parametrize("finish", ["MAX_TOKENS", "OTHER", "STOP"])
def test_a_call_of_google_that_came_whole_runs(finish: str):
    part = {"functionCall": {"name": "purge", "args": json.loads(WHOLE)}}
    body = wire.sse(wire.gemini(part), wire.gemini(finish=finish))
    assert state_of("google", [body]) is ArgumentState.OK

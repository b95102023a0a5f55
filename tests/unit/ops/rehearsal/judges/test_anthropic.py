"""What Anthropic's door refuses, and in which words."""

from typing import Any

import msgspec
import pytest

from ops.rehearsal.judges.anthropic import AnthropicJudge
from ops.rehearsal.signatures import sign
from ops.rehearsal.values import Ask, Facts, Fault

FACTS = Facts(headers={"anthropic-version": "2023-06-01", "x-api-key": "k"})
JUDGE = AnthropicJudge()
THINKING = {"type": "enabled", "budget_tokens": 1024}
HM = {"type": "thinking", "thinking": "hm", "signature": sign("anthropic", "m", "hm")}
CALL = {"type": "tool_use", "id": "c1", "name": "roll", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "6"}
MARKED = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}


def read(*messages: dict[str, Any], facts: Facts = FACTS, **more: Any) -> Ask | Fault:
    body = {"model": "m", "max_tokens": 2000, "messages": list(messages) or [user("hi")], **more}
    return JUDGE.read(body, facts)


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content[0] if isinstance(content[0], str) else [*content]}


def said(*content: Any) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": content[0] if isinstance(content[0], str) else [*content],
    }


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def tool(name: str = "roll", schema: Any = None) -> dict[str, Any]:
    return {"name": name, "input_schema": {"type": "object"} if schema is None else schema}


REFUSED: list[tuple[str, list[dict[str, Any]], dict[str, Any]]] = [
    ("unknown field", [], {"prompt": "hi"}),
    ("first message must use", [said("a"), user("b")], {}),
    ("text content blocks must be non-empty", [user(text(""))], {}),
    ("must contain non-whitespace text", [user(text(" \n"))], {}),
    ("all messages must have non-empty content", [user("a"), said(""), user("b")], {}),
    ("cannot end with trailing whitespace", [user("a"), said("b ")], {}),
    ("must have a corresponding `tool_result`", [user("a"), said(CALL), user("b")], {}),
    ("`tool_use` ids were found without", [user("a"), said(CALL)], {}),
    ("unexpected `tool_use_id` found", [user("a"), said("b"), user(RESULT)], {}),
    ("must come first, once each", [user("a"), said(CALL), user(text("b"), RESULT)], {}),
    ("must come first, once each", [user("a"), said(CALL), user(RESULT, RESULT)], {}),
    ("ids must be unique", [user("a"), said(CALL, CALL), user(RESULT)], {}),
    ("should match pattern", [user("a"), said({**CALL, "id": "a.b"}), user("c")], {}),
    ("not permitted in `user`", [user(CALL)], {}),
    ("not permitted in `assistant`", [user("a"), said(RESULT), user("b")], {}),
    ("non-whitespace text", [user("a"), said(CALL), user({**RESULT, "content": [text(" ")]})], {}),
    (
        "Invalid `signature`",
        [user("a"), said({**HM, "signature": "U0lH"}, text("b")), user("c")],
        {},
    ),
    ("Invalid `signature`", [user("a"), said({**HM, "thinking": "h"}, text("b")), user("c")], {}),
    (
        "Invalid `data`",
        [user("a"), said({"type": "redacted_thinking", "data": "?"}, text("b")), user("c")],
        {},
    ),
    (
        "Expected `thinking` or `redacted_thinking`, but found `tool_use`",
        [user("a"), said(CALL), user(RESULT)],
        {"thinking": THINKING},
    ),
    ("must be greater than `thinking.budget_tokens`", [], {"thinking": THINKING, "max_tokens": 9}),
    ("may only be set to 1", [], {"thinking": THINKING, "temperature": 0.5}),
    ("Prefilling is not supported", [user("a"), said("b")], {"thinking": THINKING}),
    (
        "does not support assistant message prefill",
        [user("a"), said("b")],
        {"model": "claude-opus-4-7"},
    ),
    ("is not supported by this model", [], {"model": "claude-opus-5", "temperature": 1}),
    ("cannot both be specified", [], {"temperature": 0.5, "top_p": 0.9}),
    ("must contain non-whitespace", [], {"stop_sequences": ["\n"]}),
    ("A maximum of 4 blocks", [user(*[MARKED] * 5)], {}),
    ("String should match pattern", [], {"tools": [tool("a b")]}),
    ("Tool names must be unique", [], {"tools": [tool(), tool()]}),
    ("input_schema.type", [], {"tools": [tool(schema={"type": "string"})]}),
]


@pytest.mark.parametrize(("words", "messages", "more"), REFUSED, ids=[row[0] for row in REFUSED])
def test_it_refuses(words: str, messages: list[dict[str, Any]], more: dict[str, Any]):
    fault = read(*messages, **more)
    assert isinstance(fault, Fault)
    assert words in fault.message
    assert fault.status == 400
    error = msgspec.json.decode(JUDGE.error_body(fault))["error"]
    assert error == {"type": "invalid_request_error", "message": fault.message}


def test_it_wants_a_version():
    fault = read(facts=Facts(headers={}))
    assert isinstance(fault, Fault)
    assert "anthropic-version" in fault.message


def test_a_round_with_reasoning_passes():
    ask = read(
        user("a"),
        said(HM, CALL),
        user(RESULT, text("and?")),
        thinking=THINKING,
        system="Be kind.",
        tools=[tool()],
    )
    assert isinstance(ask, Ask)
    assert (ask.prompt, ask.tool_results, ask.tools) == ("and?", ("6",), ("roll",))
    assert ask.wants_thinking


def test_a_round_that_is_over_needs_no_reasoning():
    ask = read(user("a"), said(CALL), user(RESULT), said("b"), user("c"), thinking=THINKING)
    assert isinstance(ask, Ask)


def test_a_paused_turn_may_stand_last():
    own = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    messages = [user("a"), said(own)]
    assert isinstance(read(*messages, model="claude-opus-4-7"), Ask)
    assert isinstance(read(*messages, thinking={"type": "adaptive"}), Ask)


def test_a_breakpoint_is_no_content():
    marked, plain = read(user(MARKED)), read(user(text("a")))
    assert isinstance(marked, Ask)
    assert isinstance(plain, Ask)
    assert marked.blocks == plain.blocks
    assert (marked.breakpoints, plain.breakpoints) == ((1,), ())

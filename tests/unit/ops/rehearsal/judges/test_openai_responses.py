"""What the door of the Responses API refuses, and in which words."""

from typing import Any

import pytest

from ops.rehearsal.judges.openai_responses import ResponsesJudge
from ops.rehearsal.signatures import sign
from ops.rehearsal.values import Ask, Facts, Fault

FACTS = Facts(headers={})
CALL = {"type": "function_call", "call_id": "c1", "name": "roll", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "6"}
USER = {"role": "user", "content": "hi"}
SAID = {"role": "assistant", "content": "a"}
THOUGHT = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": sign("openai", "m", "hm"),
}


def read(items: object, **more: Any) -> Ask | Fault:
    return ResponsesJudge().read({"model": "m", "input": items, **more}, FACTS)


REFUSED: list[tuple[str, object, dict[str, Any]]] = [
    ("unknown field", "hi", {"messages": []}),
    (">= 16", "hi", {"max_output_tokens": 1}),
    ("empty array", [], {}),
    ("Invalid value for 'input[0]'", [{"type": "nothing"}], {}),
    ("Invalid value for 'input[0]'", [{**CALL, "call_id": "x" * 65}], {}),
    ("begins with 'fc'", [{**CALL, "id": "c1"}, OUTPUT], {}),
    ("begins with 'msg'", [{**SAID, "id": "x"}], {}),
    (
        "Supported values are: 'input_text'",
        [{**USER, "content": [{"type": "output_text", "text": "x"}]}],
        {},
    ),
    (
        "Supported values are: 'output_text'",
        [{**SAID, "content": [{"type": "input_text", "text": "x"}]}],
        {},
    ),
    ("No tool output found", [USER, CALL], {}),
    ("No tool call found", [USER, OUTPUT], {}),
    ("No tool call found", [USER, CALL, OUTPUT, OUTPUT], {}),
    ("Duplicate call_id", [USER, CALL, CALL, OUTPUT], {}),
    ("without its required following item", [USER, THOUGHT], {}),
    ("without its required following item", [USER, THOUGHT, USER], {}),
    ("could not be verified", [USER, {**THOUGHT, "encrypted_content": "U0lH"}, SAID], {}),
    (
        "not found. Items are not persisted",
        [USER, {**THOUGHT, "encrypted_content": None}, SAID],
        {},
    ),
]


@pytest.mark.parametrize(("words", "items", "more"), REFUSED)
def test_it_refuses(words: str, items: object, more: dict[str, Any]):
    fault = read(items, **more)
    assert isinstance(fault, Fault)
    assert words in fault.message
    assert fault.status == 400


@pytest.mark.parametrize(
    "items",
    ["hi", [USER, THOUGHT, SAID, USER], [USER, THOUGHT, CALL, OUTPUT], [USER, CALL, USER, OUTPUT]],
)
def test_it_accepts(items: object):
    assert isinstance(read(items), Ask)


def test_it_tells_what_was_asked():
    tool = {"type": "function", "name": "roll", "parameters": {}, "strict": False}
    ask = read([USER, CALL, OUTPUT], tools=[tool], reasoning={"effort": "none"}, stream=True)
    assert isinstance(ask, Ask)
    assert (ask.prompt, ask.tool_results, ask.tools) == ("hi", ("6",), ("roll",))
    assert (ask.wants_thinking, ask.is_streamed) == (False, True)
    assert ResponsesJudge().key(Facts(headers={"authorization": "Bearer k"})) == "k"

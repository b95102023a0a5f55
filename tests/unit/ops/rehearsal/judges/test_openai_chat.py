"""What the doors of chat completions refuse, OpenAI's and its dialects'."""

from typing import Any

import msgspec
import pytest

from ops.rehearsal.judges.chat_dialects import DIALECTS
from ops.rehearsal.judges.openai_chat import ChatJudge
from ops.rehearsal.values import Ask, Facts, Fault

JUDGES = {dialect.name: ChatJudge(dialect) for dialect in DIALECTS}
FACTS = Facts(headers={"authorization": "Bearer k"})
CALL = {"id": "c1", "type": "function", "function": {"name": "roll", "arguments": "{}"}}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "6"}
USER = {"role": "user", "content": "hi"}
SAID = {"role": "assistant", "content": "a"}


def read(vendor: str, *messages: dict[str, Any], **more: Any) -> Ask | Fault:
    body = {"model": "m", "messages": list(messages) or [USER], **more}
    return JUDGES[vendor].read(body, FACTS)


def called(**changes: Any) -> dict[str, Any]:
    return {**CALLED, "tool_calls": [{**CALL, **changes}]}


def function(**changes: Any) -> dict[str, Any]:
    return called(function={**CALL["function"], **changes})  # type: ignore[dict-item]  # its shape


def tool(name: str = "roll", **parameters: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


REFUSED: list[tuple[str, str, list[dict[str, Any]], dict[str, Any]]] = [
    ("openai", "unknown field", [], {"thinking": {"type": "enabled"}}),
    ("openai", "unknown field", [{**SAID, "reasoning_content": "hm"}], {}),
    ("openai", "Expected `str | array`", [{"role": "user", "content": 7}], {}),
    ("openai", "'stream_options' parameter", [], {"stream_options": {"include_usage": True}}),
    ("openai", "at the same time", [], {"max_tokens": 1, "max_completion_tokens": 1}),
    ("openai", "at most 4 stop", [], {"stop": list("abcde")}),
    ("openai", "Invalid 'tools': empty array", [], {"tools": []}),
    ("openai", "string does not match pattern", [], {"tools": [tool("a b")]}),
    ("openai", "Invalid schema for function", [], {"tools": [tool(type="string")]}),
    ("openai", "must be a response to a preceeding", [USER, RESULT], {}),
    ("openai", "did not have response messages: c1", [USER, CALLED, USER], {}),
    ("openai", "did not have response messages: c1", [USER, CALLED], {}),
    ("openai", "expected a string, got null", [USER, {"role": "assistant"}], {}),
    ("openai", "tool_calls': empty array", [USER, {**SAID, "tool_calls": []}], {}),
    ("openai", "Duplicate value", [USER, {**CALLED, "tool_calls": [CALL, CALL]}], {}),
    ("openai", "string too long", [USER, called(id="x" * 41)], {}),
    ("openai", "function.name': string", [USER, function(name="a b")], {}),
    ("openai", "the JSON of an object", [USER, function(arguments="[]")], {}),
    ("openai", "the JSON of an object", [USER, function(arguments="{")], {}),
    ("groq", "unknown variant `developer`", [{"role": "developer", "content": "x"}, USER], {}),
    ("zai", "at most 1 stop", [], {"stop": ["a", "b"]}),
    ("mistral", "Extra inputs are not permitted", [], {"stream_options": {}}),
    ("mistral", "Expected last role User or Tool", [USER, SAID], {}),
    ("mistral", "Unexpected role 'user' after role 'tool'", [USER, CALLED, RESULT, USER], {}),
    ("mistral", "must be a-z, A-Z, 0-9", [USER, CALLED, RESULT], {}),
    ("deepseek", "Missing `reasoning_content`", [USER, SAID, USER], {}),
    (
        "deepseek",
        "unknown variant `image_url`",
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
        {},
    ),
    ("litellm", "expects the `tools=` param", [USER, CALLED, RESULT], {}),
    ("vllm", "Conversation roles must alternate", [USER, USER], {}),
    ("vllm", "Conversation roles must alternate", [SAID, USER], {}),
    ("vllm", "must be at the beginning", [USER, {"role": "system", "content": "x"}], {}),
    ("vllm", "Last message must have role", [USER, SAID], {}),
]


@pytest.mark.parametrize(("vendor", "words", "messages", "more"), REFUSED)
def test_it_refuses(vendor: str, words: str, messages: list[dict[str, Any]], more: dict[str, Any]):
    fault = read(vendor, *messages, **more)
    assert isinstance(fault, Fault)
    assert words in fault.message
    error = msgspec.json.decode(JUDGES[vendor].error_body(fault))["error"]
    assert error["type"] == "invalid_request_error"


PASSED: list[tuple[str, list[dict[str, Any]], dict[str, Any]]] = [
    ("openai", [USER, CALLED, RESULT, USER], {"stop": "END"}),
    ("deepseek", [USER, SAID, USER], {"thinking": {"type": "disabled"}}),
    ("deepseek", [USER, {**SAID, "reasoning_content": ""}, USER], {}),
    ("mistral", [USER, {**SAID, "prefix": True}], {}),
    ("llamacpp", [USER, SAID], {}),
    ("vllm", [{"role": "system", "content": "x"}, USER, CALLED, RESULT], {}),
    (
        "openrouter",
        [{"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {}}]}],
        {"reasoning": {"effort": "low"}},
    ),
]


@pytest.mark.parametrize(("vendor", "messages", "more"), PASSED)
def test_it_accepts(vendor: str, messages: list[dict[str, Any]], more: dict[str, Any]):
    assert isinstance(read(vendor, *messages, **more), Ask)


@pytest.mark.parametrize("body", [[], {"messages": 7}, {"messages": [7]}, 7, None], ids=repr)
def test_what_is_no_request_is_refused(body: object):
    assert isinstance(JUDGES["mistral"].read(body, FACTS), Fault)


def test_it_tells_what_was_asked():
    ask = read("openai", USER, CALLED, RESULT, tools=[tool()], stream=True, reasoning_effort="none")
    assert isinstance(ask, Ask)
    assert (ask.prompt, ask.tool_results, ask.tools) == ("hi", ("6",), ("roll",))
    assert (ask.wants_usage, ask.wants_thinking, ask.is_streamed) == (False, False, True)


@pytest.mark.parametrize(
    ("vendor", "headers", "key"),
    [
        ("openai", {"authorization": "Bearer k"}, "k"),
        ("openai", {"authorization": "Basic k"}, None),
        ("openai", {"authorization": "Bearer "}, None),
        ("openai", {}, None),
        ("azure", {"api-key": "k"}, "k"),
        ("azure", {"authorization": "Bearer k"}, None),
    ],
)
def test_the_key_stands_in_the_vendors_header(
    vendor: str, headers: dict[str, str], key: str | None
):
    assert JUDGES[vendor].key(Facts(headers=headers)) == key

from typing import Any

import pytest

from shared.messages import TextBlock, ThinkingBlock, ToolCallBlock
from shared.turns import StopReason
from tests.support import streams, wire
from worker.normalize.events import Done, StreamFailed


def run(*chunks: Any, tools: tuple[str, ...] = ()) -> streams.Run:
    return streams.run("custom", [wire.sse(*chunks, wire.STOP, wire.DONE)], tools=tools)


def content(*deltas: dict[str, Any]) -> list[Any]:
    end = run(*map(wire.chat, deltas)).end
    assert isinstance(end, Done)
    return end.content


@pytest.mark.parametrize(
    "delta",
    [
        {"reasoning_content": "a"},
        {"reasoning": "a"},
        {"reasoning_text": "a"},
        {"reasoning_content": "", "reasoning": "a"},
        {"reasoning_content": "a", "reasoning": "a", "reasoning_text": "a"},
        {"reasoning": "a", "reasoning_details": [{"type": "reasoning.text", "text": "a"}]},
        {"reasoning": "x", "reasoning_details": [{"type": "reasoning.summary", "summary": "a"}]},
        {"reasoning": "a", "reasoning_details": [{"type": "reasoning.summary"}, {"type": "new"}]},
        {"reasoning": "a", "reasoning_details": [{"type": "reasoning.encrypted"}, 5]},
        {"reasoning_text": "a", "reasoning_details": [{"type": "reasoning.text"}]},
        {"content": [{"type": "thinking", "thinking": [{"text": "a"}, {}]}, {"type": "reference"}]},
        {"content": [{"type": "thinking", "thinking": "a"}, {"type": "text"}, 5]},
    ],
)
def test_reasoning_is_read_once_from_whatever_field(delta: dict[str, Any]):
    assert content(delta) == [ThinkingBlock(thinking="a")]


def test_signature_alone_belongs_to_the_reasoning_that_stands():
    signed = {"reasoning_details": [{"type": "reasoning.text", "signature": "s"}]}
    text = {"content": [{"type": "text", "text": "b"}]}
    assert content({"reasoning": "a"}, text, signed) == [
        ThinkingBlock(thinking="a", thinking_signature="s"),
        TextBlock(text="b"),
    ]
    assert content(text, signed) == [
        TextBlock(text="b"),
        ThinkingBlock(thinking="", thinking_signature="s"),
    ]


def test_encrypted_reasoning_is_kept_for_the_next_request():
    entry = {"type": "reasoning.encrypted", "data": "E", "index": 0}
    assert run(wire.chat({"reasoning_details": [entry]})).meta.reasoning_encrypted == [entry]


def test_refusal_is_visible_and_decides_the_stop_reason():
    seen = run(wire.chat({"refusal": "No."}))
    assert isinstance(seen.end, Done)
    assert (seen.joined("text_delta"), seen.end.stop_reason) == ("No.", StopReason.CONTENT_FILTER)


def test_whole_message_adds_only_what_deltas_have_not_said():
    message = {
        "content": "b",
        "refusal": None,
        "reasoning": "a",
        "tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}],
    }
    whole = {"choices": [{"message": message}]}
    expected = [
        ThinkingBlock(thinking="a"),
        TextBlock(text="b"),
        ToolCallBlock(id="c", name="f"),
    ]
    for first in ({}, {"reasoning": "a", "content": "b", "tool_calls": message["tool_calls"]}):
        end = run(wire.chat(first), whole).end
        assert isinstance(end, Done)
        assert end.content == expected


@pytest.mark.parametrize(
    "signed",
    [
        {"extra_content": {"google": {"thought_signature": "s"}}},
        {"thought_signature": "s"},
    ],
)
def test_signature_rides_on_its_call(signed: dict[str, Any]):
    fragment = wire.chat_call(None, '"a":1}', index=0, **signed)
    end = run(wire.chat_call("f", "{", index=0, id="c"), fragment).end
    assert isinstance(end, Done)
    assert end.content == [
        ToolCallBlock(id="c", name="f", arguments={"a": 1}, thought_signature="s")
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [({"a": [1]}, {"a": [1]}), ([1], {}), (None, {}), ("", {}), ("null", {}), (5, {})],
)
def test_arguments_may_come_in_any_type(arguments: object, expected: dict[str, object]):
    end = run(wire.chat_call("f", arguments, index=0, id="c")).end
    assert isinstance(end, Done)
    (block,) = end.content
    assert isinstance(block, ToolCallBlock)
    assert block.arguments == expected


def test_control_tokens_are_cut_from_names():
    end = run(wire.chat_call("f<|channel|>commentary", "{}", index=0, id=" c ")).end
    assert isinstance(end, Done)
    assert end.content == [ToolCallBlock(id="c", name="f")]


def test_call_of_the_legacy_field_and_without_a_function():
    legacy = wire.chat({"function_call": {"name": "f", "arguments": "{}"}})
    bare = wire.chat({"tool_calls": [{"index": 0, "id": "c"}]})
    seen = run(legacy, bare)
    assert isinstance(seen.end, Done)
    names = [block.name for block in seen.end.content if isinstance(block, ToolCallBlock)]
    assert names == ["f", "unknown"]


@pytest.mark.parametrize(
    ("failing", "code"),
    [
        ({"error": {"code": 429, "message": "m"}}, "429"),
        ({"object": "error", "code": "c", "message": "m"}, "c"),
        ({"type": "error", "code": "c", "message": "m"}, "c"),
        (wire.chat(error={"code": "c"}), "c"),
        (wire.chat(finish_reason="error"), "error"),
        (wire.chat(finish_reason="insufficient_system_resource"), "insufficient_system_resource"),
        ({**wire.chat({"content": "late"}), "error": "word"}, None),
    ],
)
def test_errors_in_the_stream_end_it(failing: dict[str, Any], code: str | None):
    for before in ([], [wire.chat({"content": "a"})]):
        end = run(*before, failing).end
        assert isinstance(end, StreamFailed)
        assert end.reason.code == code


def test_only_the_first_choice_is_the_reply_and_the_host_is_kept():
    other = {"index": 1, "delta": {"content": "other"}, "finish_reason": "length"}
    chunk = {**wire.chat({"content": "mine"}), "provider": "Host"}
    chunk["choices"] = [other, *chunk["choices"]]
    seen = run({"choices": [other]}, chunk)
    assert isinstance(seen.end, Done)
    assert seen.joined("text_delta") == "mine"
    assert seen.end.stop_reason is StopReason.STOP
    assert seen.meta.serving_provider == "Host"


def test_choice_without_a_delta_says_nothing():
    assert isinstance(run({"choices": [{"index": 0, "delta": None}]}).end, Done)


def test_falsy_errors_and_objects_of_other_kinds_are_no_errors():
    seen = run({"hint": 1}, {"choices": None, "error": ""}, {"choices": []}, {**wire.STOP})
    assert isinstance(seen.end, Done)
    assert seen.meta.unknown == 1


@pytest.mark.parametrize(
    ("word", "reason"),
    [("end", StopReason.STOP), ("model_length", StopReason.LENGTH), ("new", StopReason.UNKNOWN)],
)
def test_finish_words(word: str, reason: StopReason):
    chunks = wire.sse(wire.chat(finish_reason=word, native_finish_reason="NATIVE"), wire.DONE)
    seen = streams.run("custom", [chunks])
    assert isinstance(seen.end, Done)
    assert seen.end.stop_reason is reason
    assert (seen.meta.raw_stop_reason, seen.meta.native_stop_reason) == (word, "NATIVE")


USAGE = {"prompt_tokens": 10, "completion_tokens": 4}


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (USAGE, {"input": 10, "output": 4, "total": 14}),
        ({**USAGE, "cost": 0}, {"input": 10, "output": 4, "total": 14, "cost": 0}),
        (
            {**USAGE, "prompt_cache_hit_tokens": 6},
            {"input": 10, "output": 4, "cache_read": 6, "total": 14},
        ),
        (
            {**USAGE, "prompt_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 1}},
            {"input": 41, "output": 4, "cache_read": 30, "cache_write": 1, "total": 45},
        ),
        (
            {"prompt_tokens_details": {"cached_tokens": 30}},
            {"cache_read": 30},
        ),
        (
            {**USAGE, "total_tokens": 17, "completion_tokens_details": {"reasoning_tokens": 3}},
            {"input": 10, "output": 7, "reasoning": 3, "total": 17},
        ),
        (
            {**USAGE, "total_tokens": 14, "completion_tokens_details": {"reasoning_tokens": 3}},
            {"input": 10, "output": 4, "reasoning": 3, "total": 14},
        ),
        (
            {"total_tokens": 13, "prompt_tokens": 10, "completion_tokens_details": USAGE}
            | {"completion_tokens_details": {"reasoning_tokens": 3}},
            {"input": 10, "reasoning": 3, "total": 13},
        ),
        (
            {"completion_tokens": 4, "total_tokens": 7}
            | {"completion_tokens_details": {"reasoning_tokens": 3}},
            {"output": 4, "reasoning": 3, "total": 7},
        ),
        ({"prompt_tokens": "10", "completion_tokens": -4}, {}),
    ],
)
@pytest.mark.parametrize("place", ["chunk", "choice", "groq"])
def test_usage_is_found_wherever_it_stands(
    usage: dict[str, Any], expected: dict[str, Any], place: str
):
    chunk = wire.chat({"content": "a"})
    holder = {"chunk": chunk, "choice": chunk["choices"][0], "groq": {}}[place]
    holder["usage"] = usage
    if place == "groq":
        chunk["x_groq"] = holder
    assert run(chunk).meta.usage == expected


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("STOP", StopReason.STOP),
        ("MAX_TOKENS", StopReason.LENGTH),
        ("Tool_Calls", StopReason.TOOL_USE),
        ("COMPLETE", StopReason.STOP),
        ("TOOL_CALL", StopReason.TOOL_USE),
        ("function_calls", StopReason.TOOL_USE),
        ("max_output_tokens", StopReason.LENGTH),
        ("guardrail_intervened", StopReason.CONTENT_FILTER),
        ("tired", StopReason.UNKNOWN),
    ],
)
def test_finish_words_are_read_in_any_case(word: str, expected: StopReason):
    end = wire.chat({"content": "a"})
    end["choices"][0]["finish_reason"] = word
    seen = streams.run("custom", [wire.sse(end, wire.DONE)])
    assert isinstance(seen.end, Done)
    assert seen.end.stop_reason is expected
    assert seen.meta.raw_stop_reason == word

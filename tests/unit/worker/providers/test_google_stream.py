from typing import Any

import pytest

from shared.messages import (
    ArgumentState,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from shared.turns import StopReason
from tests.support import streams, wire
from worker.normalize.events import Done, StreamFailed, ToolCallDelta
from worker.normalize.reply import MAX_ARGUMENT_CHARS
from worker.providers.google_arguments import MAX_GAP, Assembly, PartialArg


def run(*parts: dict[str, Any], finish: str = "STOP") -> streams.Run:
    """A stream with an event per part."""
    events = [wire.gemini(part) for part in parts]
    return streams.run("google", [wire.sse(*events, wire.gemini(finish=finish))])


def content(*parts: dict[str, Any]) -> list[Any]:
    end = run(*parts).end
    assert isinstance(end, Done)
    return end.content


def call(**fields: Any) -> dict[str, Any]:
    return {"functionCall": fields}


def piece(path: str, more: bool = False, **value: Any) -> dict[str, Any]:
    return {"jsonPath": path, "willContinue": more, **value}


def arguments(*parts: dict[str, Any]) -> object:
    (block,) = content(*parts)
    assert isinstance(block, ToolCallBlock)
    return block.arguments


def test_signatures_stay_with_what_was_signed():
    blocks = content(
        {"text": "a", "thoughtSignature": "1"},
        {"text": "b"},
        {"text": "", "thoughtSignature": "2"},
        {"text": "", "thoughtSignature": "3"},
        {"text": "c", "thought": True},
        {"text": "", "thoughtSignature": "4"},
        {"text": ""},
    )
    assert blocks == [
        TextBlock(text="a", text_signature="1"),
        TextBlock(text="b", text_signature="2"),
        TextBlock(text="", text_signature="3"),
        ThinkingBlock(thinking="c", thinking_signature="4"),
    ]
    assert content({"text": "", "thoughtSignature": "1"}) == [
        TextBlock(text="", text_signature="1")
    ]


def test_an_empty_signature_is_none():
    part = call(name="f") | {"thoughtSignature": ""}
    assert [block.thought_signature for block in content(part)] == [None]


def test_parts_of_unknown_kinds_are_kept_as_they_came():
    raw = {"inlineData": {"mimeType": "image/png", "data": "AA=="}}
    assert content(raw, {}) == [OpaqueBlock(provider="google", raw=raw)]
    both = wire.sse(wire.gemini(raw, {"text": "a"}, raw, finish="STOP"))
    end = streams.run("google", [both]).end
    assert isinstance(end, Done)
    assert [type(block) for block in end.content] == [OpaqueBlock, TextBlock, OpaqueBlock]
    wrapped = wire.sse({"response": wire.gemini(raw, finish="STOP")})
    end = streams.run("google", [wrapped]).end
    assert isinstance(end, Done)
    assert end.content == [OpaqueBlock(provider="google", raw=raw)]


def test_only_the_first_candidate_is_the_reply():
    event = {
        "candidates": [
            {"index": 1, "content": {"parts": [{"text": "other"}]}},
            {"index": 0, "content": {"parts": [{"inlineData": 1}, {"text": "mine"}]}},
        ],
    }
    second = {"candidates": [{"index": 1, "finishReason": "STOP"}, "x"]}
    seen = streams.run("google", [wire.sse(event, second, wire.gemini(finish="STOP"))])
    assert seen.joined("text_delta") == "mine"


def test_whole_call_is_compact_and_complete():
    (event,) = [
        event
        for event in run(call(name="f", id="c", args={"a": [1, "é\u2028"]})).events
        if isinstance(event, ToolCallDelta)
    ]
    assert (event.id, event.raw_json_delta) == ("c", '{"a":[1,"é\u2028"]}')


@pytest.mark.parametrize("args", [None, [], "x", {}, {"a": "\ud83d"}, {"a": "b\0"}])
def test_arguments_with_a_flaw_take_the_slow_way(args: object):
    expected = {"a": "\ufffd"} if args == {"a": "\ud83d"} else {}
    expected = {"a": "b"} if args == {"a": "b\0"} else expected
    assert arguments(call(name="f", args=args)) == expected
    assert arguments(call(name="f")) == {}


def test_streamed_arguments_are_assembled_by_path():
    assert arguments(
        call(name="f", willContinue=True),
        call(partialArgs=[piece("$.a", stringValue="x", more=True)], willContinue=True),
        call(partialArgs=[piece("$.a", stringValue="y"), piece("$.b[0].c", numberValue=1.5)]),
        call(partialArgs=[piece("$['d e'][1]", boolValue=True), piece("$.n", nullValue="NULL")]),
        call(),
    ) == {"a": "xy", "b": [{"c": 1.5}]}


def test_streamed_arguments_end_with_the_piece_that_does_not_continue():
    assert arguments(
        call(name="f", partialArgs=[piece("$.a[1]", stringValue="x", more=True)]),
        call(
            partialArgs=[
                piece("$.a[1]", stringValue="y", more=True),
                piece("$.d", boolValue=False),
                piece("$.n", nullValue="NULL_VALUE"),
                piece("$", stringValue="no place"),
                piece("$.e"),
            ]
        ),
        call(),
    ) == {"a": [None, "xy"], "d": False, "n": None}


@pytest.mark.parametrize(("more", "state"), [(True, ArgumentState.TRUNCATED), (False, None)])
def test_call_that_is_open_at_the_finish_is_assembled(more: bool, state: ArgumentState | None):
    pieces = [piece("$.a", stringValue="x", more=more)]
    seen = run(call(name="f", partialArgs=pieces, willContinue=True))
    assert isinstance(seen.end, Done)
    (block,) = seen.end.content
    assert isinstance(block, ToolCallBlock)
    assert block.arguments == {"a": "x"}
    assert seen.meta.argument_states.get(block.id) is state


@pytest.mark.parametrize("finish", ["MAX_TOKENS", "SAFETY", "OTHER"])
@pytest.mark.parametrize("pieces", [[], [piece("$.a", stringValue="x")]], ids=["bare", "partial"])
def test_call_that_is_open_at_another_end_does_not_run(finish: str, pieces: list[dict[str, Any]]):
    seen = run(call(name="f", partialArgs=pieces, willContinue=True), finish=finish)
    assert isinstance(seen.end, Done)
    (block,) = seen.end.content
    assert isinstance(block, ToolCallBlock)
    assert seen.meta.argument_states == {block.id: ArgumentState.TRUNCATED}


def test_next_call_ends_an_open_one():
    first, second = content(call(name="f", willContinue=True), call(name="g", args={"a": 1}))
    assert (first.name, first.arguments) == ("f", {})
    assert (second.name, second.arguments) == ("g", {"a": 1})


def test_call_without_a_name_and_without_an_open_call_is_unknown():
    assert run(call(args={"a": 1})).meta.unknown == 1


def test_streamed_arguments_have_the_limit_of_all_arguments():
    long = "x" * (MAX_ARGUMENT_CHARS // 2)
    pieces = [piece("$.a", stringValue=long, more=True)]
    part = call(partialArgs=pieces, willContinue=True)
    end = run(call(name="f", willContinue=True), part, part).end
    assert isinstance(end, StreamFailed)
    assert end.reason.code == "limit_exceeded"


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["$.a", "$.a.b"], '{"a":{"b":1}}'),
        (["$.a[0]", "$.a.b"], '{"a":[1]}'),
        (["$.a[0]", "$.a.b.c"], '{"a":[1]}'),
        (["$.a.b", "$.a[0]"], '{"a":{"b":1,"0":1}}'),
        ([f"$.a[{MAX_GAP}]"], '{"a":[' + "null," * MAX_GAP + "1]}"),
        ([f"$.a[{MAX_GAP + 1}]"], '{"a":[]}'),
        (["$." + "a." * 300 + "a"], "{}"),
    ],
)
def test_paths_that_contradict_or_reach_too_far_change_nothing(paths: list[str], expected: str):
    assembly = Assembly()
    assembly.add([PartialArg(json_path=path, number_value=1) for path in paths])
    assert assembly.text() == expected


def test_prompt_that_was_refused_is_a_filter_stop_with_its_reason():
    seen = streams.run("google", [wire.sse({"promptFeedback": {"blockReason": "SAFETY"}})])
    assert isinstance(seen.end, Done)
    assert seen.end.stop_reason is StopReason.CONTENT_FILTER
    assert seen.meta.block_reason == "SAFETY"
    harmless = wire.sse({"promptFeedback": {}}, wire.gemini(finish="STOP"))
    assert isinstance(streams.run("google", [harmless]).end, Done)


def test_finish_details_and_grounding_are_kept():
    event = wire.gemini(finish="MALFORMED_FUNCTION_CALL")
    event["candidates"][0] |= {"finishMessage": "why", "groundingMetadata": {"a": 1}}
    seen = streams.run("google", [wire.sse(event)])
    assert isinstance(seen.end, StreamFailed)
    assert (seen.end.reason.code, seen.end.reason.message) == ("MALFORMED_FUNCTION_CALL", "why")
    assert seen.meta.grounding == {"a": 1}
    assert seen.meta.stop_details == "why"


def test_object_that_is_no_response_is_skipped():
    seen = streams.run("google", [wire.sse({"hint": 1}, wire.gemini(finish="STOP"))])
    assert isinstance(seen.end, Done)
    assert seen.meta.unknown == 1


def test_last_valid_count_of_each_field_wins_over_many_events():
    usages: list[dict[str, Any]] = [{"promptTokenCount": 5, "cachedContentTokenCount": 3}]
    usages += [{"promptTokenCount": number, "thoughtsTokenCount": "x"} for number in range(100)]
    usages += [{"promptTokenCount": -1, "toolUsePromptTokenCount": 1, "candidatesTokenCount": 2}]
    events = [wire.gemini({"text": "a"}, usageMetadata=usage) for usage in usages]
    seen = streams.run("google", [wire.sse(*events, wire.gemini(finish="STOP"))])
    assert seen.meta.usage == {"input": 100, "output": 2, "cache_read": 3, "total": 102}
